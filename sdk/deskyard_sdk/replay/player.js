"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const find = (id) => document.getElementById(id);
const { frames, actions, sizes } = data;
// When something happens, in order.
const times = Float64Array.from([...frames.map((frame) => frame[0]), ...actions.map((action) => action.at)]).sort();
const end = times.length ? Math.max(0.01, times[times.length - 1]) : 0.01;
const STILL = 2; // seconds: what stands still for longer is passed over
const canvas = find("screen");
const pen = canvas.getContext("2d");
let at = 0;
let shown = -1; // the frame that the canvas shows
let wanted = -1;
let drawing = false;
let playing = false;
let before = 0;

// How many of a list are there at a time.
function past(length, moment, time) {
  let low = 0;
  let high = length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (moment(middle) <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}

const frameAt = (time) => Math.max(0, past(frames.length, (index) => frames[index][0], time) - 1);

function bytes(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

async function draw(index) {
  for (const [x, y, width, height, kind, content] of frames[index][2]) {
    if (content === undefined) {
      pen.fillStyle = kind;
      pen.fillRect(x, y, width, height);
    } else {
      pen.drawImage(await createImageBitmap(new Blob([bytes(content)], { type: `image/${kind}` })), x, y);
    }
  }
}

// Draws from frame to frame; from the beginning of the segment where the way leads back or into another one.
async function show() {
  if (drawing) return;
  drawing = true;
  while (shown !== wanted) {
    const target = wanted;
    const segment = frames[target][1];
    let next = shown + 1;
    if (shown < 0 || target < shown || frames[shown][1] !== segment) {
      next = target;
      while (next > 0 && frames[next - 1][1] === segment) next -= 1;
      [canvas.width, canvas.height] = sizes[segment];
    }
    for (; next <= target && wanted >= next; next += 1) {
      await draw(next);
      shown = next;
    }
  }
  canvas.dataset.frame = shown;
  drawing = false;
}

const clock = (time) => new Date((data.begin + time) * 1000).toLocaleString();

function go(time) {
  at = Math.min(Math.max(0, time), end);
  find("seek").value = at;
  find("time").textContent = `${at.toFixed(1)} s of ${end.toFixed(1)} s, ${clock(at)}`;
  actions.forEach((action, index) => {
    const item = find("actions").children[index];
    item.className = action.at > at ? "" : action.at > at - 1 ? "now" : "done";
  });
  if (frames.length) {
    wanted = frameAt(at);
    show();
  }
}

function step(now) {
  if (!playing) return;
  let time = at + ((now - before) / 1000) * Number(find("speed").value);
  before = now;
  if (find("skip").checked) {
    const next = times[past(times.length, (index) => times[index], at)];
    if (next - at > STILL) time = Math.max(time, next - STILL / 2);
  }
  go(time);
  if (at >= end) play(false);
  else requestAnimationFrame(step);
}

function play(on) {
  playing = on;
  find("play").textContent = on ? "Pause" : "Play";
  if (on) {
    if (at >= end) go(0);
    before = performance.now();
    requestAnimationFrame(step);
  }
}

for (const action of actions) {
  const words = `${action.actor} ${action.kind} ${action.where} ${action.window} ${action.ok ? "" : `failed: ${action.error}`}`;
  const mark = document.createElement("button");
  mark.title = `${action.at.toFixed(1)} s: ${words.replace(/ +/g, " ").trim()}`;
  mark.className = `${action.ok ? "" : "failed"} ${action.actor}`.trim();
  mark.style.left = `${(action.at / end) * 100}%`;
  mark.addEventListener("click", () => go(action.at));
  find("marks").append(mark);
  const item = document.createElement("li");
  item.textContent = mark.title;
  find("actions").append(item);
}
find("seek").max = end;
find("seek").addEventListener("input", () => go(Number(find("seek").value)));
find("play").addEventListener("click", () => play(!playing));
addEventListener("keydown", (event) => {
  if (event.key === " " && event.target === document.body) {
    event.preventDefault();
    play(!playing);
  }
});
go(0);
