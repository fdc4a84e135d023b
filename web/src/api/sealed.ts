// What the worker gives to this page alone: signed for, made there, and sealed to a key that never leaves the browser.
import { connection } from "../state/connection.svelte";
import { isOver } from "../words";
import { ApiError, get, post } from "./client";
import { Seal, type Sealed } from "./seal";
import { signed } from "./signing";
import type { Operation } from "./types";

const SECONDS = 60;

export interface Wish {
  path: string;
  kind: string;
  /** What is signed, without the page's key, which is signed with it. */
  target: string;
  body: Record<string, unknown>;
  /** The field of the secret, which is its name for people, too. */
  secret: "link" | "key";
  /** Of what it is, for a refusal. */
  field: string;
  value: string;
}

/** The secret of an operation: the API tells it once, so it is not kept; `shown` gets what is signed. */
export async function sealedSecret(wish: Wish, shown: (text: string) => void): Promise<string> {
  const ends = new Ends();
  try {
    const seal = await Seal.fresh();
    const target = `${wish.target} for key ${seal.fingerprint}`;
    const wanted = { ...wish.body, sealTo: seal.publicKey, ...(await signed(wish.kind, target, shown)) };
    shown("");
    let operation = await post<Operation>(wish.path, wanted);
    do {
      if (!isOver(operation)) await ends.of(operation.id, wish);
      // An event tells everybody that it is done; the secret is only for whoever asked.
      operation = await get<Operation>(`/api/operations/${operation.id}`);
    } while (!isOver(operation) && !operation.result?.sealed);
    const sealed = operation.result?.sealed;
    if (!sealed) {
      throw new ApiError(0, operation.problem ?? refusal(wish, `no ${wish.secret} came back`));
    }
    const found = await seal.opened(sealed as Sealed, target, wish.secret);
    if (found === null) throw new ApiError(0, refusal(wish, `the ${wish.secret} is sealed to another page`));
    return found;
  } finally {
    ends.forget();
  }
}

export function refusal({ field, value }: { field: string; value: string }, reason: string) {
  return { field, value, reason, remedy: "Try again; the operation's page says what it did" };
}

/** Hears of operations that end, from before any is asked for. */
class Ends {
  readonly #over = new Set<string>();
  #told = (_missed: boolean): void => undefined;
  readonly #heard = [
    connection.on("operation", (data) => {
      const operation = data as Operation;
      if (isOver(operation)) this.#over.add(operation.id);
      this.#told(false);
    }),
    connection.on("reset", () => this.#told(true)),
  ];

  forget(): void {
    for (const hear of this.#heard) hear();
  }

  /** Until it ends, or its end may have been missed, as events went by. */
  of(operationId: string, wish: Wish): Promise<void> {
    return new Promise((resolve, reject) => {
      const late = setTimeout(
        () => reject(new ApiError(0, refusal(wish, `no ${wish.secret} came within ${SECONDS} s`))),
        SECONDS * 1000,
      );
      this.#told = (missed) => {
        if (!missed && !this.#over.has(operationId)) return;
        clearTimeout(late);
        resolve();
      };
      this.#told(false);
    });
  }
}
