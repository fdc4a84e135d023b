// The panel of the chat: the newest conversation with the desktop's agent, and what a person says to it.
import { whoIs } from "./actors.js";
import { hear, say } from "./session.js";

const part = (id) => document.getElementById(id);
const MOST_BYTES = 7500;
const STATES = {
  queued: "waiting to be delivered",
  sent: "delivered",
  streaming: "answering",
  failed: "failed",
  interrupted: "stopped",
};
const ENDED = ["done", "failed", "interrupted"];
const WATCHES = "Who may only watch has no chat. Ask who gave you the link for one that may drive.";

let conversation = null;
let begins = false;
let title = "Chat";
let isConnected = false;
let messages = new Map();
let stop = null;
let unsent = null;

export function startChat(facts) {
  if (facts.mode !== "drive") {
    empty("This link may only watch", WATCHES);
    return;
  }
  part("chat-form").addEventListener("submit", send);
  part("chat-text").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      part("chat-form").requestSubmit();
    }
  });
  part("chat-stop").addEventListener("click", interrupt);
  part("chat-new").addEventListener("click", begin);
  follow();
}

// Nothing is sent to a panel that nobody sees.
export function follow() {
  if (part("chat").hidden || document.hidden) {
    stop?.();
    stop = null;
  } else {
    stop ??= hear("chat", show);
  }
}

function show({ connected, talk }) {
  isConnected = connected;
  part("chat-form").hidden = !connected;
  if (talk) {
    if (talk.conversation !== conversation) {
      conversation = talk.conversation;
      begins = false;
    }
    const known = new Map([...messages, ...talk.messages.map((message) => [message.id, message])]);
    messages = new Map(talk.order.map((id) => [id, known.get(id)]));
    title = talk.title || "Chat";
  }
  if (!connected) {
    empty(
      "No Mission Control is connected",
      "The chat with this desktop's agent is kept there, and this gateway hears nothing from it now.",
      'A task can also be given with ./inv agent.task WORKSPACE/DESKTOP "text".',
    );
  } else if (talk === null) {
    empty("One moment", "Mission Control is asked what was said.");
  } else if (messages.size === 0 || begins) {
    invite();
  } else {
    part("chat-empty").hidden = true;
  }
  draw();
}

function invite() {
  empty("Nothing was said yet", "Write what this desktop's agent is to do.", "An image without an agent says so here.");
}

function empty(title, text, more = "") {
  part("chat-empty").hidden = false;
  part("chat-empty-title").textContent = title;
  part("chat-empty-text").textContent = text;
  part("chat-empty-more").textContent = more;
}

// The last turn is that of the last person's message.
const turn = () => [...messages.values()].findLast((message) => message.role === "person");
const isBusy = () => messages.size > 0 && !ENDED.includes(turn()?.state ?? "done");

function draw() {
  const list = part("chat-messages");
  const atEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
  const shown = begins ? [] : [...messages.values()];
  part("chat-title").textContent = begins ? "New conversation" : title;
  const old = new Map([...list.children].map((element) => [element.dataset.id, element]));
  for (const message of shown) {
    const element = old.get(message.id) ?? document.createElement("article");
    old.delete(message.id);
    fill(element, message);
    // Where it stands already it is not put again: what a person has selected there stays so.
    if (list.children[shown.indexOf(message)] !== element) {
      list.insertBefore(element, list.children[shown.indexOf(message)] ?? null);
    }
  }
  for (const element of old.values()) {
    element.remove();
  }
  part("chat-stop").hidden = begins || !isBusy();
  part("chat-new").hidden = begins || shown.length === 0 || !isConnected;
  if (atEnd) {
    list.scrollTop = list.scrollHeight;
  }
}

function fill(element, message) {
  const text = JSON.stringify(message);
  if (element.dataset.is === text) {
    return;
  }
  element.dataset.id = message.id;
  element.dataset.is = text;
  element.dataset.role = message.role;
  element.dataset.state = message.state;
  element.replaceChildren(head(message), ...message.tools.map(tool), ...message.questions.map(question));
  if (message.more_tools > 0) {
    element.append(line("quiet", `${message.more_tools} more tools were used`));
  }
  element.append(line("text", message.text));
  if (message.cut) {
    element.append(line("quiet", "It is longer: Mission Control has all of it."));
  }
  if (message.problem) {
    const { field, value, reason, remedy } = message.problem;
    element.append(line("problem", [field, value, reason].filter(Boolean).join(" ")), line("quiet", remedy ?? ""));
  }
}

function line(name, text) {
  const element = document.createElement("p");
  element.className = name;
  element.textContent = text;
  return element;
}

function head({ author, at, state }) {
  const when = new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  return line("quiet", [author && whoIs(author), when, STATES[state]].filter(Boolean).join(" · "));
}

function tool({ name, state, arguments: given, output }) {
  const card = document.createElement("details");
  card.className = "tool";
  card.dataset.state = state;
  const summary = document.createElement("summary");
  summary.textContent = `${name} · ${state}`;
  card.append(summary, ...[given, output].filter(Boolean).map((text) => line("text", text)));
  return card;
}

function question({ asked, state }) {
  const more = state === "open" ? "it waits for an answer in Mission Control" : state;
  return line("quiet", `The agent asks: ${asked} · ${more}`);
}

function begin() {
  begins = true;
  invite();
  draw();
  part("chat-text").focus();
}

async function send(event) {
  event.preventDefault();
  const text = part("chat-text").value.trim();
  if (!text || part("chat-send").disabled) {
    return;
  }
  const body = { message: text, conversation: begins ? null : conversation };
  const length = new TextEncoder().encode(JSON.stringify(body)).length;
  if (length > MOST_BYTES) {
    problem(`The message is too long by ${length - MOST_BYTES} bytes. Longer ones are sent in Mission Control.`);
    return;
  }
  // The same again, after no answer came, has the same name: it is stored once.
  if (unsent?.message !== body.message || unsent.conversation !== body.conversation) {
    unsent = { id: crypto.randomUUID(), ...body };
  }
  if (await asked(part("chat-send"), unsent)) {
    unsent = null;
    begins = false;
    part("chat-text").value = "";
    part("chat-text").focus();
  }
}

const interrupt = () => asked(part("chat-stop"), { id: crypto.randomUUID(), stop: conversation });

async function asked(button, wish) {
  button.disabled = true;
  problem("");
  try {
    await say(wish);
    return true;
  } catch (error) {
    problem(error.message);
    return false;
  } finally {
    button.disabled = false;
  }
}

function problem(text) {
  part("chat-problem").textContent = text;
  part("chat-problem").hidden = !text;
}
