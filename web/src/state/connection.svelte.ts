// Whether what the page shows is of now.
import { untrack } from "svelte";
import { get } from "../api/client";
import { openStream, type Stream } from "../api/events";
import { clock } from "./clock.svelte";

type Handler = (data: unknown) => void;

const LONGEST_PAUSE = 15_000;
// The server tells a heartbeat at least every 30 seconds.
const SILENCE = 45_000;

class Connection {
  state = $state<"connecting" | "live" | "lost">("connecting");
  /** When the page last knew that it was up to date. */
  liveAt = $state(Date.now());
  #stream: Stream | null = null;
  #timer = 0;
  #pause = 1000;
  /** Counts what was closed: an answer to an earlier try opens nothing. */
  #turn = 0;
  readonly #handlers = new Map<string, Set<Handler>>();

  constructor() {
    addEventListener("online", () => this.retry());
    addEventListener("offline", () => this.#lost(false));
    // A page that the browser keeps for going back holds no stream meanwhile.
    addEventListener("pagehide", () => this.#close());
    addEventListener("pageshow", (event) => event.persisted && this.#open());
    // No browser says that the other end of an open connection is gone, as after a sleep.
    $effect.root(() => {
      $effect(() => {
        if (this.state === "live" && clock.now - this.liveAt > SILENCE) untrack(() => this.#lost(true));
      });
    });
  }

  start(): void {
    if (this.#stream || this.#timer) return;
    this.#open();
  }

  stop(): void {
    this.#close();
    this.state = "connecting";
  }

  /** Try at once, rather than when the pause is over. */
  retry(): void {
    if (this.state === "lost") this.#open();
  }

  /** Hear of an event until the returned function is called. */
  on(name: string, handler: Handler): () => void {
    const handlers = this.#handlers.get(name) ?? new Set();
    this.#handlers.set(name, handlers.add(handler));
    return () => handlers.delete(handler);
  }

  #open(): void {
    this.#close();
    let anew = true;
    this.#stream = openStream({
      opened: () => {
        this.state = "live";
        this.liveAt = Date.now();
        this.#pause = 1000;
        // The browser resumes its own stream where it was cut; before a new one, events went by.
        this.#tell(anew ? "reset" : "resumed", null);
        anew = false;
      },
      lost: (forGood) => this.#lost(forGood),
      event: (name, data) => {
        this.liveAt = Date.now();
        this.#tell(name, data);
      },
    });
  }

  #lost(forGood: boolean): void {
    this.state = "lost";
    this.#tell("lost", null);
    if (!forGood) return;
    this.#close();
    const turn = this.#turn;
    this.#timer = window.setTimeout(() => {
      // Tells by its 401, too, that the session has ended: that stops this, and nothing is tried again.
      get("/api/me").then(
        () => turn === this.#turn && this.#open(),
        () => turn === this.#turn && this.#lost(true),
      );
    }, this.#pause);
    this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE);
  }

  #close(): void {
    this.#turn += 1;
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#stream?.close();
    this.#stream = null;
  }

  #tell(name: string, data: unknown): void {
    for (const handler of this.#handlers.get(name) ?? []) handler(data);
  }
}

export const connection = new Connection();
