// How people are called on this page. Mission Control's actors say of which kind they are: person:Ada, key:ci:dyk1,
// agent:demo.desk; those of a shell are names alone.
export function whoIs(actor) {
  const [, kind, name] = /^(person|key|agent):([^:]*)/.exec(actor) ?? [];
  return { person: name, key: `key ${name}`, agent: "agent" }[kind] ?? actor;
}
