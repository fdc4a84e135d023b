// Opens a page in a Chromium without a screen; prints what it shows as soon as one of the awaited texts is in it, or at the end.
const { spawn } = require("node:child_process");
const { mkdtempSync, rmSync } = require("node:fs");

const [url, seconds, ...awaited] = process.argv.slice(2);
const profile = mkdtempSync("/tmp/look-");
const options = ["--headless", "--disable-gpu", "--remote-debugging-port=0", `--user-data-dir=${profile}`];
const browser = spawn("chromium", [...options, url]);

const debuggers = new Promise((resolve) => {
  let said = "";
  browser.stderr.on("data", (data) => {
    const found = /ws:\/\/[^/]+/.exec((said += data));
    if (found) resolve(found[0].replace("ws:", "http:"));
  });
});

async function shown() {
  const targets = await (await fetch(`${await debuggers}/json/list`)).json();
  const socket = new WebSocket(targets.find((target) => target.type === "page").webSocketDebuggerUrl);
  await new Promise((resolve) => (socket.onopen = resolve));
  const answer = new Promise((resolve) => (socket.onmessage = resolve));
  const params = { expression: "document.documentElement.outerHTML" };
  socket.send(JSON.stringify({ id: 1, method: "Runtime.evaluate", params }));
  const text = JSON.parse((await answer).data).result.result.value;
  socket.close();
  return text;
}

async function main() {
  let text = "";
  for (const end = Date.now() + seconds * 1000; Date.now() < end && !awaited.some((part) => text.includes(part)); ) {
    await new Promise((resolve) => setTimeout(resolve, 500));
    text = await shown().catch(() => text); // Between two pages there is none.
  }
  console.log(text);
  browser.once("exit", () => rmSync(profile, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 }));
  browser.kill();
}
main();
