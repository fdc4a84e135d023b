"""Desktops that nobody uses: what counts as use, what is stopped and when, and who starts it again."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from deskyard.access import access
from deskyard.declaration import declaration
from deskyard.errors import ConfigError, SiteError
from deskyard.host import jump
from deskyard.host.jump import Moment
from deskyard.life import power, waiting_pages
from deskyard.life.idle import asleep, idle
from deskyard.life.idle.idle import Use, Woken
from deskyard.model.idle import Idle
from deskyard.plan.power import Load, Power, Rate, rate
from tests.support.clock import Clock
from tests.unit.life.machines import DEV1, DEV2, PLAN, Machines
from tests.unit.life.waiting_turn import waiting

DECLARED = Idle(stop_after="10m")
LOOK, HOUR = 60.0, 3600.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


class Host:
    """The machine on which they run: `lost` are the seconds by which its clock went on and it did not."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.boot, self.booted, self.lost = clock, "first", clock.now - 5000, 0.0

    def awake(self) -> Moment:
        return Moment(self.boot, self.clock.now, self.clock.now - self.booted - self.lost)

    def loses(self, seconds: float) -> None:
        """It sleeps, or its clock is set ahead."""
        self.clock.now += seconds
        self.lost += seconds

    def boots(self, off: float) -> None:
        """It was off, and has booted."""
        self.clock.now += off + 30
        self.boot, self.booted, self.lost = f"{self.boot} again", self.clock.now - 30, 0.0


@pytest.fixture(autouse=True)
def host(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Host:
    found = Host(clock)
    monkeypatch.setattr(jump, "awake", found.awake)
    return found


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The sessions of the workspace."""
    found: list[dict[str, Any]] = []
    monkeypatch.setattr(access, "sessions", lambda _: found)
    return found


@pytest.fixture(autouse=True)
def heard(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What pages that wait were told."""
    found: list[tuple[str, ...]] = []
    monkeypatch.setattr(access, "tell_waking", lambda *said: found.append(said))
    return found


@pytest.fixture(autouse=True)
def declare(machines: Machines, sessions: list[Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """`dev1` may be stopped as declared, `dev2` never."""

    def write(declared: Idle | None, *names: str) -> None:
        desktops = [replace(d, idle=declared if d.name in (names or ("dev1",)) else None) for d in PLAN.desktops]
        plan = replace(PLAN, desktops=tuple(desktops))
        monkeypatch.setattr(declaration, "read", lambda _: SimpleNamespace(plan=plan))

    write(DECLARED)
    return write


def pass_by(machines: Machines, clock: Clock, minutes: int, percent: float = 0, kib: float = 0, **named: Any) -> Use:
    """Look every minute, while the machine takes so much; how it is used at last."""
    found = []
    for _ in range(minutes):
        clock.now += LOOK
        before = machines.taken[DEV1]
        seconds = (before.cpu_seconds or 0.0) + percent / 100 * LOOK
        machines.taken[DEV1] = Load(before.network_bytes + int(kib * 1024 * LOOK), seconds)
        found = idle.stop_unused("lab", clock=clock, **named)
    (use,) = found
    return use


def test_what_nobody_uses_is_stopped_when_its_time_is_over_and_not_before(machines: Machines, clock: Clock) -> None:
    idle.look("lab", clock=clock)
    assert pass_by(machines, clock, 9).state == "running"
    use = pass_by(machines, clock, 1)
    assert (use.desktop, use.state, use.asleep) == ("dev1", "stopped", True)
    assert machines.moves == [(DEV1, "stopped", Power.OFF)]
    assert machines.now[DEV2] == "running"
    (later,) = idle.look("lab", clock=clock)
    assert later == Use("dev1", "stopped", "", None, None, asleep=True)
    assert "a link, its page or a task starts it" in idle.text([later], clock)


@pytest.mark.parametrize(("percent", "kib"), [(11, 0), (0, 17)], ids=["processor", "network"])
def test_what_takes_more_than_declared_is_used(machines: Machines, clock: Clock, percent: float, kib: float) -> None:
    idle.look("lab", clock=clock)
    use = pass_by(machines, clock, 30, percent, kib)
    assert (use.state, use.used_at) == ("running", clock.now)
    assert pass_by(machines, clock, 9, 10, 16).state == "running"
    assert pass_by(machines, clock, 1).state == "stopped"


def test_who_acts_in_a_viewer_uses_it_and_a_viewer_left_open_does_not(
    machines: Machines, clock: Clock, sessions: list[dict[str, Any]]
) -> None:
    sessions += [
        {"desktop": "dev1", "idle": 5, "actor": "ann", "does": "drives"},
        {"desktop": "dev1", "idle": None, "actor": "bob", "does": None},
        {"desktop": "dev2", "idle": 0, "actor": "eve", "does": "drives"},
    ]
    idle.look("lab", clock=clock)
    use = pass_by(machines, clock, 30)
    assert (use.used_by, use.used_at) == ("ann drives", clock.now - 5)
    states = []
    for minute in range(1, 11):
        sessions[0]["idle"] = 5 + 60 * minute
        states.append(pass_by(machines, clock, 1).state)
    assert states == ["running"] * 9 + ["stopped"]


def test_program_that_acts_uses_it_and_one_that_has_acted_long_ago_does_not(
    machines: Machines, clock: Clock, sessions: list[dict[str, Any]]
) -> None:
    idle.look("lab", clock=clock)
    sessions.append({"desktop": "dev1", "idle": 5, "actor": "tidier", "does": "acts"})
    assert pass_by(machines, clock, 30).used_by == "tidier acts"
    # Its session may end before anybody looks again.
    sessions[0] |= {"idle": 65, "does": "acted"}
    assert pass_by(machines, clock, 1).used_at == clock.now - 65
    sessions.clear()
    assert pass_by(machines, clock, 7).state == "running"
    assert pass_by(machines, clock, 2).state == "stopped"


def test_a_desktop_with_a_task_is_used(machines: Machines, clock: Clock) -> None:
    idle.look("lab", clock=clock)
    assert pass_by(machines, clock, 30, busy=lambda: ["dev1"]).used_by == "it has a task"


def test_a_gateway_that_cannot_be_asked_keeps_them_up(
    machines: Machines, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: str) -> None:
        raise SiteError("gateway", "lab", "does not answer", "look at it")

    monkeypatch.setattr(access, "sessions", fail)
    idle.look("lab", clock=clock)
    use = pass_by(machines, clock, 30)
    assert (use.state, use.used_by) == ("running", "its gateway does not answer")


def test_one_that_is_opened_while_another_shuts_down_goes_on(
    machines: Machines, clock: Clock, sessions: list[dict[str, Any]], declare: Any
) -> None:
    declare(DECLARED, "dev1", "dev2")
    idle.look("lab", clock=clock)

    def opened(_: str) -> None:
        clock.now += 60
        sessions.append({"desktop": "dev2", "idle": 1, "actor": "ann", "does": "drives"})

    machines.act = opened
    clock.now += 600
    first, second = idle.stop_unused("lab", clock=clock)
    assert (first.state, first.asleep) == ("stopped", True)
    assert (second.state, second.used_by, second.asleep) == ("running", "ann drives", False)
    assert [domain for domain, _, _ in machines.moves] == [DEV1]


@pytest.mark.parametrize("use", ["opened", "given a task"])
def test_one_that_is_used_while_its_stop_waits_for_its_turn_goes_on(
    machines: Machines, clock: Clock, sessions: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, use: str
) -> None:
    idle.look("lab", clock=clock)
    clock.now += 600
    tasks = set[str]()
    with waiting("dev1", lambda: idle.stop_unused("lab", lambda: tasks, clock), monkeypatch):
        if use == "opened":
            sessions.append({"desktop": "dev1", "idle": 1, "actor": "ann", "does": "drives"})
        else:
            tasks.add("dev1")
    assert (machines.moves, machines.wanted[DEV1], asleep.is_asleep(PLAN, "dev1")) == ([], Power.RUNNING, False)


@pytest.mark.parametrize(("state", "wish"), [("stopped", Power.OFF), ("paused", Power.PAUSED), ("saved", Power.PAUSED)])
def test_what_a_person_stops_while_its_stop_waits_for_its_turn_does_not_sleep(
    machines: Machines, clock: Clock, monkeypatch: pytest.MonkeyPatch, state: str, wish: Power
) -> None:
    idle.look("lab", clock=clock)
    clock.now += 600
    found: list[Use] = []
    with waiting("dev1", lambda: found.extend(idle.stop_unused("lab", clock=clock)), monkeypatch):
        machines.now[DEV1], machines.wanted[DEV1] = state, wish
    assert found == [Use("dev1", state, "", None, None)]
    assert (machines.moves, machines.wanted[DEV1]) == ([], wish)
    assert not idle.wake("lab/dev1")
    assert machines.now[DEV1] == state


def test_one_that_is_declared_to_stay_while_its_stop_waits_for_its_turn_goes_on(
    machines: Machines, clock: Clock, declare: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle.look("lab", clock=clock)
    clock.now += 600
    with waiting("dev1", lambda: idle.stop_unused("lab", clock=clock), monkeypatch):
        declare(None)
    assert (machines.moves, asleep.is_asleep(PLAN, "dev1")) == ([], False)


def test_what_still_nobody_uses_is_stopped_when_its_turn_comes(
    machines: Machines, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle.look("lab", clock=clock)
    clock.now += 600
    with waiting("dev1", lambda: idle.stop_unused("lab", clock=clock), monkeypatch):
        clock.now += 300
    assert machines.moves == [(DEV1, "stopped", Power.OFF)] and asleep.is_asleep(PLAN, "dev1")


def test_what_a_machine_takes_for_a_moment_is_no_use_and_counts_in_the_next_average(
    machines: Machines, clock: Clock
) -> None:
    idle.look("lab", clock=clock)
    start = clock.now
    clock.now += 5
    machines.taken[DEV1] = Load(1 << 20, 4.0)
    assert [use.used_at for use in idle.look("lab", clock=clock)] == [start]
    clock.now += 25
    assert [use.used_by for use in idle.look("lab", clock=clock)] == ["it took 13 % of a processor"]


def test_one_that_was_started_anew_has_its_whole_time_again(machines: Machines, clock: Clock) -> None:
    machines.taken[DEV1] = Load(1 << 30, 900.0)
    idle.look("lab", clock=clock)
    pass_by(machines, clock, 9)
    machines.taken[DEV1] = Load(0, 0.0)
    assert pass_by(machines, clock, 1).used_by == "it was started"
    assert pass_by(machines, clock, 9).state == "running"


@pytest.mark.parametrize("percent", [100, 0], ids=["busy", "unused"])
def test_host_that_slept_or_whose_clock_was_set_ahead_gives_each_its_whole_time_again(
    machines: Machines, clock: Clock, host: Host, percent: float
) -> None:
    idle.look("lab", clock=clock)
    pass_by(machines, clock, 5, percent)
    host.loses(8 * HOUR)
    # All that it took is nothing on an average over eight hours.
    use = pass_by(machines, clock, 1, percent)
    assert (use.state, use.used_at, use.used_by) == ("running", clock.now, "the clock was set, or the host slept")
    assert pass_by(machines, clock, 9).state == "running"
    assert pass_by(machines, clock, 1).state == "stopped"


def test_clock_that_is_set_between_a_look_and_the_turn_of_a_stop_stops_nothing(
    machines: Machines, clock: Clock, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle.look("lab", clock=clock)
    clock.now += 600
    with waiting("dev1", lambda: idle.stop_unused("lab", clock=clock), monkeypatch):
        host.loses(8 * HOUR)
    assert (machines.moves, asleep.is_asleep(PLAN, "dev1")) == ([], False)


def test_host_that_was_off_gives_each_its_whole_time_again(machines: Machines, clock: Clock, host: Host) -> None:
    idle.look("lab", clock=clock)
    pass_by(machines, clock, 5)
    host.boots(8 * HOUR)
    assert pass_by(machines, clock, 1).used_by == "the clock was set, or the host slept"
    assert pass_by(machines, clock, 9).state == "running"


def test_clock_that_is_set_back_gives_each_its_whole_time_again(machines: Machines, clock: Clock, host: Host) -> None:
    idle.look("lab", clock=clock)
    pass_by(machines, clock, 5)
    host.loses(-HOUR)
    assert pass_by(machines, clock, 1).used_at == clock.now
    assert pass_by(machines, clock, 9).state == "running"
    assert pass_by(machines, clock, 1).state == "stopped"


def test_clock_that_a_time_server_puts_right_between_looks_is_no_jump(
    machines: Machines, clock: Clock, host: Host
) -> None:
    idle.look("lab", clock=clock)
    for _ in range(5):
        pass_by(machines, clock, 1)
        host.loses(idle.JUMP_SECONDS)
    assert pass_by(machines, clock, 1).state == "stopped"


def test_what_a_release_before_kept_is_nobodys_look(machines: Machines, clock: Clock) -> None:
    idle.look("lab", clock=clock)
    before = {"at": clock.now - HOUR, "load": {"network_bytes": 0}, "used_at": clock.now - HOUR, "used_by": "ann"}
    idle._file(PLAN).write_text(json.dumps({"dev1": before}))
    assert [use.used_by for use in idle.look("lab", clock=clock)] == ["nobody looked before"]


def test_a_guest_that_does_not_listen_goes_on_and_does_not_sleep(machines: Machines, clock: Clock) -> None:
    machines.deaf.add(DEV1)
    idle.look("lab", clock=clock)
    use = pass_by(machines, clock, 12)
    assert (use.state, machines.wanted[DEV1]) == ("running", Power.RUNNING)
    assert not asleep.is_asleep(PLAN, "dev1")


def test_whoever_wants_it_wakes_it_and_waits_for_its_routes(machines: Machines, clock: Clock, waits: list[Any]) -> None:
    assert not idle.wake("lab/dev1")
    idle.look("lab", clock=clock)
    pass_by(machines, clock, 10)
    assert idle.wake("lab/dev1")
    assert (machines.now[DEV1], machines.wanted[DEV1], waits) == ("running", Power.RUNNING, [["dev1"]])
    assert not idle.wake("lab/dev1")


def test_pages_that_wait_are_shown_that_it_is_put_to_sleep_and_woken(
    machines: Machines, clock: Clock, waits: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[tuple[str, str]] = []
    monkeypatch.setattr(waiting_pages, "tell", lambda _, desktop, stage: shown.append((desktop, stage)))
    idle.look("lab", clock=clock)
    pass_by(machines, clock, 10)
    assert shown == [("dev1", "stopping"), ("dev1", "stopped")]
    assert idle.wake("lab/dev1")
    assert shown[2:] == [("dev1", "booting")]


def test_what_a_person_stopped_is_not_woken(machines: Machines, clock: Clock, waits: list[Any]) -> None:
    idle.look("lab", clock=clock)
    pass_by(machines, clock, 10)
    power.start("lab/dev1")
    power.stop("lab/dev1")
    assert not idle.wake("lab/dev1")
    assert machines.now[DEV1] == "stopped"


def test_what_is_woken_by_hand_alone_sleeps_on(machines: Machines, clock: Clock, declare: Any) -> None:
    idle.look("lab", clock=clock)
    pass_by(machines, clock, 10)
    declare(Idle(stop_after="10m", wake="by_hand"))
    assert not idle.wake("lab/dev1")
    assert machines.now[DEV1] == "stopped"


def fall_asleep(machines: Machines, clock: Clock) -> None:
    idle.look("lab", clock=clock)
    pass_by(machines, clock, 10)
    assert asleep.is_asleep(PLAN, "dev1")
    # Its mark has the time of the disk.
    os.utime(asleep._mark(PLAN, "dev1"), (clock.now, clock.now))


def wanting(**changes: Any) -> dict[str, Any]:
    """A session whose page waits, as the gateway lists it."""
    return {"desktop": "dev1", "actor": "ann", "idle": None, "does": None, "wanted": 2, **changes}


def test_whoever_has_its_page_open_wakes_it_and_nobody_waits_here(
    machines: Machines, clock: Clock, sessions: list[dict[str, Any]], waits: list[Any], heard: list[Any]
) -> None:
    fall_asleep(machines, clock)
    assert idle.wake_wanted("lab", clock) == []
    clock.now += 60
    sessions += [wanting(), wanting(actor="bob", wanted=0)]
    assert idle.wake_wanted("lab", clock) == [Woken("dev1", "ann")]
    assert (machines.now[DEV1], machines.wanted[DEV1], waits) == ("running", Power.RUNNING, [])
    assert heard == [("lab", "dev1", "starts")]
    assert idle.wake_wanted("lab", clock) == []
    assert len(heard) == 1


def test_gateway_whose_page_wakes_a_desktop_is_asked_once_and_of_another_start_its_stage(
    machines: Machines,
    clock: Clock,
    sessions: list[dict[str, Any]],
    waits: list[Any],
    heard: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stages: list[str] = []
    monkeypatch.setattr(waiting_pages, "tell", lambda _, desktop, stage: stages.append(f"{desktop} {stage}"))
    fall_asleep(machines, clock)
    clock.now += 60
    sessions.append(wanting())
    stages.clear()
    assert idle.wake_wanted("lab", clock) == [Woken("dev1", "ann")]
    assert (stages, heard) == ([], [("lab", "dev1", "starts")])
    fall_asleep(machines, clock)
    stages.clear()
    assert idle.wake("lab/dev1")
    assert (stages, len(heard)) == (["dev1 booting"], 1)


@pytest.mark.parametrize("changes", [{"wanted": None}, {"wanted": 61}, {"desktop": "dev2"}, {"desktop": "elsewhere"}])
def test_what_nobody_has_wanted_since_it_sleeps_is_not_woken(
    machines: Machines, clock: Clock, sessions: list[dict[str, Any]], changes: dict[str, Any]
) -> None:
    fall_asleep(machines, clock)
    clock.now += 60
    sessions.append(wanting(**changes))
    before = list(machines.moves)
    assert idle.wake_wanted("lab", clock) == []
    assert machines.moves == before


def test_gateway_of_before_that_knows_no_wish_wakes_nothing(
    machines: Machines, clock: Clock, sessions: list[dict[str, Any]]
) -> None:
    fall_asleep(machines, clock)
    sessions.append({"desktop": "dev1", "actor": "ann", "idle": None, "does": None})
    assert idle.wake_wanted("lab", clock) == []


@pytest.mark.parametrize("verb", ["stop", "pause"])
def test_what_a_person_stopped_is_not_woken_by_its_page(
    machines: Machines, clock: Clock, sessions: list[dict[str, Any]], waits: list[Any], verb: str
) -> None:
    fall_asleep(machines, clock)
    power.start("lab/dev1")
    getattr(power, verb)("lab/dev1")
    sessions.append(wanting(wanted=0))
    clock.now += 60
    before = list(machines.moves)
    assert idle.wake_wanted("lab", clock) == []
    assert machines.moves == before


def test_person_who_stops_it_before_the_turn_of_its_page_comes_has_it_stopped(
    machines: Machines,
    clock: Clock,
    sessions: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    heard: list[Any],
) -> None:
    fall_asleep(machines, clock)
    clock.now += 60
    sessions.append(wanting())
    reach = power.behind_gateway

    def stopped_meanwhile(target: str) -> power.Machine:
        machine = reach(target)
        power.stop(target)
        return machine

    monkeypatch.setattr(power, "behind_gateway", stopped_meanwhile)
    assert idle.wake_wanted("lab", clock) == []
    assert (machines.now[DEV1], heard) == ("stopped", [])


def test_what_is_woken_by_hand_alone_is_not_woken_by_its_page(
    machines: Machines, clock: Clock, declare: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fall_asleep(machines, clock)
    declare(Idle(stop_after="10m", wake="by_hand"))
    monkeypatch.setattr(access, "sessions", lambda _: pytest.fail("its gateway was asked"))
    assert idle.wake_wanted("lab", clock) == []


def test_gateway_is_asked_only_while_something_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "sessions", lambda _: pytest.fail("its gateway was asked"))
    assert idle.wake_wanted("lab") == []


def test_one_that_does_not_start_is_named_and_wanted_to_run(
    machines: Machines,
    clock: Clock,
    sessions: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    heard: list[Any],
) -> None:
    fall_asleep(machines, clock)
    clock.now += 60
    sessions.append(wanting())

    def fail(*_: Any) -> None:
        raise SiteError("machine", DEV1, "has no room", "make some")

    monkeypatch.setattr(Machines, "start", fail)
    assert idle.wake_wanted("lab", clock) == []
    assert "has no room" in "".join(capsys.readouterr())
    assert machines.wanted[DEV1] is Power.RUNNING
    assert heard == [("lab", "dev1", "starts"), ("lab", "dev1", "failed")]


def test_one_for_which_there_is_no_room_sleeps_on_and_is_woken_once_there_is(
    machines: Machines,
    clock: Clock,
    sessions: list[dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
    heard: list[Any],
) -> None:
    fall_asleep(machines, clock)
    clock.now += 60
    sessions.append(wanting())
    machines.too_large.add(DEV1)
    assert idle.wake_wanted("lab", clock) == []
    assert "100 MiB are free" in "".join(capsys.readouterr())
    assert asleep.is_asleep(PLAN, "dev1") and machines.wanted[DEV1] is Power.OFF
    machines.too_large.clear()
    assert idle.wake_wanted("lab", clock) == [Woken("dev1", "ann")]
    assert heard == [("lab", "dev1", "no-room"), ("lab", "dev1", "starts")]


def stops(machines: Machines) -> None:
    power_moved(machines, "stopped", Power.OFF)


def starts(machines: Machines) -> None:
    power_moved(machines, "running", Power.RUNNING)


def power_moved(machines: Machines, state: str, wish: Power) -> None:
    """Somebody who has the turn moves it."""
    asleep.forget(PLAN, "dev1")
    machines.now[DEV1], machines.wanted[DEV1] = state, wish


@pytest.mark.parametrize(
    ("meanwhile", "said", "shown", "woken"),
    [
        (lambda _: None, [], [], [Woken("dev1", "ann")]),
        (stops, ["failed"], ["stopped"], []),
        (starts, [], [], []),
        (lambda machines: machines.too_large.add(DEV1), ["no-room"], ["stopped"], []),
    ],
    ids=["nothing", "a person stops it", "a person starts it", "its memory is taken"],
)
def test_who_waits_hears_that_it_starts_before_its_turn_and_otherwise_if_nothing_comes_of_it(
    machines: Machines,
    clock: Clock,
    sessions: list[dict[str, Any]],
    heard: list[tuple[str, ...]],
    monkeypatch: pytest.MonkeyPatch,
    meanwhile: Callable[[Machines], None],
    said: list[str],
    shown: list[str],
    woken: list[Woken],
) -> None:
    fall_asleep(machines, clock)
    clock.now += 60
    sessions.append(wanting())
    stages: list[str] = []
    monkeypatch.setattr(waiting_pages, "has_any", lambda _: True)
    monkeypatch.setattr(waiting_pages, "tell", lambda _plan, _desktop, stage: stages.append(str(stage)))
    found: list[Woken] = []
    with waiting("dev1", lambda: found.extend(idle.wake_wanted("lab", clock)), monkeypatch):
        assert heard == [("lab", "dev1", "starts")]
        meanwhile(machines)
    assert ([what for _, _, what in heard[1:]], stages, found) == (said, shown, woken)
    assert asleep.is_asleep(PLAN, "dev1") is (said == ["no-room"])


def test_one_that_waits_for_its_turn_keeps_no_other_from_being_said_to_start(
    machines: Machines,
    clock: Clock,
    sessions: list[dict[str, Any]],
    heard: list[tuple[str, ...]],
    monkeypatch: pytest.MonkeyPatch,
    declare: Any,
) -> None:
    declare(DECLARED, "dev1", "dev2")
    idle.look("lab", clock=clock)
    clock.now += 600
    idle.stop_unused("lab", clock=clock)
    for name in ("dev1", "dev2"):
        os.utime(asleep._mark(PLAN, name), (clock.now, clock.now))
    clock.now += 60
    sessions += [wanting(), wanting(desktop="dev2", actor="bob")]
    with waiting("dev1", lambda: idle.wake_wanted("lab", clock), monkeypatch):
        assert heard == [("lab", "dev1", "starts"), ("lab", "dev2", "starts")]
    assert {machines.now[DEV1], machines.now[DEV2]} == {"running"}


def test_gateway_that_cannot_tell_a_page_keeps_nothing_from_being_woken(
    machines: Machines, clock: Clock, sessions: list[dict[str, Any]]
) -> None:
    fall_asleep(machines, clock)
    clock.now += 60
    sessions.append(wanting())

    def older(*_: str) -> None:
        raise ConfigError("command", "waking", "is not known", "use deskyard-gateway")

    assert idle.wake_wanted("lab", clock, tell=older) == [Woken("dev1", "ann")]


def test_where_nothing_is_declared_nothing_is_asked(declare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(None)
    monkeypatch.setattr(Machines, "states", lambda _: pytest.fail("its machines were asked"))
    assert idle.stop_unused("lab") == []
    assert "no desktop here" in idle.text([])


def test_a_cluster_tells_what_a_machine_takes_just_now() -> None:
    assert rate(Load(0, processors=0.0), Load(61_440, processors=0.25), 60) == Rate(25.0, 1.0)
    assert rate(Load(0, 6.0), Load(0, 12.0), 60) == Rate(10.0, 0.0)
    assert rate(Load(5, 6.0), Load(0, 12.0), 60) is None
