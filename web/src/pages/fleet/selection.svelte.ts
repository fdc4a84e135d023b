import { SvelteSet } from "svelte/reactivity";
import type { Desktop } from "../../api/types";

/** Which desktops are chosen: some by their ids, or all that the filter lets through, also later ones. */
export class Selection {
  readonly ids = new SvelteSet<string>();
  all = $state(false);
  #anchor = -1;

  has(id: string): boolean {
    return this.all || this.ids.has(id);
  }

  clear(): void {
    this.all = false;
    this.ids.clear();
    this.#anchor = -1;
  }

  /** Turn one row over; with `range`, all rows from the last one turned get its new state. */
  toggle(rows: Desktop[], index: number, range = false): void {
    const id = rows[index]?.id;
    if (id === undefined) return;
    if (this.all) {
      this.all = false;
      for (const row of rows) this.ids.add(row.id);
    }
    const chosen = !this.ids.has(id);
    const from = range && this.#anchor >= 0 ? this.#anchor : index;
    for (const row of rows.slice(Math.min(from, index), Math.max(from, index) + 1)) {
      if (chosen) this.ids.add(row.id);
      else this.ids.delete(row.id);
    }
    this.#anchor = index;
  }
}
