// node-oidc-provider on loopback, with accounts that have what a test gives it on standard input.
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import Provider from "oidc-provider";

const { clients, accounts } = JSON.parse(await text(process.stdin));
const server = createServer();
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients,
    claims: { openid: ["sub"], email: ["email", "email_verified"], groups: ["groups"] },
    scopes: ["openid", "email", "groups"],
    findAccount: (_, id) => accounts[id] && { accountId: id, claims: () => ({ sub: id, ...accounts[id] }) },
    features: { devInteractions: { enabled: true } },
    cookies: { keys: ["for this test alone"] },
  });
  provider.on("server_error", (_, error) => console.error(error));
  server.on("request", provider.callback());
  console.log(issuer);
});
