// What is counted against quotas, in the words of a person.
import type { Amounts, Price, Quota, Tier } from "../../api/types";
import { units } from "./amounts";

interface Counted {
  key: keyof Amounts;
  title: string;
  written: (amount: number) => string;
}

export const COUNTED: Counted[] = [
  { key: "desktops", title: "Desktops", written: String },
  { key: "vcpus", title: "vCPU", written: String },
  { key: "memoryMib", title: "Memory", written: (mib) => `${Number((mib / 1024).toFixed(1))} GiB` },
  { key: "diskGib", title: "Disks", written: (gib) => `${gib} GiB` },
  { key: "microsPerDay", title: "Price a day", written: units },
];

/** What an hour of a tier costs now; null where it has no price. */
export function priceOf(tier: Tier, prices: Price[]): number | null {
  const known = prices.filter((price) => price.tier === tier.name).toSorted((left, right) => (left.since < right.since ? 1 : -1));
  return known[0]?.microsPerHour ?? null;
}

/** What one more desktop of a tier takes. */
export function takes(tier: Tier, prices: Price[]): Amounts {
  const { vcpus, memoryGib, diskGib, homeGib } = tier;
  const microsPerDay = (priceOf(tier, prices) ?? 0) * 24;
  return { desktops: 1, vcpus, memoryMib: memoryGib * 1024, diskGib: diskGib + homeGib, microsPerDay };
}

/** What a quota says to one more desktop: a line for each bound, and whether it is too much. */
export function verdicts(quota: Quota, more: Amounts): { text: string; over: boolean }[] {
  return COUNTED.flatMap(({ key, title, written }) => {
    const most = quota[key];
    if (most === null) return [];
    const then = quota.used[key] + more[key];
    return [{ text: `${title}: ${written(then)} of ${written(most)} with it`, over: then > most }];
  });
}
