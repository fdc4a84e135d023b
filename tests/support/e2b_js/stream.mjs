// The address of a stream by E2B's own desktop client: where, and whether with a key, a test says on standard input.
import { text } from "node:stream/consumers";

import { Sandbox } from "@e2b/desktop";

const { id, requireAuth, options } = JSON.parse(await text(process.stdin));
const { stream } = await Sandbox.connect(id, options);
await stream.start({ requireAuth });
console.log(stream.getUrl(requireAuth ? { authKey: stream.getAuthKey() } : {}));
process.exit(0);
