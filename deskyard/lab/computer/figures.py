"""Figures: waits as their middle and their hundredth, beside the other way and an aim."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deskyard.lab.quantile import quantile

WANTED = 10.0  # so many times as good as E2B's way every figure is meant to be


@dataclass(frozen=True)
class Figure:
    """A figure of the service and, where the other way has one, of that: p50 of waits, or a rate.

    `ratio` is how many times better the service is; `aim` is what was wanted, and `met` whether that is so here.
    """

    name: str
    unit: str
    ours: float
    worst: float | None = None  # p99 of waits
    theirs: float | None = None
    ratio: float | None = None
    aim: str = ""
    met: bool | None = None


def waits(name: str, ours: Sequence[float], theirs: Sequence[float] = (), *, most: float | None = None) -> Figure:
    """A figure of waits in milliseconds; `most` is the aim for a machine that emulates nothing."""
    middle, worst = quantile(ours, 0.5), round(quantile(ours, 0.99), 2)
    other = quantile(theirs, 0.5) if theirs else None
    times = other / middle if other is not None else None
    aims = [f"{WANTED:g} x"] if times is not None else []
    aims += [f"<= {most:g} ms"] if most is not None else []
    met = (times is None or times >= WANTED) and (most is None or middle <= most)
    return Figure(
        name, "ms", _short(middle), worst, _short(other), _short(times), ", ".join(aims), met if aims else None
    )


def rate(name: str, unit: str, ours: float, theirs: float, *, wants_more: bool = False) -> Figure:
    """A figure of which less is better, such as processor time; or more, such as pictures a second."""
    better, worse = (ours, theirs) if wants_more else (theirs, ours)
    return Figure(name, unit, round(ours, 2), None, _short(theirs), _short(better / worse if worse else None))


def _short(value: float | None) -> Any:
    return None if value is None else round(value, 2)


def text(figures: Sequence[Figure]) -> str:
    """The figures as a table."""
    lines = [f"{'ratio':>8}  {'ours':>9}  {'p99':>9}  {'theirs':>9}"]
    for figure in figures:
        cells = [_cell(value) for value in (figure.ours, figure.worst, figure.theirs)]
        ratio = f"{figure.ratio:6.1f} x" if figure.ratio is not None else " " * 8
        verdict = f"  (aim {figure.aim}: {'met' if figure.met else 'NOT met'})" if figure.aim else ""
        lines.append(f"{ratio}  {'  '.join(cells)}  {figure.unit}  {figure.name}{verdict}")
    return "\n".join(lines)


def _cell(value: float | None) -> str:
    return f"{value:9.2f}" if value is not None else " " * 9
