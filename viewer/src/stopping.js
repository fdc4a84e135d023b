// The button that stops the desktop's agent, and what has come of it.
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
  part("stopped").hidden = !stopped;
  if (stopped) {
    part("stopped").textContent = `${progress(agent)}, by ${agent.by}`;
    part("stopped").dataset.still = String(agent.still);
  }
}

// Shut out is the gateway's doing, and sure; whether it stands still is what its desktop says.
function progress({ shut, still }) {
  if (!shut) {
    return "agent is being stopped";
  }
  return still ? "agent stopped" : "agent shut out, and asked to stand still";
}
