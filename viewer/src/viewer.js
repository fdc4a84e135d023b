// The page of one desktop: desktop, terminal, a place for chat, and what the session allows.
import { whoIs } from "./actors.js";
import { follow as followChat, startChat } from "./chat.js";
import { focusDesktop, setDriving, showDesktop } from "./desktop.js";
import { Over, showPart, streamOfPage } from "./part.js";
import { closeRecordings, followRecordings, lookForRecordings, startRecordings } from "./recordings.js";
import { Ended, drive, follow, keepConnected, lookNow, session } from "./session.js";
import { createSplitter } from "./splitter.js";
import { showStop } from "./stopping.js";
import { connectTerminal, createTerminal } from "./terminal.js";
import { beginWaiting, endWaiting, prepareWaiting } from "./waiting.js";

const TEXTS = {
  connecting: "connecting",
  connected: "connected",
  waiting: "waiting for the desktop",
  ended: "ended",
};
// As in viewer.css: there the chat would cover the desktop.
const NARROW = "(max-width: 700px)";
const part = (id) => document.getElementById(id);

function state(id) {
  const element = part(id);
  return (name) => {
    element.dataset.state = name;
    element.textContent = TEXTS[name];
  };
}

// The same of the panel that the page is for: while it has no connection, the page shows how far the desktop is.
function stateOfMain(id) {
  const say = state(id);
  return (name) => {
    say(name);
    if (name === "waiting") {
      beginWaiting();
    } else if (name !== "connecting") {
      endWaiting();
    }
  };
}

const NEW_LINK = "Ask for a new link, or run access.grant on the host.";

function end(reason, message, remedy = NEW_LINK) {
  document.body.dataset.ended = reason;
  document.body.dataset.error = reason;
  part("ended-title").textContent = message;
  part("ended-message").textContent = "The desktop itself keeps running; nothing on it was lost.";
  part("ended-remedy").textContent = remedy;
  endWaiting();
  closeRecordings();
  part("ended").hidden = false;
}

function toggle(button, panel) {
  button.addEventListener("click", () => open(button, panel, panel.hidden));
}

function open(button, panel, shown) {
  panel.hidden = !shown;
  button.setAttribute("aria-pressed", String(shown));
}

function remaining(expires) {
  const minutes = Math.max(0, Math.round((expires * 1000 - Date.now()) / 60000));
  const hours = Math.floor(minutes / 60);
  return hours > 0 ? `session ends in ${hours} h ${minutes % 60} min` : `session ends in ${minutes} min`;
}

function showFacts(facts) {
  document.title = `${facts.desktop} · ${facts.workspace}`;
  part("name").textContent = `${facts.desktop} · ${facts.workspace}`;
  part("expires").textContent = remaining(facts.expires);
  part("recorded").hidden = !facts.recorded;
}

let drove = false;

// Who drives: this page, another one, or nobody.
function showDriver(facts) {
  const may = facts.mode === "drive";
  const who = facts.driver ? whoIs(facts.driver) : "nobody";
  setDriving(facts.drives);
  part("mode").textContent = !may ? "view only" : facts.drives ? "drive" : `watching: ${who} drives`;
  part("mode").hidden = false;
  const button = part("change-driver");
  button.hidden = !may || (facts.drives && facts.watching < 2);
  button.textContent = facts.drives ? "Hand over" : "Take over";
  button.dataset.action = facts.drives ? "hand-over" : "take";
  if (drove && !facts.drives) {
    part("notice").textContent = facts.driver ? `${who} drives now. You are watching.` : "Nobody drives now.";
    part("notice").hidden = false;
  } else if (facts.drives) {
    part("notice").hidden = true;
  }
  drove = facts.drives;
}

// Whether programs see this desktop: who drives hides it from them, and everybody is told.
function showPrivacy(facts) {
  const button = part("privacy");
  const on = Boolean(facts.private);
  button.hidden = !facts.drives || facts.private === null;
  button.setAttribute("aria-pressed", String(on));
  button.textContent = on ? "Private" : "Privacy";
  button.title = on
    ? "No program sees this desktop or does anything there; people with a link do. Press to let programs in again."
    : "Hide this desktop from programs while you drive, for example to type a password.";
  part("private").hidden = !on;
}

function show(facts) {
  showFacts(facts);
  showStop(facts);
  if (facts.routes.includes("desktop")) {
    showDriver(facts);
    showPrivacy(facts);
    followRecordings(facts);
  }
}

async function ask(button, action) {
  button.disabled = true;
  try {
    show(await drive(action));
  } catch {
    // What became of it shows at the next look at the session.
    lookNow();
  } finally {
    button.disabled = false;
  }
}

// A page for a part of the screen has nothing to do anything with: for that there is the page of the whole desktop.
function runPart(facts, stream) {
  const showFactsOfPart = (current) => {
    showFacts(current);
    part("private").hidden = !current.private;
  };
  const say = state("desktop-state");
  part("mode").textContent = "view only";
  part("mode").hidden = false;
  part("whole").hidden = false;
  for (const id of ["toggle-chat", "chat"]) {
    part(id).hidden = true;
  }
  const opened = () => say("connected");
  return Promise.all([follow(facts, showFactsOfPart), showPart(part("desktop"), stream, opened, say)]);
}

function run(facts) {
  const stream = streamOfPage();
  if (stream) {
    return runPart(facts, stream);
  }
  const loops = [follow(facts, show)];
  const hasDesktop = facts.routes.includes("desktop");
  prepareWaiting(facts.mode);
  if (hasDesktop) {
    const say = stateOfMain("desktop-state");
    startRecordings(facts);
    const opened = () => {
      say("connected");
      lookNow();
      lookForRecordings();
    };
    loops.push(keepConnected(() => showDesktop(part("desktop"), opened), say));
  } else {
    part("desktop-state").hidden = true;
  }
  if (facts.routes.includes("terminal") && facts.mode === "drive") {
    part("terminal").hidden = false;
    part("toggle-terminal").hidden = false;
    const say = (hasDesktop ? state : stateOfMain)("terminal-state");
    const terminal = createTerminal(part("terminal-screen"));
    loops.push(keepConnected(() => connectTerminal(terminal, () => say("connected")), say));
  }
  startChat(facts);
  return Promise.all(loops);
}

function wire() {
  createSplitter(part("split-chat"), part("chat"), { side: "width", least: 220, rest: 320 });
  createSplitter(part("split-terminal"), part("terminal"), { side: "height", least: 90, rest: 160 });
  toggle(part("toggle-terminal"), part("terminal"));
  toggle(part("toggle-chat"), part("chat"));
  open(part("toggle-chat"), part("chat"), !matchMedia(NARROW).matches);
  part("toggle-chat").addEventListener("click", followChat);
  document.addEventListener("visibilitychange", followChat);
  // Another stream, or the whole desktop: another page.
  addEventListener("hashchange", () => location.reload());
  const change = part("change-driver");
  change.addEventListener("click", () => ask(change, change.dataset.action));
  const privacy = part("privacy");
  privacy.addEventListener("click", async () => {
    await ask(privacy, privacy.getAttribute("aria-pressed") === "true" ? "show" : "hide");
    // What is typed next is for the desktop: a space would press the button again.
    focusDesktop();
  });
  const stop = part("stop-agent");
  stop.addEventListener("click", async () => {
    await ask(stop, stop.dataset.action);
    focusDesktop();
  });
  part("full-screen").addEventListener("click", () => {
    if (document.fullscreenElement) {
      document.exitFullscreen();
    } else {
      part("desktop").requestFullscreen();
    }
  });
}

try {
  wire();
  await run(await session());
} catch (error) {
  if (error instanceof Ended) {
    end(error.reason, error.message);
  } else if (error instanceof Over) {
    end("over", "This picture is over", "Its window was closed, or its stream has ended.");
    part("ended-whole").hidden = false;
  } else {
    end("unreachable", "The gateway does not answer", "Load this page again in a minute.");
  }
}
