// A sandbox from its beginning to its end by E2B's own client: where, a test says on standard input.
import assert from "node:assert/strict";
import { text } from "node:stream/consumers";

import { Sandbox } from "e2b";

const { options } = JSON.parse(await text(process.stdin));

const made = { timeoutMs: 600_000, metadata: { "odd name": "ä=ö&?" }, ...options };
const sandbox = await Sandbox.create("lab/pro", made);
const id = sandbox.sandboxId;
const listed = async (query) => {
  const pages = Sandbox.list({ query, limit: 1, ...options });
  const found = [];
  while (pages.hasNext) found.push(...(await pages.nextItems()).map(({ sandboxId }) => sandboxId));
  return found;
};
const left = async () => (await Sandbox.getInfo(id, options)).endAt - Date.now();

const info = await Sandbox.getInfo(id, options);
assert.deepEqual([info.templateId, info.metadata, info.state], ["lab/pro", made.metadata, "running"]);
assert.deepEqual(await listed({ metadata: made.metadata }), [id]);
assert.deepEqual(await listed({ metadata: { "odd name": "other" } }), []);
assert.equal((await listed({ state: ["running"] })).length, 2, "the other is a person's, and comes on a page of its own");
assert(await left() <= 600_000);
await sandbox.setTimeout(3_600_000);
assert(await left() > 600_000);
const pause = () => Sandbox.pause(id, options);
assert(await pause());
assert(!(await pause()), "it is paused already");
assert.deepEqual(await listed({ state: ["paused"] }), [id]);
const again = await Sandbox.connect(id, options);
assert.equal((await again.getInfo()).state, "running");
await assert.rejects(Sandbox.kill("lab--persons", options), /was not made by Sandbox.create/);
assert.notEqual(await again.kill(), false);
assert.equal(await Sandbox.kill(id, options), false, "it is gone");
await assert.rejects(Sandbox.connect(id, options), (error) => /NotFoundError$/.test(error.name));
await assert.rejects(Sandbox.create({ ...options, apiKey: "dyk_nobody" }), (error) => error.name === "AuthenticationError");
console.log(id);
process.exit(0);
