"""A Mission Control whose worker gives desktops for a task, at the seats of `seated.py`."""

from typing import Any

import httpx
import pytest

from deskyard.control.jobs import observer
from deskyard.control.tasks import seen
from deskyard.workspace.ledger import Ledger
from tests.control import seated
from tests.control.lab import Lab

TASKS = "/api/workspaces/lab/tasks"
SEATED = "tests.control.seated"


class Bench:
    """A Mission Control whose worker gives desktops at three seats, and the ledger of these."""

    def __init__(self, mission: Lab, declared: Any) -> None:
        self.mission, self.declared = mission, declared
        self.ledger = Ledger("local", "lab")

    def see(self) -> None:
        """Let the seats be written down, as who observes does."""
        seen.write(self.mission.link, "lab", seen.read(self.declared))

    def claimers(self) -> list[str]:
        """Who has something by the ledger."""
        return sorted(each.claim.by for each in self.ledger.machines().values() if each.claim is not None)

    def seats(self, client: httpx.Client) -> dict[str, str]:
        return {seat["name"]: seat["state"] for seat in client.get(TASKS).json()["items"]}


def begun(mission: Lab, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """The bench, with all seats free, where `SEATED` does what is wanted, or a program that stands in for that."""
    monkeypatch.setenv("DESKYARD_HOME", str(mission.path / "home"))
    declared = seated.stand_in(mission.path, monkeypatch.setattr)
    observer.write_declared(mission.link, declared)
    found = Bench(mission, declared)
    found.see()
    return found
