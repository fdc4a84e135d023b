// What was recorded of this desktop: a list, and a player. The desktop holds it, and gives it to who may drive it.
import { focusDesktop } from "./desktop.js";
import { clock, closeTape, play, show as showSegment, wirePlayer } from "./player.js";
import { fetched } from "./session.js";

const PAGE = 1000; // as many as the desktop tells at once
const MOST_PAGES = 20;
const ID = /^[0-9]{1,20}$/;
const NONE_OF_THEM = "9".repeat(20); // after this one there is no segment: how many there are is told all the same
const part = (id) => document.getElementById(id);

const PROBLEMS = {
  privacy: "A person at this desktop wants privacy: nothing of what was recorded is shown meanwhile.",
  stopped: "The agent of this desktop is stopped, and its recordings with it. Let it go on, then look again.",
  403: "This link is for watching alone. To look back takes a link with which the desktop may be driven.",
  none: "This desktop keeps no recordings: its image is older than they are.",
  404: "This recording was removed: the oldest make room for what is recorded now.",
  broken: "This recording cannot be shown: it is not whole, or no recording at all.",
  away: "The desktop does not answer now. Look again in a moment.",
};

class Refused extends Error {
  constructor(why) {
    super(PROBLEMS[why] ?? PROBLEMS.away);
    this.why = why;
  }
}

let mayLookBack = false;
let declared = false;
let segments = [];
let chosen = null;
let summary = "";
// The last of each makes those before it void.
let looks = 0;
let choices = 0;

// There is an entry for it where the desktop records, or has something left of when it did.
export function startRecordings(facts) {
  mayLookBack = facts.mode === "drive";
  followRecordings(facts);
  part("show-recordings").addEventListener("click", openRecordings);
  part("recordings-close").addEventListener("click", closeRecordings);
  part("recordings-again").addEventListener("click", look);
  part("recordings").addEventListener("close", () => {
    closeTape();
    choices += 1;
    chosen = null;
    focusDesktop();
  });
  wirePlayer();
}

export function followRecordings(facts) {
  declared = facts.recorded;
  if (declared) {
    part("show-recordings").hidden = false;
  }
}

// The desktop answers: see whether it has any.
export async function lookForRecordings() {
  try {
    const { state, count } = await read(`recordings?after=${NONE_OF_THEM}`).then((answer) => answer.json());
    part("show-recordings").hidden = !declared && state === "off" && !count;
  } catch {
    // An older image knows nothing of recordings, and a desktop that does not answer shows none.
  }
}

export const closeRecordings = () => part("recordings").close();

async function read(place) {
  const answer = await fetched(place);
  if (!answer.ok) {
    const { error } = answer.status === 423 ? await answer.json().catch(() => ({})) : {};
    throw new Refused(error ?? answer.status);
  }
  return answer;
}

function openRecordings() {
  part("recordings").showModal();
  look();
}

async function look() {
  const turn = ++looks;
  say("One moment");
  try {
    const found = await all();
    if (turn === looks) {
      segments = found.segments;
      summary = stateOf(found);
      say(summary);
      list();
    }
  } catch (error) {
    if (turn === looks) {
      segments = [];
      list();
      say("", error.why === 404 ? PROBLEMS.none : error instanceof Refused ? error.message : PROBLEMS.away);
    }
  }
}

// All segments, the newest first.
async function all() {
  const found = [];
  let answer;
  for (let page = 0; page < MOST_PAGES; page += 1) {
    answer = await read(found.length > 0 ? `recordings?after=${found.at(-1).id}` : "recordings").then((got) => got.json());
    const those = answer.recordings.filter(isSegment);
    found.push(...those);
    if (those.length < PAGE) {
      break;
    }
  }
  return { ...answer, segments: found.reverse() };
}

const isSegment = ({ id, ...numbers }) =>
  ID.test(id) && ["begin", "seconds", "bytes"].every((name) => Number.isFinite(numbers[name]));

function stateOf({ state, reason, segments: found }) {
  const states = { recording: "The desktop is recorded.", stopped: `Recording has stopped: ${reason}.` };
  const now = states[state] ?? "The desktop is not recorded now.";
  const bytes = found.reduce((sum, segment) => sum + segment.bytes, 0);
  const count = found.length === 1 ? "1 recording" : `${found.length} recordings`;
  const there = found.length > 0 ? `${count}, ${size(bytes)}.` : "Nothing that was recorded is there.";
  return `${now} ${there} ${found.length > 0 && !mayLookBack ? PROBLEMS[403] : ""}`;
}

const size = (bytes) => (bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`);

function say(state, problem = "") {
  part("recordings-state").textContent = state;
  part("recordings-problem").textContent = problem;
  part("recordings-problem").hidden = !problem;
}

function list() {
  const items = segments.map((segment) => {
    const item = document.createElement("li");
    const button = document.createElement("button");
    button.type = "button";
    button.disabled = !mayLookBack;
    button.textContent =
      `${new Date(segment.begin * 1000).toLocaleString()} · ${clock(segment.seconds)} · ${size(segment.bytes)}` +
      (segment.open ? " · is being recorded" : "");
    button.addEventListener("click", () => choose(segment));
    segment.button = button;
    item.append(button);
    return item;
  });
  part("recordings-list").replaceChildren(...items);
  mark();
}

function mark() {
  for (const { id, button } of segments) {
    button.setAttribute("aria-current", String(id === chosen));
  }
}

async function choose(segment, goesOn = false) {
  const turn = ++choices;
  chosen = segment.id;
  mark();
  closeTape();
  say("Fetching the recording");
  try {
    const place = `recordings/${segment.id}`;
    const frames = await read(`${place}/frames`).then((answer) => answer.arrayBuffer());
    // Of an empty file the desktop tells no length, and the gateway passes on nothing without one.
    const actions = segment.actions ? await read(`${place}/actions`).then((answer) => answer.text()) : "";
    if (turn === choices) {
      showSegment(segment, frames, actions, () => fail(new Refused("broken")), () => goOn(segment));
      say(summary);
      if (goesOn) {
        play(true);
      } else {
        part("player-play").focus();
      }
    }
  } catch (error) {
    if (turn === choices) {
      fail(error instanceof Refused ? error : new Refused(error instanceof TypeError ? "away" : "broken"));
    }
  }
}

function fail(error) {
  closeTape();
  if (error.why === 404) {
    segments = segments.filter(({ id }) => id !== chosen);
    list();
  }
  say("", error.message);
}

// What comes after a segment is the next newer one.
function goOn({ id }) {
  const next = segments[segments.findIndex((segment) => segment.id === id) - 1];
  if (next) {
    choose(next, true);
  }
}
