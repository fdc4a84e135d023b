interface Identified {
  id: string;
}

/**
 * Things keyed by their id, of which the newest word counts; what decides the order of a thing never changes.
 *
 * Many changes in one frame are one change for the pages, and a change of what is known sorts nothing anew: thousands of
 * rows stay cheap.
 */
export class Collection<T extends Identified> {
  readonly #items = new Map<string, T>();
  readonly #touched = new Map<string, number>();
  readonly #added = new Set<string>();
  readonly #held = new Set<(item: T) => boolean>();
  #version = $state(0);
  #pending = false;
  #stale = false;
  #sorted: T[] = [];

  /** With `most`, what was told of longest ago is forgotten, unless a page holds it: a page may be open for weeks. */
  constructor(
    readonly order: (left: T, right: T) => number,
    readonly most = Infinity,
  ) {}

  get(id: string): T | undefined {
    this.#watch();
    return this.#items.get(id);
  }

  /** The same, for what is no part of a page. */
  peek(id: string): T | undefined {
    return this.#items.get(id);
  }

  /** All of them in their order. */
  all(): T[] {
    this.#watch();
    if (this.#stale) this.#arrange();
    return this.#sorted;
  }

  /** Keep what a page shows, however much is told of, until the returned function is called. */
  hold(shown: (item: T) => boolean): () => void {
    this.#held.add(shown);
    return () => this.#held.delete(shown);
  }

  /** What an event tells: always newer than any list. */
  put(item: T): void {
    this.#touched.set(item.id, performance.now());
    this.#set(item);
    this.#forgetOldest();
    this.#changed();
  }

  remove(id: string): void {
    this.#touched.set(id, performance.now());
    if (this.#items.delete(id)) this.#changed();
  }

  /** What a request answers that is sent just now; an event that comes before the answer is newer. */
  async answered(request: Promise<T>): Promise<T> {
    const since = performance.now();
    const item = await request;
    this.merge([item], since);
    return item;
  }

  /** What a list tells that was asked for at `since`; an event that came meanwhile is newer. */
  merge(items: T[], since: number): void {
    for (const item of items) {
      if ((this.#touched.get(item.id) ?? 0) < since) this.#set(item);
    }
    this.#forgetOldest();
    this.#changed();
  }

  /** Forget what a whole list did not hold. */
  retain(ids: Set<string>, since: number): void {
    for (const id of [...this.#items.keys()]) {
      if (!ids.has(id) && (this.#touched.get(id) ?? 0) < since) this.#items.delete(id);
    }
    this.#changed();
  }

  #set(item: T): void {
    if (!this.#items.has(item.id)) this.#added.add(item.id);
    else if (this.most < Infinity) this.#items.delete(item.id);
    this.#items.set(item.id, item);
  }

  #forgetOldest(): void {
    if (this.#items.size <= this.most) return;
    const held = [...this.#held];
    for (const [id, item] of this.#items) {
      if (held.some((shown) => shown(item))) continue;
      this.#items.delete(id);
      this.#touched.delete(id);
      if (this.#items.size <= this.most) return;
    }
  }

  #arrange(): void {
    const kept = this.#sorted.flatMap(({ id }) => (this.#added.has(id) ? [] : (this.#items.get(id) ?? [])));
    const added = [...this.#added].flatMap((id) => this.#items.get(id) ?? []);
    this.#sorted = added.length ? [...kept, ...added].sort(this.order) : kept;
    this.#added.clear();
    this.#stale = false;
  }

  #watch(): void {
    void this.#version;
  }

  #changed(): void {
    this.#stale = true;
    if (this.#pending) return;
    this.#pending = true;
    requestAnimationFrame(() => {
      this.#pending = false;
      this.#version += 1;
    });
  }
}

/** Text in the order that people expect: `desk-2` before `desk-10`. */
export const byText = new Intl.Collator("en", { numeric: true }).compare;
