// node-oidc-provider on loopback, with accounts that have what a test gives it on standard input, a line of JSON each time.
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import Provider from "oidc-provider";

let accounts = {};
// Standard output is for answers alone: notices of the library would be taken for them.
console.info = console.warn = console.error;
const server = createServer();

function serve(clients) {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients,
    claims: { openid: ["sub"], email: ["email", "email_verified"], groups: ["groups"] },
    scopes: ["openid", "email", "groups", "offline_access"],
    findAccount: (_, id) => accounts[id] && { accountId: id, claims: () => ({ sub: id, ...accounts[id] }) },
    features: { devInteractions: { enabled: true } },
    cookies: { keys: ["for this test alone"] },
  });
  provider.on("server_error", (_, error) => console.error(error));
  server.on("request", provider.callback());
  return issuer;
}

const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const said = JSON.parse(line);
  accounts = said.accounts;
  if (said.clients) server.listen(0, "127.0.0.1", () => console.log(serve(said.clients)));
  else console.log("known");
});
// Nobody is left to tell it anything.
lines.on("close", () => process.exit());
