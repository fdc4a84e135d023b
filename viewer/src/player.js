// Plays one segment of a recording: its time line with what was done, play and pause, speed, and stillness passed over.
import { Tape, blocksOf, past } from "./tape.js";

const STILL = 2; // seconds: what stands still for longer is passed over
const MOST_ACTIONS = 5000;
const KEYS = { ArrowLeft: -1, ArrowRight: 1, PageDown: -10, PageUp: 10 }; // to so many seconds later
const part = (id) => document.getElementById(id);

let tape = null;
let begin = 0;
let end = 0;
let moments = []; // when something happens, in order
let actionTimes = [];
let at = 0;
let before = 0;
let playing = false;
let whenOver = () => {};

// Lines of JSON, one for each thing done; what is no such line is left out. All that a desktop wrote there is text.
function actionsOf(text) {
  const found = [];
  for (const line of text.split("\n")) {
    try {
      const action = JSON.parse(line);
      if (Number.isFinite(action.offset_ms)) {
        const person = action.actor === "person";
        found.push({ at: action.offset_ms / 1000, person, ok: action.ok !== false, words: words(action) });
      }
    } catch {
      // It may be just being written.
    }
  }
  return found.sort((one, other) => one.at - other.at);
}

function words({ actor, kind, at: places, class: window, ok, error }) {
  const where = Array.isArray(places) ? places.map(([x, y, space]) => `${x},${y} ${space}`) : [];
  const failed = ok === false ? `failed: ${error ?? ""}` : "";
  return [actor, kind, ...where, window, failed].filter(Boolean).map(String).join(" ");
}

// Show a segment from its beginning; raises what is wrong with it. `onOver` is called when it has played to its end.
export function show(segment, frames, actions, onProblem, onOver) {
  const done = actionsOf(actions);
  closeTape();
  // First the room, by which noVNC sets its scale.
  part("player").hidden = false;
  tape = new Tape(part("player-screen"), blocksOf(frames), onProblem);
  begin = segment.begin;
  whenOver = onOver;
  actionTimes = done.slice(0, MOST_ACTIONS).map((action) => action.at);
  moments = [...tape.times, ...actionTimes].sort((one, other) => one - other);
  end = Math.max(0.1, moments.at(-1));
  part("player-seek").max = end;
  list(done);
  go(0);
}

export function closeTape() {
  play(false);
  tape?.close();
  tape = null;
  part("player").hidden = true;
}

function list(done) {
  const marks = [];
  const items = [];
  for (const { at: time, person, ok, words: text } of done.slice(0, MOST_ACTIONS)) {
    const item = document.createElement("li");
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = `${clock(time, 1)} ${text}`;
    button.addEventListener("click", () => go(time));
    item.append(button);
    items.push(item);
    // The same for who points; keys and readers have the list.
    const mark = document.createElement("span");
    mark.className = [ok ? "" : "failed", person ? "person" : "agent"].join(" ").trim();
    mark.title = button.textContent;
    mark.style.left = `${(time / end) * 100}%`;
    mark.addEventListener("click", () => go(time));
    marks.push(mark);
  }
  if (done.length > MOST_ACTIONS) {
    const more = document.createElement("li");
    more.textContent = `and ${done.length - MOST_ACTIONS} more`;
    items.push(more);
  }
  part("player-marks").replaceChildren(...marks);
  part("player-actions").replaceChildren(...items);
}

// Minutes and seconds, with so many places behind the point.
export function clock(seconds, places = 0) {
  const parts = 10 ** places;
  const whole = Math.floor(seconds * parts);
  const rest = ((whole % (60 * parts)) / parts).toFixed(places);
  return `${Math.floor(whole / (60 * parts))}:${rest.padStart(places ? 3 + places : 2, "0")}`;
}

function go(time) {
  at = Math.min(Math.max(0, time), end);
  const seek = part("player-seek");
  seek.value = at;
  const text = `${clock(at, 1)} of ${clock(end, 1)}, ${new Date((begin + at) * 1000).toLocaleString()}`;
  seek.setAttribute("aria-valuetext", text);
  part("player-time").textContent = text;
  const actions = part("player-actions");
  const now = actions.children[past(actionTimes, at) - 1]?.firstChild;
  const previous = actions.querySelector("[aria-current]");
  if (now !== previous) {
    previous?.removeAttribute("aria-current");
    now?.setAttribute("aria-current", "true");
    now?.scrollIntoView({ block: "nearest" });
  }
  tape?.seek(at);
}

function step(now) {
  if (!playing) {
    return;
  }
  let time = at + ((now - before) / 1000) * Number(part("player-speed").value);
  before = now;
  if (part("player-skip").checked) {
    const next = moments[past(moments, at)] ?? end;
    if (next - at > STILL) {
      time = Math.max(time, next - STILL / 2);
    }
  }
  go(time);
  if (at < end) {
    requestAnimationFrame(step);
  } else {
    play(false);
    whenOver();
  }
}

export function play(on) {
  if (on === playing || (on && !tape)) {
    return;
  }
  playing = on;
  part("player-play").textContent = on ? "Pause" : "Play";
  if (on) {
    if (at >= end) {
      go(0);
    }
    before = performance.now();
    requestAnimationFrame(step);
  }
}

export function wirePlayer() {
  const seek = part("player-seek");
  seek.addEventListener("input", () => go(Number(seek.value)));
  seek.addEventListener("keydown", (event) => {
    if (event.key in KEYS) {
      event.preventDefault();
      go(at + KEYS[event.key]);
    }
  });
  part("player-play").addEventListener("click", () => play(!playing));
  part("recordings").addEventListener("keydown", (event) => {
    // What can be pressed, chosen or moved takes its own keys.
    if (event.key === " " && !event.target.closest("button, input, select")) {
      event.preventDefault();
      play(!playing);
    }
  });
}
