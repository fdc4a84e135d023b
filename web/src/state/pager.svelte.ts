import { type Filter, list, problemOf } from "../api/client";
import type { Page, ProblemDetails } from "../api/types";

/** A list that is loaded by pages, as far as somebody wants to read. */
export class Pager<T> {
  items = $state.raw<T[]>([]);
  total = $state<number | null>(null);
  next = $state<string | null>(null);
  loaded = $state(false);
  busy = $state(false);
  problem = $state.raw<ProblemDetails | null>(null);
  #asked = 0;
  #filter: Filter = {};

  /** `seen` gets each page, too, with the time at which it was asked for. */
  constructor(
    readonly path: string,
    readonly seen: (items: T[], since: number) => void = () => undefined,
  ) {}

  /** Begin anew with another filter; an answer to an older question is dropped. */
  load(filter: Filter = {}): Promise<void> {
    this.#filter = filter;
    return this.#ask(null);
  }

  /** All parts, for what is chosen from the list. */
  async whole(): Promise<void> {
    await this.load();
    while (this.next && !this.problem) await this.more();
  }

  more(): Promise<void> {
    return this.#ask(this.next);
  }

  async #ask(after: string | null): Promise<void> {
    const turn = ++this.#asked;
    const since = performance.now();
    this.busy = true;
    this.problem = null;
    try {
      const page: Page<T> = await list<T>(this.path, { ...this.#filter, limit: 100, after });
      if (turn !== this.#asked) return;
      this.seen(page.items, since);
      this.items = after ? [...this.items, ...page.items] : page.items;
      this.next = page.nextCursor;
      this.total = page.total ?? null;
      this.loaded = true;
    } catch (error) {
      if (turn === this.#asked) this.problem = problemOf(error);
    } finally {
      if (turn === this.#asked) this.busy = false;
    }
  }
}
