"""Disposable desktops in a verification: neighbours while they are there, and no failure when they have left."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deskyard.access import access
from deskyard.declaration import declaration
from deskyard.engine import running
from deskyard.isolation import probing, verification
from deskyard.isolation.company import Company, changed, company
from deskyard.plan.isolation.catalogue import probes
from deskyard.plan.isolation.probe import HostFacts, watched
from deskyard.plan.pool.seat import Claim
from deskyard.plan.workspace import DesktopPlan, WorkspacePlan
from deskyard.site.ssh_link import SshLink
from deskyard.workspace import readiness, seating
from deskyard.workspace.seats import Seats
from tests.unit.workspace.disposables import Disposables, declared

MINE = Claim("me", 4e9)


@pytest.fixture
def seats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Seats:
    """Of three seats the first is somebody's, the second being made, and the third left by a killed task."""
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    monkeypatch.setattr(access, "revoke", lambda *_, **__: None)
    seats = Seats("local", "lab", Disposables(tmp_path / "machines"))
    monkeypatch.setattr(seating, "backend_of", lambda _: SimpleNamespace(disposables=lambda _: seats.disposables))
    monkeypatch.setattr(readiness, "ask", answering("s1"))
    for name, claim in (("s1", MINE), ("s2", None), ("s3", Claim("killed", 4e9, run=True))):
        begun = seats.begin(declared(3), declared(3).plan.seat(name), claim)
        seats.disposables.make(declared(3).plan, declared(3).plan.seat(name), None, None, None)  # type: ignore[arg-type]
        if name != "s2":
            seats.ready(begun)
        SshLink("local", "lab").pin(name, "ssh-ed25519 AAAA")
    return seats


def answering(*names: str) -> Callable[..., dict[str, Any]]:
    """A gateway that is asked about those alone at whose seats something is: the routes of these answer."""
    routes = {route: {"ready": True} for route in declared(3).plan.seats[0].routes}

    def ask(_: WorkspacePlan, desktops: Sequence[DesktopPlan]) -> dict[str, Any]:
        assert {desktop.name for desktop in desktops} <= {"s1", "s2", "s3"}
        return {"desktops": dict.fromkeys(names, routes), "services": {}, "digest": "0"}

    return ask


def test_claimed_desktop_is_probed_as_a_neighbour_and_from_inside(seats: Seats) -> None:
    with seats.hold("s2"):
        present = company(declared(3))
    assert set(present.machines) == {"s1"}
    assert present.not_examined() == ["seat s2: is being made"]
    whole = present.among(declared(3).plan)
    sent = probes(whole, HostFacts(), "dyv00000000")
    assert {"lab/kept: port 22 of s1", "lab/s1: port 22 of kept"} <= {probe.id for probe in sent}
    assert all(probe.expected == "refused" for probe in sent if probe.topic == "peers")
    assert "lab/s1" in watched(whole) and "lab/s2" not in watched(whole)
    assert not any("s1" in probe.id for probe in probes(declared(3).plan, HostFacts(), "dyv00000000"))


def test_desktop_that_does_not_answer_yet_is_named_and_not_probed(
    seats: Seats, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "ask", answering())
    with seats.hold("s2"):
        present = company(declared(3))
    assert (present.machines, present.absent["s1"]) == ({}, "does not answer")


def test_what_a_killed_task_left_on_the_network_is_a_finding_with_its_remedy(seats: Seats) -> None:
    with seats.hold("s2"):
        found = company(declared(3)).findings("lab")
    assert found == ["seat: s3: the task that had it has ended (./inv desktop.release lab/s3)"]


def test_who_left_or_was_replaced_is_noticed(seats: Seats) -> None:
    present = Company({"s1": seats.ledger.machines()["s1"].number})
    assert not changed(declared(3), present)
    seats.remove("s1")
    assert changed(declared(3), present)
    seats.begin(declared(3), declared(3).plan.seat("s1"), MINE)
    assert changed(declared(3), present)
    assert not changed(declared(3), Company())


@pytest.mark.parametrize("leaves", [True, False])
def test_desktop_that_leaves_meanwhile_fails_no_verification(
    seats: Seats, monkeypatch: pytest.MonkeyPatch, leaves: bool
) -> None:
    runs: list[list[str]] = []

    def probed(plan: Any, *_: Any) -> list[Any]:
        runs.append([desktop.name for desktop in plan.desktops])
        if leaves and len(runs) == 1:
            seats.remove("s1")
        return [SimpleNamespace(ok="s1" not in runs[-1], probe=SimpleNamespace(topic="peers"), as_dict=dict)]

    underlay: Any = SimpleNamespace(
        facts=lambda _: HostFacts(), versions=dict, images=dict, not_examined=list, findings=list
    )
    monkeypatch.setattr(declaration, "read", lambda _: declared(3))
    monkeypatch.setattr(running, "require_running", lambda _: None)
    monkeypatch.setattr(verification, "backend_of", lambda _: SimpleNamespace(underlay=lambda _: underlay))
    monkeypatch.setattr(verification, "rules_in_force", lambda *_: {"wrong": [], "live": "0", "settings": "0"})
    monkeypatch.setattr(probing, "verify_probes", probed)
    seats.remove("s3")
    with seats.hold("s2"):
        report = verification.verify("lab")
    if leaves:
        assert (runs, report["ok"], report["seats"]) == ([["kept", "s1"], ["kept"]], True, {"lab": []})
        assert "seat s1: was released" in " ".join(report["not_examined"]["lab"])
    else:
        assert (runs, report["ok"], report["seats"]) == ([["kept", "s1"]], False, {"lab": ["s1"]})
