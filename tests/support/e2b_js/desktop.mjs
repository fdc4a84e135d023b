// What E2B's own desktop client does with a screen: where, a test says on standard input.
import assert from "node:assert/strict";
import { text } from "node:stream/consumers";

import { Sandbox } from "@e2b/desktop";

const { options } = JSON.parse(await text(process.stdin));
// By itself it takes screen :0, whatever its options say, unless a template is named before them.
const desktop = await Sandbox.create("desktop", options);

const [width, height] = options.resolution;
assert.deepEqual(await desktop.getScreenSize(), { width, height });
const picture = Buffer.from(await desktop.screenshot());
assert.deepEqual([picture.toString("latin1", 1, 4), picture.readUInt32BE(16)], ["PNG", width]);
assert.equal((await desktop.screenshot("blob")).size > 0, true);
await desktop.moveMouse(300, 200);
assert.deepEqual(await desktop.getCursorPosition(), { x: 300, y: 200 });
await desktop.leftClick(320, 220);
await desktop.doubleClick();
await desktop.middleClick(325, 225);
await desktop.rightClick(330, 230);
await desktop.scroll("down", 2);
await desktop.scroll("up", 1);
await desktop.drag([340, 240], [360, 260]);
assert.deepEqual(await desktop.getCursorPosition(), { x: 360, y: 260 });
// The window manager gives the focus after a click, when it comes to it.
await desktop.waitAndVerify("xdotool getwindowfocus getwindowname", ({ stdout }) => stdout.trim() === "recorder", 60);
await desktop.write("Hello, $HOME 'desk'");
await desktop.press(["shift", "a"]);
await desktop.press("enter");
assert.equal(await desktop.getWindowTitle(await desktop.getCurrentWindowId()), "recorder");
process.exit(0);
