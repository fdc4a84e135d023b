// What E2B's own client does with a sandbox: where, and of which, a test says on standard input.
import assert from "node:assert/strict";
import { text } from "node:stream/consumers";

import { Sandbox } from "e2b";

const ended = (code) => (error) => error.exitCode === code;
const named = (name) => (error) => error.name === name;

/** Waits for what is called back: `heard(value)`, until `fits(value)` holds. */
function hearing(fits) {
  let resolve;
  const came = new Promise((done) => { resolve = done; });
  return { came, heard: (value) => { if (fits(value)) resolve(value); } };
}

const uses = {
  async commands({ commands }) {
    const result = await commands.run("echo $COLOUR; pwd; echo trouble >&2", { envs: { COLOUR: "blue" }, cwd: "/tmp" });
    assert.deepEqual([result.stdout, result.stderr, result.exitCode], ["blue\n/tmp\n", "trouble\n", 0]);
    await assert.rejects(commands.run("echo partly; exit 3"), (error) => ended(3)(error) && error.stdout === "partly\n");
    await assert.rejects(commands.run("true", { user: "somebody-else" }), named("AuthenticationError"));
    await assert.rejects(commands.run("sleep 600", { timeoutMs: 500 }), named("TimeoutError"));
  },

  async streams({ commands }) {
    const first = hearing((said) => said === "got first\n");
    const second = hearing((said) => said === "got second\n");
    const onStdout = (said) => [first, second].forEach(({ heard }) => heard(said));
    const command = await commands.run("while read line; do echo got $line; done; exit 4", {
      background: true, stdin: true, onStdout,
    });
    const again = await commands.connect(command.pid);
    await commands.sendStdin(command.pid, "first\n");
    await first.came;
    await commands.sendStdin(command.pid, "second\n");
    await second.came;
    assert((await commands.list()).some(({ pid }) => pid === command.pid));
    assert(await command.kill());
    assert(!(await commands.kill(command.pid)));
    for (const handle of [command, again]) await assert.rejects(handle.wait(), (error) => error.exitCode !== 0);
    await assert.rejects(commands.sendStdin(command.pid, "x"), named("NotFoundError"));
  },

  async files({ files }) {
    const words = "Grüße, 世界. ".repeat(10_000);
    const bytes = Uint8Array.from({ length: 300_000 }, (_, place) => place % 256);
    const stream = () => new Blob([bytes]).stream();
    assert.equal((await files.write("deep/er/words", words)).name, "words");
    assert.equal(await files.read("deep/er/words"), words);
    for (const data of [bytes.buffer, new Blob([bytes]), stream()]) {
      await files.write("deep/bytes", data);
      assert.deepEqual(await files.read("deep/bytes", { format: "bytes" }), bytes);
    }
    assert.equal((await files.read("deep/bytes", { format: "blob" })).size, bytes.length);
    const read = await files.read("deep/bytes", { format: "stream" });
    assert.deepEqual(new Uint8Array(await new Response(read).arrayBuffer()), bytes);
    const many = [{ path: "many/a", data: "a" }, { path: "many/b", data: "b" }];
    assert.deepEqual((await files.write(many)).map(({ name }) => name), ["a", "b"]);
    assert.deepEqual((await files.list("many")).map(({ name, type, size }) => [name, type, size]), [
      ["a", "file", 1], ["b", "file", 1],
    ]);
    assert.equal((await files.rename("many/a", "many/c")).name, "c");
    assert.equal((await files.getInfo("many/c")).size, 1);
    assert.deepEqual([await files.exists("many/a"), await files.exists("many/c")], [false, true]);
    assert.deepEqual([await files.makeDir("made/here"), await files.makeDir("made/here")], [true, false]);
    for (const path of ["many", "made"]) await files.remove(path);
    assert(!(await files.exists("many")));
    await assert.rejects(files.read("many/c"), (error) => /NotFoundError$/.test(error.name));
  },

  async watching({ files }) {
    await files.makeDir("watched/deeper");
    const written = hearing(({ type, name }) => type === "write" && name === "deeper/new");
    const removed = hearing(({ type, name }) => type === "remove" && name === "deeper/new");
    const onEvent = (event) => [written, removed].forEach(({ heard }) => heard(event));
    const watch = await files.watchDir("watched", onEvent, { recursive: true });
    await files.write("watched/deeper/new", "x");
    await written.came;
    await files.remove("watched/deeper/new");
    await removed.came;
    await watch.stop();
    await assert.rejects(files.watchDir("nowhere", onEvent), (error) => /NotFoundError$/.test(error.name));
  },

  async terminals({ pty }) {
    let said = "";
    const onData = (data) => { said += Buffer.from(data); };
    const terminal = await pty.create({ cols: 80, rows: 24, onData, cwd: "/", envs: { COLOUR: "blue" } });
    await pty.resize(terminal.pid, { cols: 120, rows: 40 });
    await pty.sendInput(terminal.pid, Buffer.from("echo $COLOUR-; stty size; pwd; exit 0\n"));
    assert.equal((await terminal.wait()).exitCode, 0);
    assert.match(said, /blue-[^]*40 120/);
    const other = await pty.create({ cols: 80, rows: 24, onData });
    assert(await pty.kill(other.pid));
    assert(!(await pty.kill(other.pid)));
  },

  async left_and_taken_up({ commands, files, pty }) {
    const command = await commands.run("cat; exit 3", { background: true, stdin: true });
    await commands.sendStdin(command.pid, "Hello");
    await commands.closeStdin(command.pid);
    await assert.rejects(command.wait(), (error) => ended(3)(error) && error.stdout === "Hello");
    await files.writeFiles([{ path: "noted", data: "x" }], { metadata: { by: "me" } });
    assert.deepEqual((await files.rename("noted", "renoted")).metadata, { by: "me" });
    await files.write("pressed", "z".repeat(100_000), { gzip: true, useOctetStream: true });
    assert.equal((await files.read("pressed", { gzip: true })).length, 100_000);
    let said = "";
    const terminal = await pty.create({ cols: 80, rows: 24, onData: () => {} });
    await terminal.disconnect();
    const again = await pty.connect(terminal.pid, { onData: (data) => { said += Buffer.from(data); } });
    await pty.sendInput(terminal.pid, Buffer.from("echo here-$((40 + 2)); exit 0\n"));
    assert.equal((await again.wait()).exitCode, 0);
    assert.match(said, /here-42/);
  },
};

const { id, options } = JSON.parse(await text(process.stdin));
const sandbox = id ? await Sandbox.connect(id, options) : await Sandbox.create(options);
assert(await sandbox.isRunning());
for (const use of Object.values(uses)) await use(sandbox);
process.exit(0);
