"""`./inv` in this process: the same parser, tasks and exit codes, without the start of another Python."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from invoke import Program

import tasks


@dataclass(frozen=True)
class Said:
    """How a task ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """What `--json` printed."""
        return json.loads(self.out)


def inv(capsys: pytest.CaptureFixture[str], *arguments: str) -> Said:
    """Run a task as somebody at a shell does."""
    capsys.readouterr()
    code = 0
    try:
        Program(namespace=tasks.ns).run(["inv", *arguments])
    except SystemExit as ended:
        code = int(ended.code or 0)
    return Said(code, *capsys.readouterr())
