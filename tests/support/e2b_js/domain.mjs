// E2B's own client by its variables alone (E2B_DOMAIN, E2B_API_KEY), where every name leads to loopback.
import assert from "node:assert/strict";
import dns from "node:dns";
import { text } from "node:stream/consumers";

const lookup = dns.lookup;
dns.lookup = (name, ...rest) => lookup("127.0.0.1", ...rest);

const { id } = JSON.parse(await text(process.stdin));
const { Sandbox } = await import("e2b");
try {
  const sandbox = await Sandbox.connect(id);
  assert.equal((await sandbox.commands.run("echo there")).stdout, "there\n");
  await sandbox.files.write("by-name", "Hello");
  assert.equal(await sandbox.files.read("by-name"), "Hello");
  console.log("worked");
} catch (error) {
  console.log(`${error.name}: ${error.message} ${error.cause?.code ?? error.cause?.cause?.code ?? ""}`);
}
process.exit(0);
