// The address is the state of a page: what is filtered and chosen can be sent to somebody.

class Router {
  url = $state.raw(new URL(location.href));

  constructor() {
    addEventListener("popstate", () => (this.url = new URL(location.href)));
    document.addEventListener("click", (event) => this.#follow(event));
  }

  get path(): string {
    return this.url.pathname;
  }

  go(target: string): void {
    history.pushState(null, "", target);
    this.url = new URL(location.href);
  }

  replace(target: string): void {
    history.replaceState(history.state, "", target);
    this.url = new URL(location.href);
  }

  /** Write values into the address of this page; empty ones leave it. */
  setQuery(values: Record<string, string>): void {
    const url = new URL(this.url);
    for (const [name, value] of Object.entries(values)) {
      if (value) url.searchParams.set(name, value);
      else url.searchParams.delete(name);
    }
    this.replace(url.pathname + url.search);
  }

  /** Links stay links, to open elsewhere and to copy; a plain click needs no new document. */
  #follow(event: MouseEvent): void {
    const link = (event.target as Element | null)?.closest?.("a");
    if (!link || link.target || link.origin !== location.origin || link.hasAttribute("download")) return;
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    if (link.pathname.startsWith("/api/") || (link.hash && link.pathname === location.pathname)) return;
    event.preventDefault();
    this.go(link.pathname + link.search);
  }
}

export const router = new Router();
