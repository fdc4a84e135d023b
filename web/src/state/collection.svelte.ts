interface Identified {
  id: string;
}

/**
 * Things keyed by their id, of which the newest word counts.
 *
 * Many changes in one frame are one change for the pages: thousands of rows stay cheap.
 */
export class Collection<T extends Identified> {
  readonly #items = new Map<string, T>();
  readonly #touched = new Map<string, number>();
  #version = $state(0);
  #pending = false;
  #sorted: T[] | null = null;

  constructor(readonly order: (left: T, right: T) => number) {}

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
    this.#sorted ??= [...this.#items.values()].sort(this.order);
    return this.#sorted;
  }

  /** What an event tells: always newer than any list. */
  put(item: T): void {
    this.#touched.set(item.id, performance.now());
    this.#items.set(item.id, item);
    this.#changed();
  }

  remove(id: string): void {
    this.#touched.set(id, performance.now());
    if (this.#items.delete(id)) this.#changed();
  }

  /** What a list tells that was asked for at `since`; an event that came meanwhile is newer. */
  merge(items: T[], since: number): void {
    for (const item of items) {
      if ((this.#touched.get(item.id) ?? 0) < since) this.#items.set(item.id, item);
    }
    this.#changed();
  }

  /** Forget what a whole list did not hold. */
  retain(ids: Set<string>, since: number): void {
    for (const id of [...this.#items.keys()]) {
      if (!ids.has(id) && (this.#touched.get(id) ?? 0) < since) this.#items.delete(id);
    }
    this.#changed();
  }

  clear(): void {
    this.#items.clear();
    this.#touched.clear();
    this.#changed();
  }

  #watch(): void {
    void this.#version;
  }

  #changed(): void {
    this.#sorted = null;
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
