// The page to open after a provider signed somebody in: kept in this tab, since the provider sends back to one address.
import { nextPage } from "../../state/session.svelte";

const NAME = "afterwards";

export const afterwards = {
  keep(asked: string | null): void {
    sessionStorage.setItem(NAME, asked ?? "/");
  },

  take(): string {
    const asked = sessionStorage.getItem(NAME);
    sessionStorage.removeItem(NAME);
    return nextPage(asked);
  },
};
