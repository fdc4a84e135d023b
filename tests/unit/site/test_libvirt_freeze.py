"""A guest stands still for an instant: a watchdog is there before, the thaw comes whatever happens."""

from collections.abc import Sequence
from typing import Any

import pytest

from deskyard.errors import SiteError
from deskyard.site.libvirt import agent
from deskyard.site.libvirt.backup import freeze


class Agent:
    """A guest's agent that notes what it is asked; a frozen one runs no program."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.frozen, self.watchdog, self.thaws = False, "4711\n", 2

    def call(self, _machine: Any, command: str, seconds: int = 0) -> Any:
        self.asked.append(command.removeprefix("guest-fsfreeze-"))
        if command.endswith("status"):
            return "frozen" if self.frozen else "thawed"
        self.frozen = command.endswith("freeze") and not command.endswith("thaw")
        return 2 if self.frozen else self.thaws

    def execute(self, machine: Any, argv: Sequence[str], seconds: float = 30, stdin: str = "") -> tuple[int, str]:
        if self.frozen:
            raise SiteError("machine", "x", "guest-exec has been disabled", "thaw")
        self.asked.append(argv[0].rpartition("/")[2])
        return 0, self.watchdog if argv[0].endswith("python3") else ""


@pytest.fixture
def guest(monkeypatch: pytest.MonkeyPatch) -> Agent:
    guest = Agent()
    monkeypatch.setattr(agent, "call", guest.call)
    monkeypatch.setattr(agent, "execute", guest.execute)
    return guest


class Machine:
    """A name is all that is asked of it."""

    def name(self) -> str:
        return "lab-dev1"


def test_watchdog_is_there_before_the_freeze_and_goes_after_the_thaw(guest: Agent) -> None:
    seconds = freeze.hold(Machine(), "n", lambda: guest.asked.append("work"))
    assert guest.asked == ["status", "sh", "python3", "freeze", "work", "thaw", "kill"]
    assert 0 <= seconds < 1


def test_guest_is_thawed_if_the_work_fails(guest: Agent) -> None:
    def fail() -> None:
        raise SiteError("disk", "vda", "no room", "make some")

    with pytest.raises(SiteError, match="no room"):
        freeze.hold(Machine(), "n", fail)
    assert (guest.asked[-1], guest.frozen) == ("thaw", False)


@pytest.mark.parametrize("thaws", [0, 1])
def test_guest_that_was_thawed_before_the_work_was_done_gives_no_backup(guest: Agent, thaws: int) -> None:
    guest.thaws = thaws
    with pytest.raises(SiteError, match="did not stand still"):
        freeze.hold(Machine(), "n", lambda: None)


def test_what_a_killed_run_left_frozen_is_thawed_first(guest: Agent) -> None:
    guest.frozen = True
    freeze.hold(Machine(), "n", lambda: None)
    assert guest.asked[:3] == ["status", "thaw", "sh"]


def test_without_a_watchdog_nothing_is_frozen(guest: Agent) -> None:
    guest.watchdog = "no python"
    with pytest.raises(SiteError, match="watchdog"):
        freeze.hold(Machine(), "n", lambda: None)
    assert "freeze" not in guest.asked
