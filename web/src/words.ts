// Operations and desktops in the words of a person.
import type { Desktop, Operation } from "./api/types";

export const LOOK = "workspace.look";

const KINDS: Record<string, string> = {
  "desktop.create": "create",
  "desktop.start": "start",
  "desktop.stop": "stop",
  "desktop.restart": "restart",
  "desktop.pause": "pause",
  "desktop.resume": "resume",
  "desktop.upgrade": "upgrade",
  "upgrade.preview": "ask what an upgrade takes",
  "desktop.freeze": "stop the agent",
  "desktop.thaw": "let the agent go on",
  "desktop.destroy": "destroy",
  "desktop.session": "open the screen",
  "desktop.chat": "message",
  "task.begin": "get a desktop for a task",
  "task.release": "end a desktop for a task",
  "task.tidy": "end what is over, and fill the pool",
  "approval.decide": "answer",
  "operation.decide": "answer an operation",
  "approval-rule.set": "set the rule of approvals",
  "approval-rule.remove": "remove the rule of approvals",
  "retention.set": "set how long conversations are kept",
  "retention.remove": "keep conversations as the site says",
  "snapshot.create": "take a snapshot",
  "snapshot.restore": "put back to a snapshot",
  "backup.run": "back up",
  "egress.allow": "allow a name",
  "egress.close": "close or reopen names",
  [LOOK]: "look",
  "workspace.verify": "verify the isolation",
  "workspace.up": "bring up",
  "workspace.start": "start",
  "workspace.stop": "stop",
  "workspace.create": "make the workspace",
  "workspace.destroy": "destroy the workspace",
  "destroy.preview": "ask what would be lost",
  "person.enrol": "enrol a passkey",
  "person.invite": "invite a person",
  "person.remove": "remove a person",
  "passkey.remove": "remove a passkey",
  "key.create": "make a key",
};

export function kindOf(operation: { kind: string }): string {
  return KINDS[operation.kind] ?? operation.kind;
}

export function targetOf(operation: Operation): string {
  return operation.desktopId ?? operation.workspaceId ?? "";
}

/** Whether a desktop stays until it is destroyed; one for a task is changed by nobody, and goes by itself. */
export function isKept(desktop: Desktop): boolean {
  return desktop.lifetime !== "task";
}

export function isOver(operation: Operation): boolean {
  return ["done", "failed", "cancelled"].includes(operation.state);
}

/** How many there are of something. */
export function many(count: number, noun: string): string {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

/** The first names of many, and how many more there are. */
export function listed(names: string[], most = 3): string {
  const shown = names.slice(0, most).join(", ");
  return names.length > most ? `${shown} and ${names.length - most} more` : shown;
}

export function capital(words: string): string {
  return words.slice(0, 1).toUpperCase() + words.slice(1);
}

/** Whether the same can be asked for again; what was signed counts once. */
export function canRepeat(operation: Operation): boolean {
  const signed = /^(person\.|passkey\.|key\.|approval|operation\.|retention|egress\.|((desktop|workspace)\.(destroy|session|upgrade)|workspace\.create|snapshot\.restore)$)/.test(operation.kind);
  return ["failed", "cancelled"].includes(operation.state) && !signed;
}

/** The scope that an operation needs of whoever cancels it or tries it again. */
export function neededFor({ kind }: Operation): string {
  if (/^(key\.create|person\.(invite|remove)|passkey\.remove)$/.test(kind)) return "admin";
  return kind === "desktop.chat" ? "chat" : "desktops:write";
}

/** The name of somebody whom the API calls `person:Ada`, `key:ci:dyk1`, `agent:demo.desk` or `host:ada`: an account there. */
export function whoIs(actor: string): string {
  const [kind, name] = actor.split(":");
  if (kind === "host") return `${actor.slice(5)} at the host`;
  if (kind === "agent") return "agent";
  if (kind === "key") return `key ${name}`;
  return name ?? actor;
}

/** A browser in few words, of the line that it says of itself. */
export function browserOf(agent: string): string {
  const name = /(Firefox|Edg|Chrome|Safari)\w*\/(\d+)/.exec(agent);
  const system = /Windows|Android|iPhone|iPad|Mac OS|Linux/.exec(agent);
  return name ? `${name[1]} ${name[2]}${system ? `, ${system[0]}` : ""}` : agent.slice(0, 40);
}

/** What an operation does now, or where in the queue and why it does nothing yet. */
export function progressOf(operation: Operation): string {
  const { state, position, why, progress } = operation;
  if (state === "queued") {
    return [position === null ? "queued" : `place ${position} in the queue`, why].filter(Boolean).join(": ");
  }
  return (state === "waiting" ? why : progress) ?? state;
}

export function doing(operation: Operation): string {
  return `${kindOf(operation)}: ${progressOf(operation)}`;
}
