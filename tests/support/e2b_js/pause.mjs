// A sandbox that is paused and gone on with by E2B's own client: where, a test says on standard input.
import assert from "node:assert/strict";
import { text } from "node:stream/consumers";

import { Sandbox } from "e2b";

const { options } = JSON.parse(await text(process.stdin));

const sandbox = await Sandbox.create("lab/pro", { lifecycle: { onTimeout: "pause" }, ...options });
const id = sandbox.sandboxId;
const state = async () => (await Sandbox.getInfo(id, options)).state;

for (const pause of [() => sandbox.betaPause(), () => Sandbox.pause(id, { ...options, keepMemory: false })]) {
  assert(await pause());
  assert.equal(await state(), "paused");
  assert(!(await Sandbox.pause(id, options)), "it is paused already");
  await Sandbox.connect(id, options);
  assert.equal(await state(), "running");
}
await Sandbox.kill(id, options);
console.log(id);
process.exit(0);
