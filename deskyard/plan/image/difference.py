"""Differences of two sets of named values: packages and their versions, inputs and their fingerprints."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """Names that the second set has beyond the first, lacks, and has otherwise (the first's value, the second's)."""

    added: Mapping[str, str]
    removed: Mapping[str, str]
    changed: Mapping[str, tuple[str, str]]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def __len__(self) -> int:
        return len(self.added) + len(self.removed) + len(self.changed)


def compare(first: Mapping[str, str], second: Mapping[str, str]) -> Difference:
    """How `second` differs from `first`, sorted by name."""
    return Difference(
        added={name: second[name] for name in sorted(second.keys() - first.keys())},
        removed={name: first[name] for name in sorted(first.keys() - second.keys())},
        changed={
            name: (first[name], second[name])
            for name in sorted(first.keys() & second.keys())
            if first[name] != second[name]
        },
    )
