// Operations that a page has asked for, until they are over.
import type { Operation } from "../api/types";
import { isOver } from "../words";
import { estate } from "./estate.svelte";

export class Pending {
  /** The words for each that is done, by its id. */
  #asked = $state.raw<Record<string, string>>({});

  /** Made while a component is made: `over` is told each operation with its end. */
  constructor(over: (operation: Operation, words: string) => void) {
    $effect(() => {
      for (const [id, words] of Object.entries(this.#asked)) {
        const now = estate.operations.get(id);
        if (!now || !isOver(now)) continue;
        const { [id]: _, ...others } = this.#asked;
        this.#asked = others;
        over(now, words);
      }
    });
  }

  async follow(ask: () => Promise<Operation>, words = ""): Promise<void> {
    const { id } = await estate.operations.answered(ask());
    this.#asked = { ...this.#asked, [id]: words };
  }
}
