"""How seats are told: by `workspace.status` and `site.check`, with what killed tasks left at them and its remedy."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deskyard.access import access
from deskyard.declaration import declaration
from deskyard.errors import ConfigError
from deskyard.plan.pool.seat import Claim, State
from deskyard.site.finding import error, ok
from deskyard.site.libvirt import daemon, doctor
from deskyard.site.libvirt.limits import caps
from deskyard.tasks import workspace as tasks
from deskyard.workspace import examination, readiness, seating, status
from deskyard.workspace.seats import Seats
from tests.unit.workspace.disposables import Disposables, declared

MINE, RUN = Claim("me", 4e9), Claim("killed", 4e9, run=True)
READY = {"desktop": {"ready": True}, "terminal": {"ready": True}, "chat": {"ready": True}}


@pytest.fixture
def seats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Seats:
    """Four seats of `lab` with a pool of two, at which nothing is."""
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    monkeypatch.setattr(access, "revoke", lambda *_, **__: None)
    seats = Seats("local", "lab", Disposables(tmp_path / "machines"))
    backend = SimpleNamespace(disposables=lambda _: seats.disposables, examine=lambda: [ok("hypervisor", "answers")])
    for module in (seating, examination):
        monkeypatch.setattr(module, "backend_of", lambda _: backend)
    monkeypatch.setattr(declaration, "stack_names", lambda: ["broken", "lab"])
    monkeypatch.setattr(declaration, "read_workspace", written)
    monkeypatch.setattr(declaration, "read", lambda _: declared(4, 2))
    return seats


def written(name: str) -> Any:
    """What is declared of `lab`; the other file has a mistake."""
    if name != "lab":
        raise ConfigError("network", None, "is missing", "write one")
    return declared(4, 2).workspace


def make(seats: Seats, name: str, claim: Claim | None = None, *, ready: bool = True) -> None:
    made = declared(4, 2)
    begun = seats.begin(made, made.plan.seat(name), claim)
    seats.disposables.make(made.plan, made.plan.seat(name), None, None, None)  # type: ignore[arg-type]
    if ready:
        seats.ready(begun)


def shown(seats: Seats, gateway: dict[str, Any] | None = None) -> dict[str, Any]:
    """The state of the workspace as `workspace.status` has it."""
    return status.state_of(declared(4, 2), {}, {"gateway_ready": True, "desktops": gateway or {}})


def test_status_says_who_has_which_seat_and_whether_it_answers(seats: Seats) -> None:
    make(seats, "s1")
    make(seats, "s2", MINE)
    rows = {row["name"]: row for row in shown(seats, {"s1": READY})["seats"]}
    assert {name: row["state"] for name, row in rows.items()} == {
        "s1": State.WAITING,
        "s2": State.CLAIMED,
        "s3": State.FREE,
        "s4": State.FREE,
    }
    assert (rows["s1"]["ready"], rows["s2"]["ready"], rows["s3"]["ready"]) == (True, False, False)
    assert (rows["s2"]["by"], rows["s2"]["until"], rows["s2"]["made_from"]) == ("me", 4e9, "desktop-0123")
    assert rows["s1"]["since"] is not None and rows["s1"]["address"] == declared(4).plan.seat("s1").address
    text = tasks._text(shown(seats, {"s1": READY}))
    assert "lab/s1  waiting since" in text and "lab/s2  claimed by me until" in text


def test_gateway_is_asked_about_those_alone_whose_machines_run(seats: Seats, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, asked = declared(4, 2).plan, list[list[str]]()
    runs = [plan.gateway.machine.domain, plan.desktop("kept").machine.domain, plan.seat("s2").machine.domain]
    states = {name: {"state": "running", "desired": "running"} for name in runs}
    states[plan.seat("s3").machine.domain] = {"state": "stopped", "desired": "off"}

    def ask(_: Any, desktops: Any) -> dict[str, Any]:
        asked.append([desktop.name for desktop in desktops])
        return {"gateway_ready": True, "desktops": dict.fromkeys(asked[-1], READY)}

    monkeypatch.setattr(status, "machines_of", lambda _: SimpleNamespace(states=lambda: states))
    monkeypatch.setattr(readiness, "ask", ask)
    make(seats, "s2", MINE)
    found = status.status("lab")
    assert asked == [["kept", "s2"]]
    # After those who were waited for only seats are asked about.
    up = status.when_up(declared(4, 2), {"gateway_ready": True, "desktops": {"kept": READY}})
    assert asked[1:] == [["s2"]] and up == found
    assert [row["name"] for row in up["seats"] if row["ready"]] == ["s2"] and up["desktops"][0]["routes"] == READY
    del states[runs[0]]
    assert status.status("lab")["gateway"]["error"] and len(asked) == 2


def test_what_a_task_holds_is_nobodys_left_over_and_what_it_left_is_named_with_its_remedy(seats: Seats) -> None:
    make(seats, "s1", RUN)
    make(seats, "s2", ready=False)
    seats.disposables.mark("s4", {"machine": "0", "state": "waiting"})
    with seats.hold("s1"), seats.hold("s2"), seats.hold("s4"):
        assert seating.left(declared(4, 2)) == {}
    left = seating.left(declared(4, 2))
    assert left == {
        "s1": "the task that had it has ended",
        "s2": "whoever made it was killed",
        "s4": "a killed task has left it",
    }
    row = next(row for row in shown(seats)["seats"] if row["name"] == "s1")
    assert (row["spent"], row["remedy"]) == (left["s1"], "./inv desktop.release lab/s1")
    # To look changes nothing.
    assert seats.disposables.there() == {"s1", "s2", "s4"}
    assert len(seats.ledger.machines()) == 2


def test_what_waits_or_is_claimed_is_not_called_left(seats: Seats) -> None:
    make(seats, "s1")
    make(seats, "s2", MINE)
    seats.disposables.mark("s3", {"machine": "0", "state": "claimed", "by": "other", "until": "4000000000"})
    assert seating.left(declared(4, 2)) == {}


def test_site_check_names_what_is_left_and_pools_that_are_not_full(seats: Seats) -> None:
    make(seats, "s1", RUN)
    site = declared(4, 2).site
    found = {finding.name: finding for finding in examination.examine(site)}
    assert (found["seat"].state, found["pool"].state) == ("warning", "warning")
    assert "lab/s1: the task that had it has ended" in found["seat"].what
    assert "./inv desktop.release lab/s1" in found["seat"].mend
    assert found["pool"].what == "0 of 2 desktops of lab wait" and found["pool"].mend == "./inv pool.fill lab"
    seats.remove("s1")
    for name in ("s1", "s2"):
        make(seats, name)
    assert [finding.state for finding in examination.examine(site)] == ["ok", "ok", "ok"]


def test_seats_are_not_judged_where_nothing_answers(seats: Seats, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = [error("hypervisor", "nothing answers", "no machine runs", "./inv site.up")]
    monkeypatch.setattr(examination, "backend_of", lambda _: SimpleNamespace(examine=lambda: silent))
    assert examination.examine(declared(4, 2).site) == silent


def test_this_machine_is_examined_as_a_site(monkeypatch: pytest.MonkeyPatch) -> None:
    state = SimpleNamespace(running=True, version="9.0.0", domains=["a"])
    monkeypatch.setattr(daemon, "state", lambda: state)
    monkeypatch.setattr(doctor, "available_memory_mib", lambda: 100)
    monkeypatch.setattr(caps, "not_held", lambda: {caps.NETWORK: "the kernel cannot slow a machine's port down: sfq"})
    found = {finding.name: finding for finding in doctor.examine(declared(1).site)}
    assert (found["hypervisor"].state, found["memory"].state) == ("ok", "warning")
    assert "no desktop of 4096 MiB" in found["memory"].why
    assert "network_mib_per_second cannot be held" in found["caps"].what and "modprobe" in found["caps"].mend
    state.running = False
    found = {finding.name: finding for finding in doctor.examine(declared(1).site)}
    assert (found["hypervisor"].state, found["hypervisor"].mend) == ("error", "./inv site.up")
