"""Desktops that nobody uses are stopped by Mission Control, and woken for whoever has their page open.

An operation is use; each stop and each start is in the audit.
"""

import threading
from collections.abc import Collection
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from deskyard.control.store.connection import Link
from deskyard.control.store.pool import Lend
from deskyard.control.watch import idle as watch
from deskyard.control.watch import looks
from deskyard.declaration import declaration
from deskyard.errors import SiteError
from deskyard.life.idle import asleep, idle
from deskyard.life.idle.idle import Use, Woken
from deskyard.model.idle import Idle
from tests.control.lab import WAIT_SECONDS, Lab
from tests.desktop.lab import planned

NAME = "lab"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Collection[str]]:
    """Which desktops were busy, each time that somebody looked; the first is stopped if it is not."""
    plan = planned("first", "second")
    desktops = tuple(replace(desktop, idle=Idle(stop_after="2h")) for desktop in plan.desktops)
    declared = SimpleNamespace(plan=replace(plan, desktops=desktops))
    busy_each_time: list[Collection[str]] = []

    def stop_unused(name: str, busy: idle.Busy, sessions_of: Any) -> list[Use]:
        assert (name, sessions_of) == (NAME, nobody)
        busy_each_time.append(in_use := busy())
        if "first" in in_use:
            return [Use("first", "running", "it has a task", 8.0, 7208.0)]
        return [
            Use("first", "stopped", "ann drives", 7.0, None, asleep=True),
            Use("second", "stopped", "", None, None, asleep=True),
        ]

    monkeypatch.setattr(declaration, "stack_names", lambda: [NAME])
    monkeypatch.setattr(declaration, "read", lambda _: declared)
    monkeypatch.setattr(idle, "stop_unused", stop_unused)
    return busy_each_time


def lent(link: Link) -> Lend:
    """Lends this connection to whoever wants one."""
    return lambda: nullcontext(link)


def nobody(_: str) -> list[dict[str, Any]]:
    """A gateway without sessions."""
    return []


def no_page(*_: str) -> None:
    """Nobody's page waits."""


def test_each_stop_is_one_line_of_the_audit(mission: Lab, worker: Link, asked: list[Any]) -> None:
    watch.stop_unused(lent(worker), NAME, nobody)
    assert asked == [set()]
    found = mission.until("select * from audit_entry where actor = 'idle' and target = %s", [f"{NAME}.first"])
    assert (found["action"], found["detail"]) == ("desktop.stop", {"lastUse": "ann drives", "lastUsedAt": 7.0})
    query = "select count(*) as lines from audit_entry where actor = 'idle' and target = %s"
    # It was off before: nobody stopped it now.
    assert mission.until(query, [f"{NAME}.second"])["lines"] == 0


@pytest.mark.parametrize(
    ("desktop", "state", "busy"),
    [
        (f"{NAME}.first", "queued", {"first"}),
        (f"{NAME}.first", "running", {"first"}),
        (f"{NAME}.first", "done", set()),
        (None, "running", {"first", "second"}),
    ],
    ids=["waits", "runs", "is over", "runs for all"],
)
def test_an_operation_that_is_not_over_is_use(
    mission: Lab, worker: Link, asked: list[Any], desktop: str | None, state: str, busy: set[str]
) -> None:
    mission.end("worker")
    mission.declare(NAME, "first", "second")
    query = (
        "insert into operation (id, kind, workspace_id, desktop_id, actor, state) values ('op_i', 'x', %s, %s, 'x', %s)"
    )
    mission.link.execute(query, [NAME, desktop, state])
    watch.stop_unused(lent(worker), NAME, nobody)
    assert asked == [busy]


def test_look_by_the_hour_is_no_use_of_any_desktop(mission: Lab, worker: Link, asked: list[Any]) -> None:
    mission.end("worker")
    mission.declare(NAME, "first")
    mission.link.execute("update desktop set state = 'ready'")
    assert looks.ask_for_due(worker) == [NAME]
    watch.stop_unused(lent(worker), NAME, nobody)
    assert asked == [set()]


def test_a_workspace_that_cannot_be_looked_at_or_takes_its_time_keeps_no_other_from_it(
    worker: Link, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    read, begun, ended, looked = declaration.read, threading.Event(), threading.Event(), threading.Event()

    def slow(name: str) -> Any:
        if name == "broken":
            raise SiteError("site", "local", "its hypervisor does not run", "run ./inv site.up")
        if name == "slow":
            begun.set()
            ended.wait(WAIT_SECONDS)
        return read(name)

    monkeypatch.setattr(declaration, "stack_names", lambda: ["broken", "slow", NAME])
    monkeypatch.setattr(declaration, "read", slow)

    def stop_unused(*_: Any, **__: Any) -> list[Use]:
        looked.set()
        return []

    monkeypatch.setattr(idle, "stop_unused", stop_unused)
    uses = watch.Uses(lent(worker), nobody, no_page)
    try:
        uses.stop_unused()
        assert begun.wait(WAIT_SECONDS) and looked.wait(WAIT_SECONDS)
    finally:
        ended.set()


def test_each_start_for_somebody_who_waits_is_one_line_of_the_audit(
    mission: Lab, worker: Link, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def wake_wanted(name: str, sessions_of: Any, tell: Any) -> list[Woken]:
        assert (sessions_of, tell) == (nobody, no_page)
        return [Woken("first", "ann")]

    monkeypatch.setattr(idle, "wake_wanted", wake_wanted)
    watch.wake_wanted(lent(worker), NAME, nobody, no_page)
    query = "select * from audit_entry where actor = 'idle' and action = 'desktop.start' and target = %s"
    assert mission.until(query, [f"{NAME}.first"])["detail"] == {"wantedBy": "ann"}


def test_whoever_waits_at_a_gateway_waits_for_no_other_gateway(worker: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    ended, woken = threading.Event(), threading.Event()

    def wake_wanted(name: str, sessions_of: Any, tell: Any) -> list[Woken]:
        if name == "dead":
            ended.wait(WAIT_SECONDS)
        else:
            woken.set()
        return []

    monkeypatch.setattr(declaration, "stack_names", lambda: ["dead", NAME])
    monkeypatch.setattr(asleep, "anywhere", lambda: True)
    monkeypatch.setattr(idle, "wake_wanted", wake_wanted)
    uses = watch.Uses(lent(worker), nobody, no_page)
    try:
        uses.wake_wanted()
        assert woken.wait(WAIT_SECONDS)
    finally:
        ended.set()


def test_while_nothing_sleeps_no_workspace_is_read_to_wake_it(worker: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asleep, "anywhere", lambda: False)
    monkeypatch.setattr(declaration, "stack_names", lambda: pytest.fail("the declarations were read"))
    watch.Uses(lent(worker), nobody, no_page).wake_wanted()
