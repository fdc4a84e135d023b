"""Marks of this machine: a file for what a desktop may have of it, so that it is asked for that from then on."""

from pathlib import Path


def leave_mark(mark: Path) -> None:
    """Have the mark be there, in a folder of its owner alone."""
    mark.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    mark.touch()
