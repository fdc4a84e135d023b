import { SvelteSet } from "svelte/reactivity";
import type { Desktop } from "../../api/types";
import { session } from "../../state/session.svelte";
import { isKept } from "../../words";

/** Whether anything can be done with a desktop among many: not by who may only see, nor with one for a task. */
export function canBeChosen(desktop: Desktop): boolean {
  return isKept(desktop) && session.may("desktops:write");
}

/** Which desktops are chosen: some by their ids, or all that the filter lets through, also later ones. */
export class Selection {
  readonly ids = new SvelteSet<string>();
  all = $state(false);
  #anchor = -1;

  has(desktop: Desktop): boolean {
    return this.all ? canBeChosen(desktop) : this.ids.has(desktop.id);
  }

  clear(): void {
    this.all = false;
    this.ids.clear();
    this.#anchor = -1;
  }

  /** Turn one row over; with `range`, all rows from the last one turned get its new state. */
  toggle(rows: Desktop[], index: number, range = false): void {
    const turned = rows[index];
    if (!turned || !canBeChosen(turned)) return;
    if (this.all) {
      this.all = false;
      for (const row of rows.filter(canBeChosen)) this.ids.add(row.id);
    }
    const chosen = !this.ids.has(turned.id);
    const from = range && this.#anchor >= 0 ? this.#anchor : index;
    for (const row of rows.slice(Math.min(from, index), Math.max(from, index) + 1).filter(canBeChosen)) {
      if (chosen) this.ids.add(row.id);
      else this.ids.delete(row.id);
    }
    this.#anchor = index;
  }
}
