// Which names are closed, as the newest look and the newest operation that a budget asked for say it.
import type { Budget, Closed, Look, Operation } from "../../api/types";

export const CLOSE = "egress.close";
export const BUDGET = "budget";

/** What a look found, with what a gateway was told for a budget since then in place of what the look saw of it. */
export function closedNames(looked: Operation | undefined, closing: Operation | undefined): Closed[] {
  const seen = (looked?.result as Look | null | undefined)?.allowed.closed ?? [];
  const at = closing?.endedAt;
  if (!closing || !at || (looked?.endedAt && Date.parse(looked.endedAt) > Date.parse(at))) return seen;
  const names = (closing.result as { closed?: string[] } | null)?.closed ?? [];
  const before = (name: string): Closed | undefined => seen.find((row) => row.entry === name && row.reason === BUDGET);
  const byBudget = names.map((name) => before(name) ?? { entry: name, reason: BUDGET, actor: closing.actor, since: at });
  return [...seen.filter((row) => row.reason !== BUDGET), ...byBudget];
}

/** Which bounds of a budget are spent, in words; none as far as it is known: nothing. */
export function spentOf(budget: Budget | undefined): string {
  if (!budget) return "";
  const { bytesPerMonth, bytesSpent, microsPerMonth, spent } = budget;
  const time = microsPerMonth && spent >= microsPerMonth ? ["machine time"] : [];
  const measured = bytesPerMonth && bytesSpent >= bytesPerMonth ? ["measured bytes"] : [];
  return [...time, ...measured].join(" and ");
}
