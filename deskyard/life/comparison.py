"""Compares how a desktop is with how it was before its exchange, from look to look."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

# Without it nobody sees how the desktop is.
GATEWAY = "gateway"
# What fails there says nothing of a system: its backups, its gateway, and a clock that is compared with this host's.
ELSEWHERE = frozenset({"backup", "clock", GATEWAY})
# What a person fills who works there meanwhile.
FILLED = frozenset({"disk", "files", "home", "memory"})
# What may be in trouble only for as long as everything starts.
SETTLING = frozenset({"services"})


@dataclass
class Comparison:
    """The checks that fail and did not before: at the first look, or later in two looks one after another.

    `last` is what failed at the last look that saw the desktop; None means that nobody has seen it yet. `silent` is
    what kept the last look from seeing it.
    """

    before: Collection[str]
    last: Mapping[str, str] | None = None
    worse: dict[str, str] = field(default_factory=dict)
    silent: str = ""

    def take(self, failed: Mapping[str, str]) -> None:
        """Take in a look, as the details of the checks that fail, by their names."""
        self.silent = failed.get(GATEWAY, "")
        if self.silent:
            return
        now = _without(failed, ELSEWHERE.union(self.before))
        if self.last is None:
            self.worse = _without(now, SETTLING)
        else:
            now = _without(now, FILLED)
            # On a busy machine anything is late once.
            self.worse = _without(now, now.keys() - self.last.keys())
        self.last = now


def _without(failed: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    return {check: detail for check, detail in failed.items() if check not in names}
