// An operation that a page has asked for, until it is over.
import type { Operation } from "../api/types";
import { isOver } from "../words";
import { estate } from "./estate.svelte";

export class Pending {
  #asked = $state.raw<Operation | null>(null);

  /** Made while a component is made: `over` is told the operation with its end. */
  constructor(over: (operation: Operation) => void) {
    $effect(() => {
      const now = this.#asked && estate.operations.get(this.#asked.id);
      if (!now || !isOver(now)) return;
      this.#asked = null;
      over(now);
    });
  }

  async follow(ask: () => Promise<Operation>): Promise<void> {
    this.#asked = await estate.operations.answered(ask());
  }
}
