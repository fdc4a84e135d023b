"""Counters of the second HAProxy: bytes and connections of each desktop and name, in each of its workers."""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from deskyard.gateway.egress import router
from deskyard.gateway.machine.layout import Layout
from deskyard.wire.egress_list import NAME

TABLE = "traffic"
OTHERS = "others"  # no name has a single label
ROW_BYTES = 320  # a desktop's name, a DNS name and a port
ROWS_BELOW = 200  # names of one desktop that only a wildcard covers
_ROW = re.compile(rf"([a-z0-9-]{{1,32}})/({NAME}(?::[0-9]{{1,5}})?|{OTHERS})\Z")


@dataclass(frozen=True)
class Row:
    """A worker's counts for a desktop and a name since `born`, a second since 1970."""

    table: str
    desktop: str
    name: str
    born: int
    connections: int
    sent: int
    received: int

    @property
    def listed(self) -> bool:
        """Whether an entry of the list names it, or it stands for those that have no row of their own."""
        return self.table == TABLE


def read(layout: Layout) -> dict[int, list[Row]]:
    """All rows of each worker that gave them whole, by its process id; none while nobody answers."""
    found: dict[int, list[Row]] = {}
    with contextlib.suppress(OSError):
        for worker in router.workers(layout):
            with contextlib.suppress(OSError):
                found[worker] = list(_rows(layout, worker))
    return found


def _rows(layout: Layout, worker: int) -> Iterator[Row]:
    for line in _lines(layout, f"@!{worker} show table"):
        words = line.replace(",", "").split()
        if words[:2] == ["#", "table:"] and words[2].startswith(TABLE) and words[-1] != "used:0":
            rows = _lines(layout, f"@!{worker} show table {words[2]}")
            yield from filter(None, (_row(words[2], row) for row in rows))


def _lines(layout: Layout, command: str) -> list[str]:
    answer = router.ask(layout, command)
    # A master that replaces itself, or a worker that ends, breaks off.
    if not answer.endswith("\n\n"):
        raise ConnectionAbortedError(f"{command}: broken off")
    return answer.splitlines()


def _row(table: str, line: str) -> Row | None:
    values = dict(word.split("=", 1) for word in line.split() if "=" in word)
    key = _ROW.match(values.get("key", ""))
    if key is None or values.get("gpt0", "0") == "0":  # not begun yet: the next reading has it
        return None
    counts = (int(values[name]) for name in ("gpt0", "conn_cnt", "bytes_in_cnt", "bytes_out_cnt"))
    return Row(table, key[1], key[2], *counts)
