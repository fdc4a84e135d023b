// Who is signed in.
import { ApiError, get, post, problemOf, signedOut } from "../api/client";
import type { Me, ProblemDetails } from "../api/types";
import { router } from "./router.svelte";

class SessionState {
  me = $state.raw<Me | null>(null);
  problem = $state.raw<ProblemDetails | null>(null);

  #leaving = false;

  async load(): Promise<void> {
    this.problem = null;
    try {
      this.me = await get<Me>("/api/me");
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 401)) this.problem = problemOf(error);
    }
  }

  /** Whether the person has a scope. The API refuses what they may not do; pages do not offer it, nor have it signed. */
  may(scope: string): boolean {
    return this.me?.scopes.includes(scope) ?? false;
  }

  async signOut(): Promise<void> {
    await post("/api/sign-out");
    this.#leaving = true;
    // A new document: nothing of the person stays in memory.
    location.assign("/sign-in");
  }

  /** Ask for a passkey, and come back to this page after it. */
  askForSignIn(): void {
    // What was asked before the end of the session is refused now: that leads nowhere.
    if (this.#leaving) return;
    this.me = null;
    if (router.path.startsWith("/sign-in") || router.path === "/enrol") return;
    const here = router.url.pathname + router.url.search;
    router.replace(here === "/" ? "/sign-in" : `/sign-in?next=${encodeURIComponent(here)}`);
  }
}

export const session = new SessionState();
signedOut.handler = () => session.askForSignIn();

/** Where to go after sign-in: a page of ours, whatever the address says. */
export function nextPage(asked: string | null): string {
  const target = new URL(asked ?? "/", location.origin);
  return target.origin === location.origin && asked?.startsWith("/") ? target.pathname + target.search : "/";
}
