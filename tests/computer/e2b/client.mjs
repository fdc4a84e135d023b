// What E2B's JavaScript clients do on a desktop, as one line of JSON. Arguments: the service's URL, a screen's number.
import { Sandbox as Desktop } from "@e2b/desktop";
import { Sandbox } from "e2b";

const [, , sandboxUrl, number] = process.argv;
const reached = { debug: true, sandboxUrl };
const encoder = new TextEncoder();
const refusal = (promise) => promise.then(() => "none", ({ name }) => name);

async function commands(sandbox) {
  const said = { out: "", err: "" };
  const { exitCode } = await sandbox.commands.run("echo $WORD; echo trouble >&2; pwd", {
    envs: { WORD: "blue" },
    cwd: "/",
    onStdout: (text) => (said.out += text),
    onStderr: (text) => (said.err += text),
  });
  const reading = await sandbox.commands.run("read -r line; echo got $line", { background: true, stdin: true });
  const listed = (await sandbox.commands.list()).some(({ pid }) => pid === reading.pid);
  const again = await sandbox.commands.connect(reading.pid);
  await sandbox.commands.sendStdin(reading.pid, "it\n");
  const cat = await sandbox.commands.run("cat", { background: true, stdin: true });
  return {
    exitCode,
    ...said,
    listed,
    connected: (await again.wait()).stdout,
    killed: await cat.kill(),
    failed: await sandbox.commands.run("exit 3").catch((error) => error.exitCode),
    late: await refusal(sandbox.commands.run("sleep 60", { timeoutMs: 300 })),
    stranger: await refusal(sandbox.commands.run("id", { user: "nobody-such" })),
  };
}

async function terminal(sandbox) {
  let text = "";
  const decoder = new TextDecoder();
  const onData = (data) => (text += decoder.decode(data, { stream: true }));
  const shell = await sandbox.pty.create({ cols: 80, rows: 24, onData });
  await sandbox.pty.resize(shell.pid, { cols: 100, rows: 30 });
  await sandbox.pty.sendInput(shell.pid, encoder.encode("stty size; exit\n"));
  await shell.wait();
  return text.includes("30 100") ? "30 100" : text;
}

async function files(sandbox) {
  const { files } = sandbox;
  const text = "Grüße 🎉";
  await files.write("js/a.txt", text);
  await files.write("js/b.bin", new Blob([new Uint8Array([0, 255, 1])]));
  let change;
  const changed = new Promise((resolve) => (change = resolve));
  const watching = await files.watchDir("js", change);
  await files.write("js/c.txt", "new");
  const { name, type } = await changed;
  await watching.stop();
  const moved = await files.rename("js/c.txt", "js/d.txt");
  const listed = (await files.list("js")).map((entry) => [entry.name, entry.type, entry.size]);
  const bytes = Array.from(await files.read("js/b.bin", { format: "bytes" }));
  const same = (await files.read("js/a.txt")) === text;
  await files.remove("js");
  return {
    same, bytes, listed, watched: [name, type], moved: moved.name,
    gone: !(await files.exists("js")), missing: await refusal(files.read("js/a.txt")),
  };
}

async function hands(desktop) {
  await desktop.moveMouse(300, 200);
  const pointer = await desktop.getCursorPosition();
  await desktop.leftClick(320, 220);
  await desktop.rightClick(330, 230);
  // The window manager gives the focus after the click, when it comes to it.
  await desktop.waitAndVerify("xdotool getwindowfocus getwindowname", ({ stdout }) => stdout.trim() === "recorder", 60);
  // Without a size of chunks beside a delay it writes nothing.
  await desktop.write("Hello from JavaScript", { chunkSize: 25, delayInMs: 1 });
  await desktop.press("enter");
  const picture = await desktop.screenshot();
  const view = new DataView(picture.buffer, picture.byteOffset);
  return {
    pointer, size: await desktop.getScreenSize(), picture: [view.getUint32(16), view.getUint32(20)],
    title: await desktop.getWindowTitle(await desktop.getCurrentWindowId()),
  };
}

const sandbox = await Sandbox.create(reached);
const done = { alive: await sandbox.isRunning(), commands: await commands(sandbox) };
Object.assign(done, { terminal: await terminal(sandbox), files: await files(sandbox) });
// By itself it takes screen :0, whatever its options say, unless a template is named before them.
const desktop = await Desktop.create("desktop", { ...reached, display: `:${number}`, resolution: [1000, 700] });
done.hands = await hands(desktop);
console.log(JSON.stringify(done));
process.exit(0);
