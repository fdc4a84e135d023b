// What happens after a provider was asked: the page to open, kept in this tab since the provider sends back to one
// address; or why nobody was signed in, which the page of signing in says once.
import type { ProblemDetails } from "../../api/types";
import { nextPage } from "../../state/session.svelte";

const NAME = "afterwards";
let refusal: ProblemDetails | null = null;

export const afterwards = {
  keep(asked: string | null): void {
    sessionStorage.setItem(NAME, asked ?? "/");
  },

  take(): string {
    const asked = sessionStorage.getItem(NAME);
    sessionStorage.removeItem(NAME);
    return nextPage(asked);
  },

  refuse(problem: ProblemDetails): void {
    refusal = problem;
  },

  takeRefusal(): ProblemDetails | null {
    const problem = refusal;
    refusal = null;
    return problem;
  },
};
