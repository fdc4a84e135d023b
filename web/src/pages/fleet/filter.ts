// What the fleet's page shows of all desktops: kept in the address.
import type { Desktop } from "../../api/types";

export interface Filter {
  q: string;
  workspace: string;
  state: string;
  tier: string;
  /** With any word: only those for which there is another image. */
  upgrade: string;
}

export const NAMES = ["q", "workspace", "state", "tier", "upgrade"] as const;

export function filterIn(query: URLSearchParams): Filter {
  return Object.fromEntries(NAMES.map((name) => [name, query.get(name) ?? ""])) as unknown as Filter;
}

export function isFiltered(filter: Filter): boolean {
  return NAMES.some((name) => filter[name] !== "");
}

/** Whether a desktop passes, but for one property: of that, all values are counted. */
export function passes(desktop: Desktop, filter: Filter, but: keyof Filter | "" = ""): boolean {
  const q = filter.q.toLowerCase();
  return (
    (but === "workspace" || !filter.workspace || desktop.workspaceId === filter.workspace) &&
    (but === "state" || !filter.state || desktop.state === filter.state) &&
    (!filter.upgrade || !!desktop.upgradeTo) &&
    (but === "tier" || !filter.tier || desktop.tier === filter.tier) &&
    (!q || desktop.id.includes(q))
  );
}

/** How many desktops have each value of a property. */
export function counted(desktops: Desktop[], value: (desktop: Desktop) => string): [string, number][] {
  const counts = new Map<string, number>();
  for (const desktop of desktops) counts.set(value(desktop), (counts.get(value(desktop)) ?? 0) + 1);
  return [...counts].sort((left, right) => right[1] - left[1]);
}
