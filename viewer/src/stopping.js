// The button that stops the desktop's agent, and what has come of it.
import { whoIs } from "./actors.js";

const part = (id) => document.getElementById(id);

const STOP =
  "No program sees this desktop or does anything there, and what the agent runs is halted, until a person lets it go on.";
const HOSTS = "Its host has stopped it: who runs the host lets it go on.";

export function showStop({ agent, mode }) {
  const button = part("stop-agent");
  const stopped = Boolean(agent?.stopped);
  button.hidden = !agent || mode !== "drive";
  button.disabled = stopped && agent.by_host;
  button.dataset.action = stopped ? "go" : "stop";
  button.setAttribute("aria-pressed", String(stopped));
  button.textContent = stopped ? "Let the agent go on" : "Stop the agent";
  button.title = stopped ? (agent.by_host ? HOSTS : "Let it go on where it stands, and programs in again.") : STOP;
  // Of one that goes on nothing is said any more, once its desktop has confirmed it.
  part("stopped").hidden = !agent?.by;
  if (agent?.by) {
    part("stopped").textContent = `${progress(agent)}, by ${whoIs(agent.by)}`;
    part("stopped").dataset.still = String(agent.still);
  }
}

// Shut out is the gateway's doing, and sure; whether it stands still is what its desktop says.
function progress({ stopped, shut, still }) {
  if (!stopped) {
    return still ? "agent let in again, and asked to go on" : "agent is being let go on";
  }
  if (!shut) {
    return "agent is being stopped";
  }
  return still ? "agent stopped" : "agent shut out, and asked to stand still";
}
