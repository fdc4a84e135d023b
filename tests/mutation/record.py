"""Keeps verdicts in a file as they are found, so that a run that was ended goes on where it stopped."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from tests.mutation.engine import TREE, Verdict
from tests.mutation.mutants import Mutant

STANDING = ("killed", "invalid", "survived")


class Record:
    """Verdicts of one or several runs, a JSON document per line.

    A kill stands as long as the mutant's template, the gateway's programs, the lab and the file of the test that killed
    are what they were: to add a test elsewhere brings no mutant back to life. That a mutant survived stands as long as
    all tests are what they were. What had no answer is tried again.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path

    def baseline(self) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, list[str]]]] | None:
        """What the tests as they are passed and rendered, if they and the gateway are what they were then."""
        for found in self._lines():
            if found.get("baseline") == _digest("*.j2", *_tests()) and "rendered" in found:
                return found["tests"], found["rendered"]
        return None

    def keep_baseline(self, tests: dict[str, dict[str, float]], rendered: dict[str, dict[str, list[str]]]) -> None:
        """Write down what the tests as they are passed and rendered."""
        self._write({"baseline": _digest("*.j2", *_tests()), "tests": tests, "rendered": rendered})

    def verdicts(self, among: Iterable[Mutant]) -> dict[Mutant, Verdict]:
        """What became of those of the mutants whose verdict stands."""
        verdicts: dict[str, Verdict] = {}
        for found in self._lines():
            if "mutant" not in found:
                continue
            verdict = Verdict(found["state"], found["by"], found["seconds"])
            if verdict.state in STANDING and found["digest"] == _rests_on(found["mutant"], verdict):
                verdicts[found["mutant"]] = verdict
        return {mutant: verdicts[str(mutant)] for mutant in among if str(mutant) in verdicts}

    def hints(self) -> dict[str, str]:
        """Which test killed which mutant, whether or not that stands: it is the one to try first."""
        return {found["mutant"]: found["by"] for found in self._lines() if found.get("by")}

    def add(self, mutant: Mutant, verdict: Verdict) -> None:
        """Write one verdict down at once."""
        self._write({"mutant": str(mutant), **asdict(verdict), "digest": _rests_on(str(mutant), verdict)})

    def _lines(self) -> list[dict[str, Any]]:
        if self.path is None or not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def _write(self, line: dict[str, Any]) -> None:
        if self.path is not None:
            with self.path.open("a") as out:
                out.write(json.dumps(line) + "\n")


def _rests_on(mutant: str, verdict: Verdict) -> str:
    return _digest(mutant.partition(" ")[0], *(_tests() if verdict.state == "survived" else [verdict.by]))


def _tests() -> list[str]:
    return sorted(str(path.relative_to(TREE)) for path in (TREE / "tests/gateway").glob("test_*.py"))


@cache
def _digest(template: str, *tests: str) -> str:
    """What a verdict on a template by these tests rests on: the gateway, the lab and the tests' files."""
    rooms = (TREE / "deskyard/gateway", TREE / "deskyard/wire")
    files = [path for room in rooms for path in room.rglob("*") if path.suffix in (".py", ".html")]
    files += (TREE / "deskyard/gateway/config/templates").glob(template)
    files += [path for path in (TREE / "tests/gateway").glob("*.py") if not path.name.startswith("test_")]
    files += [TREE / test.partition("::")[0] for test in tests if test]
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(f"{path.relative_to(TREE)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]
