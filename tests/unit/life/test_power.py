"""To stop, start and pause desktops: what is wanted is kept first, and a failure takes it back."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from deskyard.access import access
from deskyard.errors import ConfigError, SiteError
from deskyard.life import power, snapshot, waiting_pages
from deskyard.plan.power import NoRoom, Power
from deskyard.plan.snapshot import Snapshot
from deskyard.site.ssh_link import SshLink
from tests.unit.life.machines import DEV1, DEV2, GATEWAY, PLAN, Machines


@pytest.mark.parametrize(
    ("do", "state", "wanted"),
    [
        (power.stop, "stopped", Power.OFF),
        (power.pause, "paused", Power.PAUSED),
        (lambda target: power.pause(target, to_disk=True), "saved", Power.PAUSED),
    ],
    ids=["stop", "pause", "pause to disk"],
)
def test_what_is_wanted_is_kept_before_the_machine_moves(
    machines: Machines, do: Any, state: str, wanted: Power
) -> None:
    done = do("lab/dev1")
    assert machines.moves == [(DEV1, state, wanted)]
    assert machines.wanted == {GATEWAY: Power.RUNNING, DEV1: wanted, DEV2: Power.RUNNING}
    assert done["machines"] == [{"name": "dev1", "state": state, "desired": wanted}]


@pytest.mark.parametrize("do", [power.stop, power.pause], ids=["stop", "pause"])
def test_start_lets_it_run_again_and_waits_for_this_desktop(
    machines: Machines, waits: list[Sequence[str] | None], do: Any
) -> None:
    do("lab/dev1")
    done = power.start("lab/dev1")
    assert (machines.now[DEV1], machines.wanted[DEV1]) == ("running", Power.RUNNING)
    assert waits == [["dev1"]]
    assert power.text(done) == "lab/dev1  running"


def test_restart_wants_it_to_run_all_the_time(machines: Machines, waits: list[Sequence[str] | None]) -> None:
    power.restart("lab/dev2", wait=False)
    assert machines.moves == [(DEV2, "stopped", Power.RUNNING), (DEV2, "running", Power.RUNNING)]
    assert waits == []


def test_guest_that_does_not_listen_is_wanted_as_before(machines: Machines) -> None:
    machines.deaf.add(DEV1)
    with pytest.raises(SiteError, match="did not shut down"):
        power.stop("lab/dev1")
    assert (machines.now[DEV1], machines.wanted[DEV1]) == ("running", Power.RUNNING)
    power.stop("lab/dev1", force=True)
    assert (machines.now[DEV1], machines.wanted[DEV1]) == ("stopped", Power.OFF)


def test_workspace_stops_its_gateway_last_and_starts_it_first(
    machines: Machines, waits: list[Sequence[str] | None]
) -> None:
    power.stop_workspace("lab")
    assert [domain for domain, _, _ in machines.moves][-1] == GATEWAY
    assert set(machines.now.values()) == {"stopped"}
    assert set(machines.wanted.values()) == {Power.OFF}
    machines.moves.clear()
    power.start_workspace("lab")
    assert [domain for domain, _, _ in machines.moves] == [GATEWAY, DEV1, DEV2, "way"]
    assert set(machines.wanted.values()) == {Power.RUNNING}
    assert waits == [None]


def test_desktop_that_does_not_listen_keeps_its_gateway_running(machines: Machines) -> None:
    machines.deaf.add(DEV1)
    with pytest.raises(SiteError, match="did not shut down"):
        power.stop_workspace("lab")
    assert machines.now == {GATEWAY: "running", DEV1: "running", DEV2: "stopped"}


def test_desktop_does_not_start_behind_a_stopped_gateway(machines: Machines) -> None:
    power.stop_workspace("lab")
    with pytest.raises(SiteError, match=r"workspace\.start lab"):
        power.start("lab/dev1")
    assert machines.now[DEV1] == "stopped"


@pytest.mark.parametrize(
    ("target", "error", "what"),
    [
        ("lab", ConfigError, "lab/DESKTOP"),
        ("lab/dev9", ConfigError, "dev9"),
        ("lab/dev2", SiteError, "is not there"),
    ],
)
def test_target_that_is_no_machine_is_refused(
    machines: Machines, target: str, error: type[Exception], what: str
) -> None:
    del machines.wanted[DEV2]
    with pytest.raises(error, match=what):
        power.stop(target)
    assert machines.moves == []


def test_what_was_to_run_and_does_not_is_still_wanted_to(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(domain: str) -> None:
        raise SiteError("machine", domain, "no room", "make some")

    power.stop("lab/dev1")
    monkeypatch.setattr(machines, "start", fail)
    with pytest.raises(SiteError, match="no room"):
        power.start("lab/dev1")
    assert machines.wanted[DEV1] is Power.RUNNING


@pytest.mark.parametrize("rest", [power.stop, lambda target: power.pause(target, to_disk=True)], ids=["off", "on disk"])
def test_desktop_without_room_stays_as_it_is_and_is_wanted_so(machines: Machines, rest: Any) -> None:
    rest("lab/dev1")
    before = (machines.now[DEV1], machines.wanted[DEV1])
    machines.too_large.add(DEV1)
    machines.moves.clear()
    with pytest.raises(NoRoom, match="100 MiB are free"):
        power.start("lab/dev1")
    assert (machines.now[DEV1], machines.wanted[DEV1]) == before and machines.moves == []
    machines.too_large.clear()
    power.start("lab/dev1", wait=False)
    assert machines.now[DEV1] == "running"


def test_restart_needs_no_more_room_than_it_has(machines: Machines) -> None:
    machines.too_large.add(DEV1)
    power.restart("lab/dev1", wait=False)
    assert machines.now[DEV1] == "running"


def test_of_a_workspace_all_start_for_which_there_is_room(
    machines: Machines, waits: list[Sequence[str] | None]
) -> None:
    power.stop_workspace("lab")
    machines.too_large.add(DEV1)
    with pytest.raises(NoRoom, match=r"100 MiB are free for .*dev1; of workspace lab did not start: dev1"):
        power.start_workspace("lab")
    assert machines.now == {GATEWAY: "running", DEV1: "stopped", DEV2: "running"}
    assert machines.wanted[DEV1] is Power.OFF and machines.moves[-1][0] == "way"
    machines.too_large.clear()
    power.start_workspace("lab")
    assert set(machines.now.values()) == {"running"}


def test_without_room_for_its_gateway_nothing_of_a_workspace_starts(machines: Machines) -> None:
    power.stop_workspace("lab")
    machines.too_large.add(GATEWAY)
    with pytest.raises(NoRoom):
        power.start_workspace("lab")
    assert set(machines.now.values()) == {"stopped"}


def test_gateway_is_told_where_a_desktop_is_while_it_stops_and_when_it_stays(
    machines: Machines, heard: list[tuple[str, str]]
) -> None:
    power.stop("lab/dev1")
    power.start("lab/dev1", wait=False)
    power.pause("lab/dev1")
    assert heard == [("dev1", "stopping"), ("dev1", "stopped"), ("dev1", "booting"), ("dev1", "paused")]


def test_gateway_is_told_that_a_desktop_goes_on_which_did_not_listen(
    machines: Machines, heard: list[tuple[str, str]]
) -> None:
    machines.deaf.add(DEV1)
    with pytest.raises(SiteError, match="did not shut down"):
        power.stop("lab/dev1")
    assert heard == [("dev1", "stopping"), ("dev1", "booting")]


def test_gateway_is_told_that_a_desktop_is_off_which_a_restart_could_not_start_again(
    machines: Machines, heard: list[tuple[str, str]]
) -> None:
    power.start("lab/dev1", wait=False)

    def act(what: str) -> None:
        if what == "running":
            raise SiteError("node", "pve1", "start failed", "see its log")

    machines.act = act
    with pytest.raises(SiteError, match="start failed"):
        power.restart("lab/dev1", wait=False)
    assert (machines.now[DEV1], heard) == ("stopped", [("dev1", "booting"), ("dev1", "stopped")])


@pytest.mark.parametrize(("wanted", "word"), [(Power.OFF, "stopped"), (Power.PAUSED, "paused"), (Power.RUNNING, None)])
def test_gateway_is_told_where_a_restored_snapshot_has_left_a_desktop(
    machines: Machines, waits: list[Sequence[str] | None], heard: list[tuple[str, str]], wanted: Power, word: str | None
) -> None:
    snapshot.create("lab/dev1", Snapshot("before"))
    machines.want(DEV1, wanted)
    snapshot.restore("lab/dev1", "before")
    assert heard == ([("dev1", word)] if word else [])


def test_gateway_is_told_that_a_task_that_failed_has_left_a_desktop_off(
    machines: Machines, heard: list[tuple[str, str]]
) -> None:
    power.stop("lab/dev1")
    snapshot.create("lab/dev1", Snapshot("before"))
    power.start("lab/dev1", wait=False)
    heard.clear()

    def act(what: str) -> None:
        if what == "running":
            raise SiteError("node", "pve1", "start failed", "see its log")

    machines.act = act
    with pytest.raises(SiteError, match="start failed"):
        snapshot.restore("lab/dev1", "before")
    assert heard == [("dev1", "stopped")]


def test_first_error_is_the_one_to_show_where_nobody_can_say_how_a_desktop_is(
    machines: Machines, heard: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent() -> None:
        raise SiteError("hypervisor", "x", "does not answer", "run ./inv site.up")

    with pytest.raises(ConfigError, match="of the task"), power.opened("lab/dev1").shown():
        monkeypatch.setattr(machines, "states", silent)
        raise ConfigError("of the task", "b", "c of the task", "d")
    assert heard == []


def test_gateway_is_told_nothing_of_a_stop_that_did_not_begin(
    machines: Machines, heard: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object) -> None:
        raise SiteError("node", "pve1", "does not answer", "see ./inv site.check")

    monkeypatch.setattr(machines, "want", lost)
    with pytest.raises(SiteError, match="does not answer"):
        power.stop("lab/dev1")
    assert heard == []


def test_gateway_that_cannot_be_told_keeps_nothing_from_being_moved(
    machines: Machines, heard: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: object) -> None:
        raise SiteError("gateway", "lab", "did not answer", "see ./inv workspace.status lab")

    monkeypatch.setattr(access, "tell_stages", silent)
    power.stop("lab/dev1")
    assert machines.now[DEV1] == "stopped"


def test_gateway_that_is_to_be_off_itself_or_is_not_set_up_is_told_nothing(
    machines: Machines, heard: list[tuple[str, str]]
) -> None:
    power.stop_workspace("lab")
    power.start_workspace("lab", wait=False)
    SshLink(PLAN.site, PLAN.name).unpin("gateway")
    power.stop("lab/dev1")
    assert (heard, machines.now[DEV1]) == ([], "stopped")


def test_task_does_not_wait_for_a_gateway_that_does_not_answer(
    machines: Machines, heard: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()
    with ThreadPoolExecutor(1) as teller:
        monkeypatch.setattr(waiting_pages, "TELLER", teller)
        monkeypatch.setattr(access, "tell_stages", lambda *_: answers.wait(60))
        power.stop("lab/dev1")
        assert (machines.now[DEV1], answers.is_set()) == ("stopped", False)
        answers.set()
