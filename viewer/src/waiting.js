// The panel of a desktop that does not answer: how far it is, and what a person may do.
import { connectNow, drive, hear } from "./session.js";

const NAMES = { desktop: "screen", terminal: "terminal" };
const REMEDIES = {
  drive:
    "What was stopped because nobody used it is started by its host, as a rule within a minute. What a person stopped " +
    "stays off. If nothing happens within five minutes, ask who gave you the link.",
  view: "You may only watch. Who may drive this desktop can have it started: ask them, or who gave you the link.",
};
// What its host made of it.
const WAKINGS = {
  "no-room": {
    title: "The desktop waits for room",
    text: "Its host has no memory or disk space for it now. It starts as soon as another desktop stops.",
  },
  failed: {
    title: "The desktop did not start",
    text: "Its host has tried, and could not start it. Ask who gave you the link.",
  },
};
// Where its machine is, as its host says; that it starts, and which routes answer, has a stage of its own.
const STATES = {
  provisioning: "its machine is being made",
  stopping: "it shuts down",
  stopped: "it is off",
  paused: "it is paused, with all that runs in it",
  error: "its machine ended by itself. Ask who gave you the link",
  "io-error": "its machine is halted, undamaged, mostly since its host has no room. Ask who gave you the link",
};
const part = (id) => document.getElementById(id);

let mode = "view";
// Who opens this page wants its desktop; to a page that was left open, somebody has to come back first.
let wants = true;
let latest = null;
let stop = null;

export function prepareWaiting(modeOfSession) {
  mode = modeOfSession;
  part("waiting-remedy").textContent = REMEDIES[mode];
  part("start").addEventListener("click", want);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) {
      want();
    }
  });
}

// The desktop does not answer: show how far it is until it does.
export function beginWaiting() {
  stop ??= hear("events", show);
}

// It answers, or the session is over.
export function endWaiting() {
  stop?.();
  stop = latest = null;
  wants = false;
  part("waiting").hidden = true;
}

function want() {
  if (latest) {
    wants = true;
    show(latest);
  }
}

async function show(news) {
  latest = news;
  // Nothing before somebody has looked.
  const routes = Object.entries(news.routes ?? {});
  const there = routes.filter(([, route]) => route.state === "ready").map(([name]) => NAMES[name]);
  const ready = there.length === routes.length;
  part("waiting").hidden = ready;
  if (!ready) {
    write(news, there);
    if (mode === "drive" && wants && !news.wanted) {
      // What comes of it is in the next news; if nothing does, that asks again.
      await drive("wake").catch(() => {});
    }
  } else if (routes.length > 0) {
    connectNow();
  }
}

function write(news, there) {
  const state = STATES[news.state];
  const starts = !state && (there.length > 0 || news.state === "booting" || news.waking === "starts");
  const asked = news.wanted || (mode === "drive" && wants);
  const waking = starts ? null : WAKINGS[news.waking];
  part("waiting-title").textContent = starts
    ? "The desktop is starting"
    : (waking?.title ?? (asked ? "The desktop is asked to start" : "The desktop does not run"));
  part("waking").hidden = !waking;
  part("waking").textContent = waking?.text;
  part("state").hidden = !state;
  part("state").textContent = state ? `Since ${when(news.since)}: ${state}.` : "";
  const stages = { asked: news.wanted || starts, heard: news.heard || starts, starting: starts };
  for (const [name, done] of Object.entries(stages)) {
    part(`stage-${name}`).dataset.done = String(done);
  }
  part("stage-starting").textContent = there.length > 0 ? `It is starting: ${there.join(" and ")} ready` : "It is starting";
  part("start").hidden = mode !== "drive" || asked || starts;
  part("usual").hidden = !news.usual_seconds;
  part("usual").textContent = `The last start took ${took(news.usual_seconds)}.`;
}

const when = (since) => new Date(since * 1000).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
const took = (seconds) => (seconds < 120 ? `${seconds} seconds` : `${Math.round(seconds / 60)} minutes`);
