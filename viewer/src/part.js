// A stream of a window or a region, which a link names in its fragment: shown alone, and looked at only.
import { showDesktop } from "./desktop.js";
import { Ended, keepConnected, session } from "./session.js";

const SHAPE = /^[A-Za-z0-9_-]{12}$/;
// So often in a row it may not open: a gateway that is updated, or a desktop that is busy, refuses for a moment.
const MOST_REFUSALS = 3;

export class Over extends Error {}

// The id of the stream that this page is for; empty where it is for the whole desktop.
export const streamOfPage = () => new URLSearchParams(location.hash.slice(1)).get("stream") ?? "";

// Show it until it is over, or the session is.
export function showPart(element, stream, onOpened, onState) {
  if (!SHAPE.test(stream)) {
    return Promise.reject(new Over());
  }
  let refusals = 0;
  const connect = async () => {
    const opened = await showDesktop(element, onOpened, stream);
    refusals = opened || (await mayComeBack()) ? 0 : refusals + 1;
    if (refusals === MOST_REFUSALS) {
      throw new Over();
    }
    return opened;
  };
  return keepConnected(connect, onState);
}

// While a person wants privacy nobody gets a picture of a part, and a gateway that is away refuses everything.
async function mayComeBack() {
  try {
    return Boolean((await session()).private);
  } catch (error) {
    if (error instanceof Ended) {
      throw error;
    }
    return true;
  }
}
