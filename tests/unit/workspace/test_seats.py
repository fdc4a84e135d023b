"""What of the machines at seats has had its time, and what is never touched."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deskyard.access import access
from deskyard.errors import HostError, SiteError
from deskyard.host import jump
from deskyard.plan.image.source import ImageSource
from deskyard.plan.pool.seat import Claim, State
from deskyard.site.ssh_link import SshLink
from deskyard.workspace import turn, workspace
from deskyard.workspace.seats import Seats
from tests.unit.workspace.disposables import IMAGES, Disposables, declared

MINE = Claim("me", 4e9)


@pytest.fixture
def disposables(tmp_path: Path) -> Disposables:
    return Disposables(tmp_path / "machines")


@pytest.fixture
def seats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disposables: Disposables) -> Seats:
    """Two seats at which nothing is; sessions end without a gateway."""
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    monkeypatch.setattr(access, "revoke", lambda *_, **__: None)
    return Seats("local", "lab", disposables)


def make(seats: Seats, name: str, claim: Claim | None = None, *, ready: bool = True, **keys: Any) -> None:
    """Make the machine of a seat as a workspace of these keys has it."""
    made = declared(2, **keys)
    begun = seats.begin(made, made.plan.seat(name), claim)
    (Path(seats.disposables.folder) / name).write_text("{}")  # type: ignore[attr-defined]
    if ready:
        seats.ready(begun)


def states(seats: Seats) -> dict[str, State]:
    return {name: seated.state for name, seated in seats.ledger.machines().items()}


def test_nothing_is_removed_that_is_as_declared(seats: Seats, disposables: Disposables) -> None:
    make(seats, "s1")
    make(seats, "s2", MINE)
    assert seats.sweep(declared(2)) == []
    assert states(seats) == {"s1": State.WAITING, "s2": State.CLAIMED}
    assert disposables.removed == []


@pytest.mark.parametrize(
    ("spoil", "keys"),
    [
        (lambda _: None, {"peers": "open"}),
        (lambda _: None, {"network": "10.80.9.0/24"}),
        (lambda _: None, {"pool": None}),
        (lambda d: d.remove("s1"), {}),
    ],
    ids=["peers", "network", "no pool", "does not run"],
)
def test_what_waits_goes_if_it_is_not_what_would_be_made_now(
    seats: Seats, disposables: Disposables, spoil: Callable[[Disposables], None], keys: dict[str, Any]
) -> None:
    make(seats, "s1")
    spoil(disposables)
    assert seats.take(declared(2, **keys), ["s1"], MINE) is None
    seats.sweep(declared(2, **keys))
    assert states(seats) == {}
    assert disposables.there() == set()


def test_what_waits_with_an_older_image_is_given_and_goes_at_the_next_look(seats: Seats) -> None:
    newer = {**IMAGES, "desktop": ImageSource("desktop", "4567", "disk")}
    make(seats, "s1")
    make(seats, "s2")
    assert seats.take(declared(2, images=newer), ["s1"], MINE) is not None
    seats.sweep(declared(2, images=newer))
    assert states(seats) == {"s1": State.CLAIMED}


def test_what_waited_too_long_is_not_given_and_goes(seats: Seats, monkeypatch: pytest.MonkeyPatch) -> None:
    short: dict[str, Any] = {"pool": {"size": 1, "max_age": "1h"}}
    make(seats, "s1", **short)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 3599)
    seats.sweep(declared(2, **short))
    assert states(seats) == {"s1": State.WAITING}
    # The clock was set back, by less and by more than that.
    monkeypatch.setattr(time, "time", lambda: now - 3000)
    seats.sweep(declared(2, **short))
    assert states(seats) == {"s1": State.WAITING}
    for moment in (now - 4000, now + 3601):
        monkeypatch.setattr(time, "time", lambda moment=moment: moment)
        assert seats.take(declared(2, **short), ["s1"], MINE) is None
    assert seats.take(declared(2, **short), ["s1"], MINE) is None
    seats.sweep(declared(2, **short))
    assert states(seats) == {}


def test_what_somebody_has_stays_until_its_time_is_over(seats: Seats, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    make(seats, "s1", Claim("me", now + 60))
    seats.sweep(declared(2, peers="open"))
    assert states(seats) == {"s1": State.CLAIMED}
    monkeypatch.setattr(time, "time", lambda: now + 61)
    seats.sweep(declared(2))
    assert states(seats) == {}


def test_what_somebody_has_stays_while_the_clock_has_jumped_ahead_and_what_is_nobodys_goes(
    seats: Seats, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = time.time()
    make(seats, "s1", Claim("me", now + 3600))
    make(seats, "s2", ready=False)
    seats.sweep(declared(2))
    monkeypatch.setattr(time, "time", lambda: now + 7200)
    make(seats, "s2")
    seats.sweep(declared(2, pool=None))
    assert states(seats) == {"s1": State.CLAIMED}
    assert "seat s1 stays: the clock jumped 2.0 h ahead" in capsys.readouterr().err
    # It is set again, and passes that moment by itself.
    monkeypatch.setattr(time, "time", lambda: now + 60)
    seats.sweep(declared(2))
    assert states(seats) == {"s1": State.CLAIMED}
    later = replace(jump.moment(), clock=now + 3601, up=jump.moment().up + 3601)
    monkeypatch.setattr(jump, "moment", lambda: later)
    monkeypatch.setattr(time, "time", lambda: now + 3601)
    seats.sweep(declared(2))
    assert states(seats) == {}


def test_what_somebody_has_goes_by_a_clock_that_a_person_says_is_right(
    seats: Seats, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    make(seats, "s1", Claim("me", now + 3600))
    seats.sweep(declared(2))
    monkeypatch.setattr(time, "time", lambda: now + 7200)
    jump.believe()
    seats.sweep(declared(2))
    assert states(seats) == {}


def test_what_a_task_holds_stays_and_goes_when_the_task_is_gone(seats: Seats) -> None:
    make(seats, "s1", Claim("me", 4e9, run=True))
    make(seats, "s2", ready=False)
    with seats.hold("s1"), seats.hold("s2"):
        seats.sweep(declared(2))
        assert states(seats) == {"s1": State.CLAIMED, "s2": State.MAKING}
    seats.sweep(declared(2))
    assert states(seats) == {}


def test_what_another_task_moves_is_left_alone(seats: Seats) -> None:
    make(seats, "s1", Claim("me", 0))
    with turn.of(declared(2).plan, "s1"):
        seats.sweep(declared(2))
        assert states(seats) == {"s1": State.CLAIMED}
    with turn.whole("local", "lab"):
        seats.sweep(declared(2), whole=True)
    assert states(seats) == {}


def test_up_is_refused_over_a_machine_that_somebody_has_and_that_would_not_fit(seats: Seats) -> None:
    make(seats, "s1", MINE)
    make(seats, "s2")
    seats.require_fit(declared(2))
    seats.require_fit(declared(2, images={**IMAGES, "desktop": ImageSource("desktop", "4567", "disk")}))
    for otherwise in (declared(2, peers="open"), declared(0, pool=None)):
        with pytest.raises(SiteError, match="me has a machine there") as caught:
            seats.require_fit(otherwise)
        assert "desktop.release lab/s1" in caught.value.remedy


def test_machine_of_which_nothing_is_known_goes(seats: Seats, disposables: Disposables) -> None:
    disposables.mark("s1", {})
    disposables.mark("old", {"machine": "a", "state": "waiting"})
    assert seats.sweep(declared(2)) == ["old", "s1"]
    assert disposables.there() == set()


def test_machine_that_does_not_go_is_named_and_keeps_nobody_from_the_others(
    seats: Seats, disposables: Disposables, capsys: pytest.CaptureFixture[str]
) -> None:
    disposables.mark("s1", {})
    disposables.mark("s2", {})
    disposables.stuck = {"s1"}
    assert seats.sweep(declared(2)) == ["s2"]
    assert "seat s1 cannot be removed: its process does not end -> look at its disk" in capsys.readouterr().err
    assert (seats.is_free("s1"), seats.is_free("s2")) == (False, True)
    # Its place in the network may be given away by whoever moves all.
    with pytest.raises(SiteError, match="its process does not end"):
        seats.sweep(declared(2), whole=True)
    disposables.stuck = set()
    assert seats.sweep(declared(2)) == ["s1"]


def test_machine_that_does_not_go_is_passed_over_by_who_moves_all_where_its_place_stays_its_own(
    seats: Seats, disposables: Disposables
) -> None:
    make(seats, "s1", Claim("me", time.time() - 1))
    disposables.stuck = {"s1"}
    assert seats.sweep(declared(2), whole=True) == []
    make(seats, "s2", Claim("me", time.time() - 1))
    disposables.stuck = {"s2"}
    with pytest.raises(SiteError, match="its process does not end"):
        seats.sweep(declared(1), whole=True)


def test_seat_has_one_machine_at_a_time(seats: Seats) -> None:
    make(seats, "s1")
    with pytest.raises(SiteError, match="is taken"):
        make(seats, "s1")
    with seats.hold("s1"), pytest.raises(HostError, match="another task holds it"), seats.hold("s1"):
        pass


def test_next_one_at_a_seat_has_nothing_of_the_one_before(
    seats: Seats, monkeypatch: pytest.MonkeyPatch, disposables: Disposables
) -> None:
    ended: list[str] = []
    monkeypatch.setattr(access, "revoke", lambda _, desktop: ended.append(desktop))
    make(seats, "s1", MINE)
    before = seats.ledger.machines()["s1"].number
    link = SshLink("local", "lab")
    link.pin("s1", "ssh-ed25519 AAAA")
    link.pin("kept", "ssh-ed25519 BBBB")
    seats.remove("s1")
    assert (ended, disposables.there(), link.pinned("s1"), link.pinned("kept")) == (["s1"], set(), False, True)
    make(seats, "s1")
    assert seats.ledger.machines()["s1"].number != before


def test_what_was_claimed_meanwhile_is_not_drained(seats: Seats, disposables: Disposables) -> None:
    make(seats, "s1")
    assert seats.take(declared(2), ["s1"], MINE) is not None
    assert not seats.remove("s1", State.WAITING)
    assert disposables.removed == []


def test_ledger_keeps_what_is_there_and_forgets_the_rest(seats: Seats, tmp_path: Path) -> None:
    for _ in range(20):
        make(seats, "s1")
        seats.remove("s1")
    make(seats, "s2", MINE)
    before = seats.ledger.machines()
    seats.sweep(declared(2))
    (ledger,) = tmp_path.rglob("seats.jsonl")
    assert len(ledger.read_text().splitlines()) == 2
    assert seats.ledger.machines() == before


def test_up_removes_what_nobody_has_and_stops_before_what_somebody_has(
    seats: Seats, disposables: Disposables, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = SimpleNamespace(disposables=lambda _: disposables)
    monkeypatch.setattr(workspace, "backend_of", lambda _: backend)
    make(seats, "s1", Claim("killed", 4e9, run=True))
    make(seats, "s2")
    otherwise = declared(2, peers="open")
    with turn.whole("local", "lab"):
        workspace._look_after_seats(otherwise)
    assert states(seats) == {}
    make(seats, "s1", MINE)
    with turn.whole("local", "lab"), pytest.raises(SiteError, match="me has a machine there"):
        workspace._look_after_seats(otherwise)
    assert states(seats) == {"s1": State.CLAIMED}


def test_workspace_that_is_destroyed_leaves_no_machine_whosever_it_is(seats: Seats, disposables: Disposables) -> None:
    make(seats, "s1", MINE)
    disposables.mark("undeclared", {})
    seats.remove_all()
    assert disposables.there() == set()
