import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { after, before, test } from "node:test";

import { Desktop, DesktopError } from "./desktop.js";
import { code, operations, types } from "./generate.js";
import { OPERATIONS } from "./operations.js";

const read = (name) => readFileSync(new URL(name, import.meta.url), "utf8");
const document = JSON.parse(read("../openapi.json"));
const found = operations(document);
let server, base, asked, answer;

before(async () => {
  server = createServer(async (request, response) => {
    const pieces = [];
    for await (const piece of request) pieces.push(piece);
    asked.push({ method: request.method, url: request.url, headers: request.headers, body: Buffer.concat(pieces).toString() });
    answer(request, response);
  }).listen(0, "127.0.0.1");
  await new Promise((listening) => server.once("listening", listening));
  base = `http://127.0.0.1:${server.address().port}`;
});
after(() => server.close());
test.beforeEach(() => {
  asked = [];
  answer = (request, response) => response.end('{"ok": true}');
});

test("what is generated is what the document says", () => {
  assert.equal(read("operations.js"), code(found));
  assert.equal(read("operations.d.ts"), types(found, document));
});

test("each operation of the document is a method, which asks for its path", async () => {
  const sockets = [];
  class Socket {
    constructor(url, options) {
      sockets.push({ url, options });
    }
  }
  const desktop = await Desktop.connect(base, { WebSocket: Socket });
  answer = (request, response) => response.end('data: {"event": "x"}\n\n'.slice(0, request.headers.accept.includes("event") ? undefined : 0) || "{}");
  for (const { name, method, path, parameters, answer: kind } of found) {
    assert.equal(typeof desktop[name], "function", name);
    const given = Object.fromEntries(parameters.map((parameter) => [parameter.name, "a b"]));
    const inside = path.replace(/{\w+}/g, "a%20b");
    if (kind === "socket") {
      desktop[name](given);
      assert.equal(new URL(sockets.at(-1).url).pathname, inside);
      continue;
    }
    if (kind === "events") for await (const event of desktop[name](given)) assert.equal(event.event, "x");
    else await desktop[name](given);
    const { method: how, url } = asked.at(-1);
    assert.deepEqual([how, new URL(url, base).pathname], [method, inside], name);
    const queried = parameters.filter((parameter) => parameter.in === "query").map((parameter) => parameter.name);
    assert.deepEqual([...new URL(url, base).searchParams.keys()], queried, name);
  }
  assert.equal(Object.keys(OPERATIONS).length, found.length);
  assert.ok(found.length > 40);
});

test("a link opens once, and its token goes with each request and is shown nowhere", async () => {
  answer = (request, response) =>
    response.end(request.url === "/redeem"
      ? JSON.stringify({ token: "secret", routes: ["computer"], path: "/d/d1/", expires: Date.now() / 1000 + 900 })
      : "{}");
  const sockets = [];
  const desktop = await Desktop.connect(`${base}/#ticket`, { WebSocket: class { constructor(...all) { sockets.push(all); } } });
  assert.deepEqual(JSON.parse(asked[0].body), { ticket: "ticket" });
  assert.equal(asked[0].headers.origin, base);
  await desktop.act({ actions: [{ type: "move", x: 0, y: 0 }], return: { format: "jpeg" } });
  assert.deepEqual([asked[1].url, asked[1].headers.authorization], ["/d/d1/computer/v1/act", "Bearer secret"]);
  assert.deepEqual(JSON.parse(asked[1].body), { actions: [{ type: "move", x: 0, y: 0 }], return: { format: "jpeg" } });
  desktop.openStream({ id: "abc" });
  assert.deepEqual(sockets[0], [
    `${base.replace("http", "ws")}/d/d1/computer/v1/streams/abc`,
    { protocols: ["binary"], headers: { Authorization: "Bearer secret" } },
  ]);
  assert.ok(!JSON.stringify(desktop).includes("secret"));
  desktop.close();
});

test("a session is renewed again after all that passes, and not when it is over", async (t) => {
  const waits = [];
  const { setTimeout } = globalThis;
  globalThis.setTimeout = (call) => (waits.push(call), { unref() {} });
  t.after(() => { globalThis.setTimeout = setTimeout; });
  const facts = { token: "first", path: "/d/d1/", routes: ["computer"], expires: Date.now() / 1000 + 900 };
  let answer = () => Response.json(facts);
  const tokens = [];
  const fetch = async (address, request) => (tokens.push(request.headers.Authorization), answer());
  const desktop = await Desktop.connect("https://gateway/#ticket", { fetch });
  for (const passing of [503, 429, 500]) {
    answer = () => Response.json({ error: "service", message: "does not answer" }, { status: passing });
    await waits.shift()();
  }
  for (const strange of ["<p>Sign in", "{}", "[1]"]) {
    answer = () => new Response(strange);
    await waits.shift()();
  }
  answer = () => Response.json({ ...facts, token: "second" });
  await waits.shift()();
  answer = () => Response.json({ error: "session", message: "is over" }, { status: 401 });
  await waits.shift()();
  assert.deepEqual(tokens, [undefined, ...Array(7).fill("Bearer first"), "Bearer second"]);
  assert.deepEqual(waits, []);
  desktop.close();
});

test("a refusal is raised with field, reason, remedy, status and all that was answered", async () => {
  answer = (request, response) => {
    response.statusCode = 409;
    response.end('{"error": "driver", "value": "person", "reason": "drives", "remedy": "wait", "results": [1]}');
  };
  const desktop = await Desktop.connect(base);
  await assert.rejects(desktop.act({ actions: [] }), (error) => {
    assert.ok(error instanceof DesktopError);
    assert.deepEqual([error.field, error.value, error.reason, error.remedy, error.status], ["driver", "person", "drives", "wait", 409]);
    assert.deepEqual(error.body.results, [1]);
    return true;
  });
});

test("what cannot be asked is named before it is sent", async () => {
  const desktop = await Desktop.connect(base);
  await assert.rejects(desktop.getStream({}), { field: "id" });
  await assert.rejects(desktop.screen({ colour: "red" }), { field: "colour" });
  await assert.rejects(Desktop.connect("nowhere"), { field: "link" });
  await assert.rejects(Desktop.connect("ftp://x/#t"), { field: "link" });
  assert.deepEqual(asked, []);
});

test("where nobody answers, the error says so", async () => {
  const closed = createServer().listen(0, "127.0.0.1");
  await new Promise((listening) => closed.once("listening", listening));
  const { port } = closed.address();
  await new Promise((gone) => closed.close(gone));
  const desktop = await Desktop.connect(`http://127.0.0.1:${port}`);
  await assert.rejects(desktop.listWindows(), (error) => error.field === "link" && error.reason.includes("ECONNREFUSED"));
});

test("files are bytes both ways", async () => {
  answer = (request, response) => response.end(request.method === "GET" ? Buffer.from([0, 255, 10]) : "{}");
  const desktop = await Desktop.connect(base);
  assert.deepEqual(await desktop.readFile({ path: "a" }), new Uint8Array([0, 255, 10]));
  await desktop.writeFile({ path: "a b", content: new Uint8Array([104, 105]) });
  assert.deepEqual([asked[1].url, asked[1].body], ["/v1/files/content?path=a+b", "hi"]);
});

test("events come one by one, however they are cut, and leaving ends the request", async () => {
  let left;
  const gone = new Promise((resolve) => { left = resolve; });
  answer = (request, response) => {
    response.on("close", left);
    for (const piece of [": alive\n\nid: 1\nda", 'ta: {"event": "window.appeared", "title": "\u00fc', '"}\n\nevent: end\ndata: {}\n\n']) response.write(piece);
  };
  const desktop = await Desktop.connect(base);
  const seen = [];
  for await (const event of desktop.events({ after: 3 })) {
    seen.push(event.event);
    if (seen.length === 2) break;
  }
  assert.deepEqual(seen, ["window.appeared", "end"]);
  await gone;
});
