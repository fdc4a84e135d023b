// A link to a desktop's screen, as its gateway gives it out: signed for, and sealed to this page.
import { ApiError } from "../../api/client";
import { refusal, sealedSecret, type Wish } from "../../api/sealed";

/** The link of a new session, which opens once; `shown` gets what is signed. */
export async function openSession(
  desktopId: string,
  mode: "drive" | "view",
  shown: (text: string) => void,
): Promise<string> {
  const wish: Wish = {
    path: `/api/desktops/${desktopId}/session`,
    kind: "desktop.session",
    target: `${desktopId} ${mode}`,
    body: { mode },
    secret: "link",
    field: "session",
    value: desktopId,
  };
  const link = await sealedSecret(wish, shown);
  if (!trusted(link)) throw new ApiError(0, refusal(wish, "the link leads to no gateway"));
  return link;
}

/** A gateway is a sibling of Mission Control, and never Mission Control itself: a page of it would be ours. */
function trusted(link: string): boolean {
  const url = URL.canParse(link) ? new URL(link) : null;
  return url?.protocol === "https:" && url.host !== location.host;
}
