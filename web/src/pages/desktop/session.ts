// A link to a desktop's screen, as its gateway gives it out: signed for, and sealed to this page.
import { ApiError, get, post } from "../../api/client";
import { signed } from "../../api/signing";
import type { Operation } from "../../api/types";
import { connection } from "../../state/connection.svelte";
import { isOver } from "../../words";
import { Seal, type Sealed } from "./seal";

const SECONDS = 60;

/** The link of a new session: the API tells it once, and it opens once, so it is not kept; `shown` gets what is signed. */
export async function openSession(
  desktopId: string,
  mode: "drive" | "view",
  shown: (text: string) => void,
): Promise<string> {
  const ends = new Ends();
  try {
    const seal = await Seal.fresh();
    const target = `${desktopId} ${mode} for key ${seal.fingerprint}`;
    const wanted = { mode, sealTo: seal.publicKey, ...(await signed("desktop.session", target, shown)) };
    shown("");
    const asked = await post<Operation>(`/api/desktops/${desktopId}/session`, wanted);
    if (!isOver(asked)) await ends.of(asked.id);
    // An event tells everybody that it is done; the link is only for whoever asked.
    const operation = await get<Operation>(`/api/operations/${asked.id}`);
    const sealed = operation.result?.sealed;
    if (operation.state === "done" && sealed) {
      const link = await seal.opened(sealed as Sealed, target);
      if (link !== null && trusted(link)) return link;
      throw new ApiError(0, refusal(desktopId, "the link is sealed to another page, or leads to no gateway"));
    }
    throw new ApiError(0, operation.problem ?? refusal(desktopId, "no link came back"));
  } finally {
    ends.forget();
  }
}

/** A gateway is a sibling of Mission Control, and never Mission Control itself: a page of it would be ours. */
function trusted(link: string): boolean {
  const url = URL.canParse(link) ? new URL(link) : null;
  return url?.protocol === "https:" && url.host !== location.host;
}

function refusal(desktopId: string, reason: string) {
  return { field: "session", value: desktopId, reason, remedy: "Try again; the operation's page says what it did" };
}

/** Hears of operations that end, from before any is asked for. */
class Ends {
  readonly #over = new Set<string>();
  #told = (): void => undefined;
  readonly forget = connection.on("operation", (data) => {
    const operation = data as Operation;
    if (isOver(operation)) this.#over.add(operation.id);
    this.#told();
  });

  of(operationId: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const late = setTimeout(
        () => reject(new ApiError(0, refusal(operationId, `no link came within ${SECONDS} s`))),
        SECONDS * 1000,
      );
      this.#told = () => {
        if (!this.#over.has(operationId)) return;
        clearTimeout(late);
        resolve();
      };
      this.#told();
    });
  }
}
