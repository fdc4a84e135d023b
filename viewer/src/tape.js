// What was recorded in a segment, shown by noVNC: it hears from memory what the recorder heard from the screen.
import RFB from "@novnc/novnc";

const HEAD = "FBS 001.000\n";
const VERSION_BYTES = 12;
const UPDATE_WANTED = 3; // the message of RFB with which a viewer asks for the next frame
const TAKES_AT_MOST = 10000; // milliseconds for one frame

// The blocks of a file of rfbproxy's format, as far as it is whole: bytes, and seconds since the beginning.
export function blocksOf(content) {
  const bytes = new Uint8Array(content);
  const view = new DataView(content);
  if (new TextDecoder().decode(bytes.subarray(0, HEAD.length)) !== HEAD) {
    throw new Error("it is no recording");
  }
  const found = [];
  for (let place = HEAD.length; place + 4 <= bytes.length; ) {
    const length = view.getUint32(place);
    const after = place + 4 + length + (-length & 3);
    if (length === 0 || after + 4 > bytes.length) {
      break;
    }
    found.push({ data: bytes.subarray(place + 4, place + 4 + length), at: view.getUint32(after) / 1000 });
    place = after + 4;
  }
  return found;
}

// How many of these times, in order, are there by then.
export function past(times, time) {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= time) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// Stands in for the WebSocket of a connection: what noVNC hears comes from here, what it says goes nowhere.
class Channel {
  binaryType = "arraybuffer";
  protocol = "";
  readyState = "open";
  onopen = null;
  onclose = null;
  onerror = null;
  #listener = null;
  #attached;
  #wanted = null;

  constructor() {
    this.attached = new Promise((resolve) => {
      this.#attached = resolve;
    });
  }

  set onmessage(listener) {
    this.#listener = listener;
    this.#attached();
  }

  send(data) {
    if (data[0] === UPDATE_WANTED) {
      this.#wanted?.();
    }
  }

  close() {
    this.readyState = "closed";
    queueMicrotask(() => this.onclose?.({ code: 1000, reason: "" }));
  }

  say(data) {
    this.#listener({ data });
  }

  // Resolves when noVNC has taken it and wants the next frame; fails where it does not understand it.
  hear(data) {
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error("it is not understood")), TAKES_AT_MOST);
      this.#wanted = () => {
        clearTimeout(late);
        resolve();
      };
      try {
        this.say(data);
      } catch (error) {
        clearTimeout(late);
        reject(error);
      }
    });
  }
}

// A segment, from its blocks; `onProblem` is called where a frame cannot be shown.
export class Tape {
  #channel = new Channel();
  #rfb;
  #frames;
  #greeting;
  #shown = -1;
  #wanted = -1;
  #drawing = false;
  #onProblem;

  constructor(element, [greeting, ...frames], onProblem) {
    if (frames.length === 0) {
      throw new Error("it is empty");
    }
    this.#greeting = greeting.data;
    this.#frames = frames;
    this.times = frames.map(({ at }) => at);
    this.#onProblem = onProblem;
    this.#rfb = new RFB(element, this.#channel, { shared: true });
    this.#rfb.viewOnly = true;
    this.#rfb.focusOnClick = false;
    this.#rfb.scaleViewport = true;
    this.#rfb.background = "#0d1113";
  }

  close() {
    this.#frames = [];
    // noVNC cannot let go what it has not taken yet.
    this.#channel.attached.then(() => this.#rfb.disconnect());
  }

  // Show what the screen showed then.
  async seek(time) {
    if (this.#frames.length === 0) {
      return;
    }
    this.#wanted = Math.max(0, past(this.times, time) - 1);
    if (this.#drawing) {
      return;
    }
    this.#drawing = true;
    try {
      await this.#draw();
    } catch (error) {
      if (this.#frames.length > 0) {
        this.#onProblem(error);
      }
    } finally {
      this.#drawing = false;
    }
  }

  async #draw() {
    if (this.#greeting) {
      const greeting = this.#greeting;
      this.#greeting = null;
      await this.#channel.attached;
      // As from a server, which says no more before it has heard its viewer's version.
      this.#channel.say(greeting.subarray(0, VERSION_BYTES));
      await this.#channel.hear(greeting.subarray(VERSION_BYTES));
    }
    while (this.#frames.length > 0 && this.#shown !== this.#wanted) {
      // Where the way leads back, from the beginning: the first frame is the whole screen.
      const next = this.#wanted < this.#shown ? 0 : this.#shown + 1;
      await this.#channel.hear(this.#frames[next].data);
      this.#shown = next;
    }
  }
}
