"""How far desktops are: moves of machines and answers of the gateway become events, each once."""

import threading
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from deskyard.declaration import declaration
from deskyard.errors import ConfigError, SiteError
from deskyard.life import events, power
from deskyard.plan.power import Power
from deskyard.plan.workspace import DesktopPlan
from deskyard.site.libvirt.moves import LibvirtMoves
from deskyard.site.proxmox.moves import ClusterMoves
from deskyard.wire.stages import Stage
from deskyard.workspace import readiness
from tests.support.moves import Moves
from tests.unit.life.machines import DEV1, DEV2, PLAN

SECONDS = 20.0


class Lab:
    """Workspace `lab`: states of its machines, moves that a test tells, and answers of its gateway in order."""

    def __init__(self) -> None:
        self.now = {DEV1: "running", DEV2: "stopped"}
        self.pushed = Moves()
        self.answers: list[Any] = []
        self.asked = 0

    def moves(self) -> Moves:
        return self.pushed

    def states(self) -> dict[str, dict[str, Any]]:
        return {domain: {"state": state, "desired": Power.RUNNING} for domain, state in self.now.items()}

    def ask(self, _: object, desktops: Sequence[DesktopPlan]) -> dict[str, Any]:
        # Only those whose machines run: of each other one a gateway would wait for seconds.
        assert {self.now[desktop.machine.domain] for desktop in desktops} == {"running"}
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        found: dict[str, Any] = answer() if callable(answer) else answer
        return found


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Its first desktop runs, the other one is off, and no route answers."""
    lab = Lab()
    lab.answers = [answering()]
    monkeypatch.setattr(declaration, "read", lambda _: SimpleNamespace(plan=PLAN))
    monkeypatch.setattr(power, "backend_of", lambda _: SimpleNamespace(answers=lambda: True))
    monkeypatch.setattr(power, "machines_of", lambda _: lab)
    monkeypatch.setattr(readiness, "ask", lab.ask)
    monkeypatch.setattr(readiness, "pause_after", lambda _: 0.0)
    monkeypatch.setattr(events, "AGAIN_SECONDS", 0.0)
    return lab


def answering(*routes: str, gateway: bool = True) -> dict[str, Any]:
    """A gateway's status in which these routes of the first desktop answer."""
    every = {route: {"ready": route in routes} for route in PLAN.desktop("dev1").routes}
    return {"gateway_ready": gateway, "desktops": {"dev1": every}}


def seen(found: Iterable[events.Event]) -> list[tuple[str, Stage, str]]:
    return [(event.desktop, event.state, event.detail) for event in found]


ALL = tuple(sorted(PLAN.desktop("dev1").routes))


def test_each_desktop_is_told_as_it_is_and_the_gateway_says_who_is_ready(lab: Lab) -> None:
    lab.answers = [answering(*ALL)]
    assert seen(events.now("lab")) == [("dev1", Stage.READY, ", ".join(ALL)), ("dev2", Stage.STOPPED, "")]
    assert lab.asked == 1


def test_gateway_is_not_asked_where_nothing_boots(lab: Lab) -> None:
    lab.now = {DEV1: "io-error"}
    assert seen(events.now("lab")) == [("dev1", Stage.IO_ERROR, ""), ("dev2", Stage.PROVISIONING, "")]
    assert lab.asked == 0


def test_desktop_is_ready_once_all_its_routes_answer(lab: Lab) -> None:
    lab.answers = [answering(), answering(ALL[0]), answering(*ALL, gateway=False), answering(*ALL)]
    *found, last = events.wait("lab/dev1", "ready", 60)
    assert (last.state, last.detail, lab.asked) == (Stage.READY, ", ".join(ALL), 4)
    # Each state on the way, with its time.
    boots = [("dev1", Stage.BOOTING, detail) for detail in ("", ALL[0], ", ".join(ALL))]
    assert seen(found) == boots
    assert [event.at for event in [*found, last]] == sorted(event.at for event in [*found, last])


def test_changes_are_told_each_once(lab: Lab) -> None:
    lab.answers = [answering(*ALL)]
    follow = events.follow("lab")
    # One that is ready is not told to boot.
    assert seen(next(follow) for _ in range(2)) == [("dev2", Stage.STOPPED, ""), ("dev1", Stage.READY, ", ".join(ALL))]
    for stage, detail in (
        (Stage.STOPPING, ""),
        (Stage.STOPPING, ""),
        (Stage.STOPPED, "plug pulled"),
        (Stage.STOPPING, ""),
        (Stage.IO_ERROR, "vda: no room"),
        (Stage.IO_ERROR, ""),
        (Stage.PAUSED, ""),
    ):
        lab.pushed.tell(DEV1, stage, detail)
    assert seen(next(follow) for _ in range(4)) == [
        ("dev1", Stage.STOPPING, ""),
        ("dev1", Stage.STOPPED, "plug pulled"),
        ("dev1", Stage.IO_ERROR, "vda: no room"),
        ("dev1", Stage.PAUSED, ""),
    ]


def test_whoever_is_followed_for_long_stays_ready_and_is_told_of_once_it_answers_no_more(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "CHECK_SECONDS", -1.0)
    lost = answering(ALL[0])
    # Once is no news, and silence of the gateway is said apart.
    lab.answers = [answering(*ALL), answering(*ALL), lost, answering(*ALL), readiness.silent("no route"), lost, lost]
    silences: list[str] = []
    follow = events.follow("lab", checked=silences.append)
    assert seen(next(follow) for _ in range(2))[1] == ("dev1", Stage.READY, ", ".join(ALL))
    assert seen([next(follow)]) == [("dev1", Stage.BOOTING, ALL[0])]
    assert silences == ["", "", ""]


def test_silence_of_the_gateway_is_told_with_its_reason(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "CHECK_SECONDS", -1.0)
    lab.answers = [answering(*ALL), readiness.silent("no route")]
    silences: list[str] = []
    follow = events.follow("lab", checked=silences.append)
    assert seen(next(follow) for _ in range(3))[2] == ("dev1", Stage.BOOTING, "")
    assert silences == ["no route"]


def test_machines_are_watched_before_the_gateway_answers(lab: Lab) -> None:
    order: list[str] = []

    def asked() -> dict[str, Any]:
        order.append("gateway")
        return answering(*ALL)

    lab.answers = [asked]
    follow = events.follow("lab", watched=lambda: order.append("watched"))
    assert seen([next(follow)]) == [("dev2", Stage.STOPPED, "")]
    assert order == []
    assert seen([next(follow)]) == [("dev1", Stage.READY, ", ".join(ALL))]
    assert order == ["watched", "gateway"]


@pytest.mark.parametrize("kind", ["pushed", "looked for"])
def test_following_ends_as_soon_as_that_is_wanted(lab: Lab, kind: str) -> None:
    moves: Any = LibvirtMoves(frozenset([DEV1])) if kind == "pushed" else ClusterMoves(lambda: {})
    lab.moves = lambda: nullcontext(moves)  # type: ignore[method-assign,return-value,assignment]
    lab.now = {}
    end, heard = events.End(), threading.Semaphore(0)

    def follow() -> None:
        for _ in events.follow("lab", end):
            heard.release()

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    assert heard.acquire(timeout=SECONDS) and heard.acquire(timeout=SECONDS)
    end.call()
    # Far sooner than the next time that it would look by itself.
    thread.join(events.CHECK_SECONDS / 2)
    assert not thread.is_alive()


def test_what_stopped_while_the_gateway_answered_is_not_ready(lab: Lab) -> None:
    def late() -> dict[str, Any]:
        lab.pushed.tell(DEV1, Stage.STOPPED)
        return answering(*ALL)

    lab.answers = [late]
    assert seen(events.now("lab"))[0] == ("dev1", Stage.STOPPED, "")


def test_wait_for_what_is_ready_says_nothing_of_a_boot(lab: Lab) -> None:
    lab.answers = [answering(*ALL)]
    assert seen(events.wait("lab/dev1", "ready", 60)) == [("dev1", Stage.READY, ", ".join(ALL))]


def test_wait_ends_with_the_move_and_takes_its_time(lab: Lab) -> None:
    lab.pushed.tell(DEV2, Stage.BOOTING)
    lab.pushed.tell(DEV1, Stage.STOPPED)
    moved = lab.pushed.coming[-1]
    assert list(events.wait("lab/dev1", "stopped", 60))[-1].at == moved.at


@pytest.mark.parametrize("broken", [Stage.ERROR, Stage.IO_ERROR])
def test_wait_ends_at_once_where_a_machine_breaks(lab: Lab, broken: Stage) -> None:
    lab.pushed.tell(DEV1, broken, "why")
    with pytest.raises(SiteError, match=rf"{broken} \(why\)"):
        list(events.wait("lab/dev1", "ready", 60))
    lab.pushed.tell(DEV1, broken, "why")
    lab.pushed.tell(DEV1, Stage.STOPPED)
    assert list(events.wait("lab/dev1", "stopped", 60))[-1].state is Stage.STOPPED


def test_wait_that_is_over_says_what_was_seen_last(lab: Lab) -> None:
    with pytest.raises(SiteError, match="not ready after 0 s, but booting"):
        list(events.wait("lab/dev1", "ready", 0))
    assert lab.asked == 1


@pytest.mark.parametrize(("target", "state"), [("lab/dev1", "awake"), ("lab", "ready"), ("lab/dev9", "ready")])
def test_unknown_state_or_desktop_is_refused(lab: Lab, target: str, state: str) -> None:
    with pytest.raises(ConfigError):
        list(events.wait(target, state))
    assert lab.asked == 0


def test_event_is_a_line_for_people_and_plain_for_programs() -> None:
    event = events.Event("lab", "dev1", Stage.IO_ERROR, 0.0, "vda: no room")
    assert events.line(event).endswith("  lab/dev1  io-error  vda: no room")
    assert events.plain(event) == {
        "workspace": "lab",
        "desktop": "dev1",
        "state": "io-error",
        "at": 0.0,
        "detail": "vda: no room",
    }
