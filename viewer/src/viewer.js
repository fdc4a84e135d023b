// The page of one desktop: desktop, terminal, a place for chat, and what the session allows.
import { showDesktop } from "./desktop.js";
import { Ended, keepConnected, session } from "./session.js";
import { connectTerminal, createTerminal } from "./terminal.js";

const TEXTS = { connecting: "connecting", connected: "connected", waiting: "waiting for the desktop", ended: "ended" };
const part = (id) => document.getElementById(id);

function state(id) {
  const element = part(id);
  return (name) => {
    element.dataset.state = name;
    element.textContent = TEXTS[name];
  };
}

function end(reason, message) {
  document.body.dataset.ended = reason;
  part("ended-title").textContent = message;
  part("ended-message").textContent = "The desktop itself keeps running; nothing on it was lost.";
  part("ended-remedy").textContent = "Ask for a new link, or run access.grant on the host.";
  part("ended").hidden = false;
}

function toggle(button, panel) {
  button.addEventListener("click", () => {
    panel.hidden = !panel.hidden;
    button.setAttribute("aria-pressed", String(!panel.hidden));
  });
}

function remaining(expires) {
  const minutes = Math.max(0, Math.round((expires * 1000 - Date.now()) / 60000));
  const hours = Math.floor(minutes / 60);
  return hours > 0 ? `session ends in ${hours} h ${minutes % 60} min` : `session ends in ${minutes} min`;
}

function showFacts(facts) {
  document.title = `${facts.desktop} · ${facts.workspace}`;
  part("name").textContent = `${facts.desktop} · ${facts.workspace}`;
  part("mode").textContent = facts.mode === "view" ? "view only" : "drive";
  part("mode").hidden = false;
  const tick = () => {
    part("expires").textContent = remaining(facts.expires);
  };
  tick();
  setInterval(tick, 15000);
}

function run(facts) {
  const viewOnly = facts.mode !== "drive";
  const loops = [];
  if (facts.routes.includes("desktop")) {
    const say = state("desktop-state");
    loops.push(keepConnected(() => showDesktop(part("desktop"), viewOnly, () => say("connected")), say));
  } else {
    part("desktop-state").hidden = true;
  }
  if (facts.routes.includes("terminal") && !viewOnly) {
    part("terminal").hidden = false;
    part("toggle-terminal").hidden = false;
    const say = state("terminal-state");
    const terminal = createTerminal(part("terminal-screen"));
    loops.push(keepConnected(() => connectTerminal(terminal, () => say("connected")), say));
  }
  return Promise.all(loops);
}

function wire() {
  toggle(part("toggle-terminal"), part("terminal"));
  toggle(part("toggle-chat"), part("chat"));
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
  const facts = await session();
  showFacts(facts);
  await run(facts);
} catch (error) {
  if (error instanceof Ended) {
    end(error.reason, error.message);
  } else {
    end("unreachable", "The gateway does not answer");
    part("ended-remedy").textContent = "Load this page again in a minute.";
  }
}
