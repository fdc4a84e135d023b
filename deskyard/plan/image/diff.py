"""How two builds of images differ, as far as their manifests tell; their disks may be compared beside that."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from deskyard.plan.image.difference import Difference, compare
from deskyard.plan.image.file_diff import FileChange
from deskyard.plan.image.inputs import input_kind

FACTS = ("name", "version", "git_commit", "accelerator")


@dataclass(frozen=True)
class InputChange:
    """An input that the second of two builds has otherwise than the first."""

    change: Literal["added", "removed", "changed", "permission"]
    kind: str
    path: str


@dataclass(frozen=True)
class ImageDiff:
    """The differences of a second build from the first.

    `inputs` is nothing where one of them did not record any, `files` where the disks were not compared.
    """

    first: str
    second: str
    same_disk: bool
    size_bytes: tuple[int, int]
    facts: Difference
    tools: Difference
    packages: Difference
    inputs: tuple[InputChange, ...] | None
    files: tuple[FileChange, ...] | None = None


def diff(first: Mapping[str, Any], second: Mapping[str, Any]) -> ImageDiff:
    """Compare two manifests."""
    recorded = "inputs" in first and "inputs" in second
    return ImageDiff(
        first=f"{first['name']}@{first['digest']}",
        second=f"{second['name']}@{second['digest']}",
        same_disk=first["sha256"] == second["sha256"],
        size_bytes=(int(first["size_bytes"]), int(second["size_bytes"])),
        facts=compare(_facts(first), _facts(second)),
        tools=compare(first["tools"], second["tools"]),
        packages=compare(first["packages"], second["packages"]),
        inputs=input_changes(first["inputs"], second["inputs"]) if recorded else None,
    )


def _facts(manifest: Mapping[str, Any]) -> dict[str, str]:
    facts = {key: str(manifest[key]) for key in FACTS if manifest[key] is not None}
    return facts | {f"base {key}": str(value) for key, value in manifest["base"].items()}


def input_changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[InputChange, ...]:
    """The inputs whose fingerprints differ, sorted by path."""
    difference = compare(before, after)
    found: dict[str, Literal["added", "removed", "changed", "permission"]] = {}
    found |= dict.fromkeys(difference.added, "added")
    found |= dict.fromkeys(difference.removed, "removed")
    for path, (old, new) in difference.changed.items():
        found[path] = "permission" if old.split()[1] == new.split()[1] else "changed"
    return tuple(InputChange(found[path], input_kind(path), path) for path in sorted(found))
