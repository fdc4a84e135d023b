// What the session behind this browser's cookie may do, or why there is none.
export const REASONS = {
  none: "You have no session for this desktop",
  expired: "Your session has ended",
  revoked: "Your session was revoked",
  lapsed: "Your link was never opened in time",
};

export class Ended extends Error {
  constructor(reason) {
    super(REASONS[reason] ?? REASONS.none);
    this.reason = reason;
  }
}

// Resolves to the session's facts, throws Ended if it is over, any other error if the gateway does not answer.
export async function session() {
  const answer = await fetch("session", { cache: "no-store" });
  if (answer.status === 401) {
    throw new Ended((await answer.json()).error);
  }
  if (!answer.ok) {
    throw new Error(`the gateway answers ${answer.status}`);
  }
  return answer.json();
}

export function socketUrl(place) {
  const url = new URL(place, location.href);
  url.protocol = "wss:";
  return url.href;
}

// Calls `connect` again and again, with growing pauses, until the session has ended.
// `connect` resolves when its connection is over, to whether it had been open.
export async function keepConnected(connect, onState) {
  let pause = 500;
  for (;;) {
    onState("connecting");
    if (await connect()) {
      pause = 500;
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
    await new Promise((resolve) => setTimeout(resolve, pause));
    pause = Math.min(pause * 2, 8000);
  }
}
