"""Quantiles of what benches measure, as rows of a table."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Row:
    """Waits in seconds: the middle one, the 95th of a hundred, the longest; `ratio` is of the middle to another wait.

    `aim` is what was wanted of it, and `met` whether that was so; of most rows nothing is.
    """

    name: str
    p50: float
    p95: float
    most: float
    ratio: float
    count: int
    aim: str = ""
    met: bool | None = None


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest of these that is no smaller than so many of them."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def row(name: str, measured: Sequence[float], base: float) -> Row:
    """The row of what was measured; `base` is the wait that it is held against."""
    middle = quantile(measured, 0.5)
    return Row(name, middle, quantile(measured, 0.95), max(measured), middle / base, len(measured))


def judged(found: Row, unit: str, most: float) -> Row:
    """A row of which none was to be more than this."""
    return replace(found, aim=f"<= {most:g} {unit}", met=found.most <= most)


def table(found: Sequence[Row]) -> str:
    """The rows as a table."""
    head = f"{'ratio':>9}  {'p50':>9}  {'p95':>9}  {'max':>9}"
    lines = [
        f"{row.ratio:9.3f}  {row.p50:9.2f}  {row.p95:9.2f}  {row.most:9.2f}  {row.name}{_aim(row)}" for row in found
    ]
    return "\n".join([head, *lines])


def _aim(found: Row) -> str:
    return f"  (aim {found.aim}: {'met' if found.met else 'NOT met'})" if found.aim else ""
