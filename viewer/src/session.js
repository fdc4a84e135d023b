// What the session behind this browser's cookie may do, or why there is none.
export const REASONS = {
  none: "You have no session for this desktop",
  expired: "Your session has ended",
  idle: "Your session has lapsed",
  revoked: "Your session was revoked",
  lapsed: "Your link was never opened in time",
};
const LOOK_EVERY = 2000;
const LOOK_EVERY_HIDDEN = 20000;
const HEAR_AGAIN = 5000;

export class Ended extends Error {
  constructor(reason) {
    super(REASONS[reason] ?? REASONS.none);
    this.reason = reason;
  }
}

// What a place of this desktop answers; throws Ended where the session is over.
export async function fetched(place, body) {
  const options = body ? { method: "POST", headers: { "Content-Type": "application/json" }, body } : {};
  const answer = await fetch(place, { cache: "no-store", ...options });
  if (answer.status === 401) {
    throw new Ended((await answer.json()).error);
  }
  return answer;
}

async function ask(place, body) {
  const answer = await fetched(place, body);
  if (!answer.ok) {
    throw new Error(`the gateway answers ${answer.status}`);
  }
  return answer.json();
}

// Resolves to the session's facts, throws Ended if it is over, any other error if the gateway does not answer.
export const session = () => ask("session");

// "take", "hand-over", "hide", "show", "stop", "go" or "wake"; resolves to the session's facts.
export const drive = (action) => ask("drive", JSON.stringify({ action }));

// What a person says to the agent, or that its turn is to end; throws an error that says why it is not so.
export async function say(wish) {
  const answer = await fetched("say", JSON.stringify(wish)).catch((error) => {
    throw error instanceof Ended ? error : new Error("The gateway does not answer. Send it again: it is stored once.");
  });
  const facts = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    const { error, message, remedy } = facts;
    throw new Error(error ? `${error} ${message}: ${remedy}` : `The gateway answers ${answer.status}.`);
  }
  return facts;
}

let wake = () => {};

// Look at the session at once: something has changed that it tells of.
export const lookNow = () => wake();

function pause(milliseconds) {
  return new Promise((resolve) => {
    wake = resolve;
    setTimeout(resolve, milliseconds);
  });
}

// Looks at the session for as long as it lasts, and renews it in time; throws Ended.
export async function follow(facts, onFacts) {
  const lease = facts.renew_before * 1000 - Date.now();
  for (let current = facts; ; ) {
    onFacts(current);
    await pause(document.hidden ? LOOK_EVERY_HIDDEN : LOOK_EVERY);
    try {
      const left = current.renew_before * 1000 - Date.now();
      const renewable = current.renew_before < current.expires;
      current = renewable && left < (lease * 2) / 3 ? await ask("renew", "{}") : await session();
    } catch (error) {
      if (error instanceof Ended) {
        throw error;
      }
    }
  }
}

export function socketUrl(place) {
  const url = new URL(place, location.href);
  url.protocol = "wss:";
  return url.href;
}

// Calls `onNews` with each piece of news of a place; returns what ends that.
export function hear(place, onNews) {
  let source;
  let again;
  const open = () => {
    source = new EventSource(place);
    source.addEventListener("message", ({ data }) => onNews(JSON.parse(data)));
    source.addEventListener("error", () => {
      // A browser comes again by itself, unless it was refused: the gateway may be being updated.
      if (source.readyState === EventSource.CLOSED) {
        again = setTimeout(open, HEAR_AGAIN);
      }
    });
  };
  open();
  return () => {
    clearTimeout(again);
    source.close();
  };
}

const rests = new Set();

// Those who rest before they connect again do so at once.
export function connectNow() {
  for (const end of rests) {
    end();
  }
  rests.clear();
}

async function rest(milliseconds) {
  let end;
  await new Promise((resolve) => {
    end = resolve;
    rests.add(end);
    setTimeout(end, milliseconds);
  });
  rests.delete(end);
}

// Calls `connect` again and again, with growing pauses, until the session has ended.
// `connect` resolves when its connection is over, to whether it had been open.
export async function keepConnected(connect, onState) {
  let wait = 500;
  for (;;) {
    onState("connecting");
    if (await connect()) {
      wait = 500;
    }
    try {
      await session();
    } catch (error) {
      if (error instanceof Ended) {
        onState("ended");
        throw error;
      }
    }
    onState("waiting");
    await rest(wait);
    wait = Math.min(wait * 2, 8000);
  }
}
