"""Desktops for a task: made where nobody else is, given once, run in, and gone at the end whatever happens."""

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deskyard.access import access
from deskyard.declaration import declaration
from deskyard.desktop import customise_delivery, key_delivery, process_cap, program
from deskyard.engine import stack_secrets
from deskyard.errors import ConfigError, HostError, SiteError
from deskyard.host.places import places
from deskyard.life.pool import filling, making, pool, run
from deskyard.plan.pool.seat import Claim, Entry, Event, State
from deskyard.plan.power import Power
from deskyard.plan.warm import BOOTS
from deskyard.site.ssh_link import SshLink
from deskyard.workspace import readiness
from deskyard.workspace.seats import Seats
from tests.unit.workspace.disposables import Disposables, declared

FILES = SimpleNamespace(is_empty=False)
ENDS = [None, KeyboardInterrupt(), SiteError("gateway", "lab", "went away", "look")]


class Bench:
    """Workspace `lab` as it is declared now, its machines, and what was done for them in order."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DESKYARD_HOME", str(folder))
        self.declared = declared(3, 2)
        self.disposables = Disposables(folder / "machines")
        self.seats = Seats("local", "lab", self.disposables)
        self.done: list[tuple[str, Any]] = []
        backend = SimpleNamespace(
            answers=lambda: True,
            disposables=lambda _: self.disposables,
            prepare_starts=lambda _, new, make: self.done.append((f"templates {make}", new[0].name)),
        )
        monkeypatch.setattr(declaration, "read", lambda _: self.declared)
        for module in (making, pool):
            monkeypatch.setattr(module, "backend_of", lambda _: backend)
        monkeypatch.setattr(access, "revoke", lambda _, desktop: self.done.append(("sessions end", desktop)))
        monkeypatch.setattr(readiness, "wait", self._answers)
        monkeypatch.setattr(making, "_let_in", lambda _, seat: self.done.append(("lets in", seat.name)))
        self.power = Power.RUNNING
        gateway = self.declared.plan.gateway.machine.domain
        machines = SimpleNamespace(desired=lambda: {gateway: self.power})
        monkeypatch.setattr(filling, "machines_of", lambda _: machines)
        self.fails: Callable[[str], None] = lambda _: None

    def _answers(self, _: Any, desktops: list[Any]) -> None:
        self.fails(desktops[0].name)
        self.done.append(("routes answer", desktops[0].name))

    def states(self) -> dict[str, State]:
        return {name: seated.state for name, seated in self.seats.ledger.machines().items()}

    def wanted(self, **keys: Any) -> run.Wanted:
        values = {"image": None, "tier": None, "seconds": 600, "remove": True, "command": True, **keys}
        return run.Wanted("lab", **values)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def test_pool_is_filled_to_its_size_and_a_second_time_changes_nothing(bench: Bench) -> None:
    assert filling.fill("lab")["made"] == ["s1", "s2"]
    assert bench.states() == {"s1": State.WAITING, "s2": State.WAITING}
    assert filling.fill("lab")["made"] == []


def test_pool_of_a_stopped_workspace_is_not_filled_and_that_is_no_failure(bench: Bench) -> None:
    bench.power = Power.OFF
    assert filling.fill("lab")["made"] == []
    assert bench.states() == {}


def test_what_was_claimed_is_made_up_for_at_another_seat(bench: Bench) -> None:
    filling.fill("lab")
    assert pool.claim("lab", None, None, 600)["name"] == "s1"
    assert filling.fill("lab")["made"] == ["s3"]
    assert bench.states() == {"s1": State.CLAIMED, "s2": State.WAITING, "s3": State.WAITING}
    assert pool.claim("lab", None, None, 600)["name"] == "s2"
    # No seat is free: the pool is smaller until one is.
    assert filling.fill("lab")["made"] == []
    pool.release("lab/s1")
    assert filling.fill("lab")["made"] == ["s1"]


def test_seat_whose_machine_does_not_go_is_passed_over(bench: Bench) -> None:
    bench.disposables.mark("s1", {})
    bench.disposables.stuck = {"s1"}
    assert filling.fill("lab")["made"] == ["s2", "s3"]
    for seat in ("s2", "s3"):
        with run.desktop(bench.wanted()) as given:
            assert given["name"] == seat
    with run.desktop(bench.wanted()) as given:
        assert given["name"] == "s2"


def test_machine_gets_nobodys_sessions_and_an_identity_that_none_had(bench: Bench) -> None:
    filling.fill("lab")
    assert bench.done[:3] == [("sessions end", "s1"), ("templates tried", "s1"), ("routes answer", "s1")]
    pool.claim("lab", None, None, 600)
    pool.release("lab/s1")
    filling.fill("lab")
    first, _, again = bench.disposables.made
    assert (first.name, again.name, first.address, first.mac) == ("s1", "s1", again.address, again.mac)
    assert len({first.machine.uuid, again.machine.uuid, bench.declared.plan.seat("s1").machine.uuid}) == 3


@pytest.mark.parametrize("starts", [BOOTS, "went on from t", f"{BOOTS}, since it could not go on from t: too slow"])
def test_machine_that_could_not_go_on_from_its_template_says_why(
    bench: Bench, capsys: pytest.CaptureFixture[str], starts: str
) -> None:
    bench.disposables.starts = starts
    filling.fill("lab")
    assert (f"s1 {starts}" in capsys.readouterr().err) == ("since" in starts)


@pytest.mark.parametrize("failure", [SiteError("workspace", "lab", "not ready in time", "see"), KeyboardInterrupt()])
def test_machine_that_does_not_come_up_leaves_nothing(bench: Bench, failure: BaseException) -> None:
    def fail(_: str) -> None:
        raise failure

    bench.fails = fail
    with pytest.raises(type(failure)):
        filling.fill("lab")
    assert (bench.states(), bench.disposables.there()) == ({}, set())


def test_machine_without_room_is_refused_before_anything_is_touched(bench: Bench) -> None:
    bench.disposables.full = True
    with pytest.raises(HostError, match="100 MiB are available") as caught:
        filling.fill("lab")
    assert (caught.value.field, caught.value.remedy) == ("memory", "release others")
    with pytest.raises(HostError, match="100 MiB are available"), run.desktop(bench.wanted()):
        pass
    assert (bench.done, bench.states(), bench.disposables.there()) == ([], {}, set())


def test_what_waits_is_given_on_a_host_that_has_no_room_for_another(bench: Bench) -> None:
    filling.fill("lab")
    bench.disposables.full = True
    with run.desktop(bench.wanted()) as found:
        assert found["name"] == "s1"


def test_seat_that_the_gateway_does_not_know_yet_gets_no_machine(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any, **__: Any) -> None:
        raise ConfigError("desktop", "s1", "is not in workspace lab", "choose one")

    monkeypatch.setattr(access, "revoke", unknown)
    with pytest.raises(SiteError, match="its gateway does not know it") as caught:
        filling.fill("lab")
    assert "workspace.up lab" in caught.value.remedy
    assert bench.disposables.made == []


def test_machine_of_a_seat_that_an_up_changed_meanwhile_is_not_made(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = iter([bench.declared, declared(3, 2, peers="open")])
    monkeypatch.setattr(declaration, "read", lambda _: next(reads))
    with pytest.raises(SiteError, match="was declared otherwise meanwhile"), run.desktop(bench.wanted()):
        pass
    assert bench.disposables.made == []


def test_keys_and_files_are_brought_before_anybody_can_claim_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def keys(_: Any, wanted: dict[str, Any]) -> None:
        bench.done.append(("keys", (wanted, bench.states())))

    desktops = [{"name": "s1", "lifetime": "task", "keys": ["anthropic"]}]
    secret = {"secure": "v1:AAAA"}
    bench.declared = declared(0, desktops=desktops, keys={"anthropic": secret}, pool={"size": 1})
    monkeypatch.setattr(stack_secrets, "read_keys", lambda _, names: {name: "value" for name in names})
    monkeypatch.setattr(key_delivery, "deliver", keys)
    monkeypatch.setattr(customise_delivery, "wanted", lambda *_: {"s1": FILES})
    monkeypatch.setattr(customise_delivery, "apply", lambda _, what, __: bench.done.append(("files", what)))
    filling.fill("lab")
    assert bench.done[-2:] == [
        ("keys", ({"s1": {"anthropic": "value"}}, {"s1": State.MAKING})),
        ("files", {"s1": FILES}),
    ]


def test_machine_is_capped_before_anybody_can_claim_it_and_forgotten_with_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(_: Any, name: str, __: Any, request: dict[str, Any]) -> dict[str, Any]:
        bench.done.append(("cap", (name, request["processes"], bench.states()[name])))
        return {"done": "changed", "parts": [], "otherwise": {}}

    monkeypatch.setattr(program, "ask", ask)
    plan = bench.declared.plan
    seats = tuple(replace(seat, caps=seat.caps.model_copy(update={"processes": 300})) for seat in plan.seats)
    monkeypatch.setattr(bench, "declared", replace(bench.declared, plan=replace(plan, seats=seats)))
    filling.fill("lab")
    assert [what for kind, what in bench.done if kind == "cap"] == [(name, 300, State.MAKING) for name in ("s1", "s2")]
    folder = places().workspace("local", "lab") / process_cap.MARKS
    assert sorted(mark.name for mark in folder.iterdir()) == ["s1", "s2"]
    pool.claim("lab", None, None, 600)
    pool.release("lab/s1")
    assert [mark.name for mark in folder.iterdir()] == ["s2"]


def test_nobody_can_claim_from_an_empty_pool(bench: Bench) -> None:
    with pytest.raises(SiteError, match="no desktop waits in it") as caught:
        pool.claim("lab", None, None, 600)
    assert "desktop.run lab" in caught.value.remedy


def test_claim_says_what_it_got(bench: Bench) -> None:
    filling.fill("lab")
    before = time.time()
    found = pool.claim("lab", "desktop", "free", 600)
    assert (found["target"], found["address"]) == ("lab/s1", bench.declared.plan.seat("s1").address)
    assert found["routes"] == ["computer", "desktop", "terminal"]
    assert before + 600 <= found["until"] <= time.time() + 600
    row = next(row for row in pool.listed("lab")["seats"] if row["name"] == "s1")
    assert (row["state"], row["by"], row["until"]) == (State.CLAIMED, found["by"], found["until"])


@pytest.mark.parametrize(("image", "tier"), [("agent", None), (None, "pro"), ("desktop", "max")])
def test_image_or_tier_that_no_seat_has_is_refused_with_those_there_are(
    bench: Bench, image: str | None, tier: str | None
) -> None:
    with pytest.raises(ConfigError, match="none with lifetime: task has") as caught:
        pool.claim("lab", image, tier, 1)
    assert "s1 (desktop, free)" in caught.value.remedy
    with (
        pytest.raises(ConfigError, match="none with lifetime: task has"),
        run.desktop(bench.wanted(image=image, tier=tier)),
    ):
        pass


def test_workspace_without_seats_says_what_to_declare(bench: Bench) -> None:
    bench.declared = declared(0, pool=None)
    with pytest.raises(ConfigError, match="none has lifetime: task"):
        pool.listed("lab")


def test_where_the_engine_alone_makes_machines_there_are_no_seats(bench: Bench) -> None:
    bench.disposables = None  # type: ignore[assignment]
    with pytest.raises(ConfigError, match="none has lifetime: task"):
        pool.claim("lab", None, None, 1)
    with pytest.raises(ConfigError, match="is no disposable desktop"):
        pool.release("lab/s1")


def test_drained_pool_is_empty_and_what_somebody_has_stays(bench: Bench) -> None:
    filling.fill("lab")
    pool.claim("lab", None, None, 600)
    assert pool.drain("lab")["removed"] == ["s2"]
    assert bench.states() == {"s1": State.CLAIMED}


@pytest.mark.parametrize("end", ENDS, ids=["done", "ctrl-c", "failed"])
@pytest.mark.parametrize("waits", [True, False])
def test_desktop_of_a_task_is_gone_at_its_end(bench: Bench, end: BaseException | None, waits: bool) -> None:
    if waits:
        filling.fill("lab")
    try:
        with run.desktop(bench.wanted()) as found:
            assert found["name"] == "s1"
            assert bench.states()["s1"] is State.CLAIMED
            assert "s1" in bench.disposables.there()
            if end is not None:
                raise end
    except (KeyboardInterrupt, SiteError) as error:
        assert error is end
    assert "s1" not in bench.states()
    assert "s1" not in bench.disposables.there()


def test_desktop_that_is_to_stay_stays_until_it_is_released(bench: Bench) -> None:
    with run.desktop(bench.wanted(remove=False)):
        pass
    assert bench.states() == {"s1": State.CLAIMED}
    pool.release("lab/s1")
    assert (bench.states(), bench.disposables.there()) == ({}, set())


def test_command_needs_no_routes_and_a_person_does(bench: Bench) -> None:
    with run.desktop(bench.wanted(command=True)):
        assert ("lets in", "s1") in bench.done
    with run.desktop(bench.wanted(command=False)):
        assert ("routes answer", "s1") in bench.done


def test_next_task_removes_what_a_killed_one_left(bench: Bench) -> None:
    killed = os.fork()
    if killed == 0:
        with run.desktop(bench.wanted()):
            os.kill(os.getpid(), 9)
    os.waitpid(killed, 0)
    assert bench.states() == {"s1": State.CLAIMED}
    number = bench.seats.ledger.machines()["s1"].number
    with run.desktop(bench.wanted()):
        assert bench.seats.ledger.machines()["s1"].number != number
    assert bench.states() == {}


def test_task_takes_another_seat_than_one_that_is_held(bench: Bench) -> None:
    with run.desktop(bench.wanted()) as first, run.desktop(bench.wanted()) as second, run.desktop(bench.wanted()):
        assert first["name"] != second["name"]
        with pytest.raises(SiteError, match="all 3 that fit are taken"), run.desktop(bench.wanted()):
            pass
    assert bench.states() == {}


@pytest.mark.parametrize(("command", "code"), [("exit 7", 7), ("true", 0), ("sleep 60", run.TIMEOUT)])
def test_command_ends_with_its_own_code_or_in_time(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, command: str, code: int
) -> None:
    monkeypatch.setattr(SshLink, "command", lambda *_: ["sh", "-c", command])
    assert run.run("lab", "s1", command, 2 if code == run.TIMEOUT else 60) == code


def test_command_is_read_by_a_shell_of_the_agent_there(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[Any] = []

    def command(_: SshLink, host: str, remote: list[str]) -> list[str]:
        commands.append((host, remote))
        return ["true"]

    monkeypatch.setattr(SshLink, "command", command)
    run.run("lab", "s1", "echo 'a  b' && pwd", 60)
    ((host, remote),) = commands
    assert host == "s1"
    assert remote[:6] == ["sudo", "-n", "-H", "-u", "agent", "--"]
    assert remote[-1] == "echo 'a  b' && pwd"


def test_listed_seats_say_who_has_what(bench: Bench) -> None:
    filling.fill("lab")
    pool.claim("lab", None, None, 600)
    lines = pool.text(pool.listed("lab")).splitlines()
    assert [line.split()[:2] for line in lines] == [["lab/s1", "claimed"], ["lab/s2", "waiting"], ["lab/s3", "free"]]
    assert pool.listed("lab")["pool"] == {"size": 2, "max_age": "1d"}
    bench.declared = declared(0, pool=None, desktops=[{"name": "other", "lifetime": "task"}])
    assert "not declared any more" in pool.text(pool.listed("lab"))


def begun(bench: Bench, claimer: str = "key:ci op_1", **keys: Any) -> dict[str, Any]:
    return run.begin(bench.wanted(remove=False, command=False, **keys), claimer)


def test_claimer_whose_name_stands_for_one_claim_gets_one_that_waits_and_no_second(bench: Bench) -> None:
    filling.fill("lab")
    first = begun(bench)
    assert (first["name"], first["by"]) == ("s1", "key:ci op_1")
    again = begun(bench, seconds=9_000)
    assert (again["machine"], again["until"]) == (first["machine"], first["until"])
    assert begun(bench, "key:ci op_2")["name"] == "s2"
    assert [name for name, state in bench.states().items() if state is State.CLAIMED] == ["s1", "s2"]


def test_claimer_gets_the_one_that_an_attempt_before_has_claimed_and_its_own_word_is_made_up_for(bench: Bench) -> None:
    filling.fill("lab")
    marked = bench.disposables.mark

    def killed(seat: str, words: Any) -> None:
        raise KeyboardInterrupt

    bench.disposables.mark = killed  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        begun(bench)
    bench.disposables.mark = marked  # type: ignore[method-assign]
    assert begun(bench)["name"] == "s1"
    assert bench.disposables.marks()["s1"]["by"] == "key:ci op_1"
    assert bench.states() == {"s1": State.CLAIMED, "s2": State.WAITING}


def test_what_a_killed_attempt_has_half_made_is_made_anew(bench: Bench) -> None:
    bench.declared = declared(1, 1)
    plan = bench.declared.plan
    bench.seats.begin(bench.declared, plan.seat("s1"), Claim("key:ci op_1", 4e9))
    number = bench.seats.ledger.machines()["s1"].number
    found = begun(bench)
    assert found["name"] == "s1" and found["machine"] != number


def test_attempt_waits_for_the_one_before_that_still_makes_the_machine(bench: Bench) -> None:
    bench.declared = declared(2, 2)
    makes, ends = threading.Event(), threading.Event()

    def make(_: str) -> None:
        makes.set()
        assert ends.wait(20)

    bench.fails = make
    with ThreadPoolExecutor(2) as pool_of_threads:
        first = pool_of_threads.submit(begun, bench)
        assert makes.wait(20)
        second = pool_of_threads.submit(begun, bench)
        ends.set()
        assert first.result(20)["machine"] == second.result(20)["machine"]
    assert bench.states() == {"s1": State.CLAIMED}


def test_attempt_that_lost_the_race_has_the_desktop_of_the_other(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    filling.fill("lab")
    looked = Seats.of
    # The other claims between the look and the claim.
    monkeypatch.setattr(Seats, "of", lambda *_: (monkeypatch.setattr(Seats, "of", looked), begun(bench))[0])
    assert begun(bench)["name"] == "s1"
    assert bench.states() == {"s1": State.CLAIMED, "s2": State.WAITING}


def test_whoever_only_looks_at_the_last_free_seat_keeps_nobody_from_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.declared = declared(1, 1)
    held, waits = Seats.hold, threading.Event()

    def hold(seats: Seats, seat: str, *, at_once: bool = True) -> Any:
        if not at_once:
            waits.set()
        return held(seats, seat, at_once=at_once)

    monkeypatch.setattr(Seats, "hold", hold)
    with ThreadPoolExecutor(1) as looking:
        with bench.seats.hold("s1"):
            asked = looking.submit(begun, bench)
            assert waits.wait(20)
            assert bench.states() == {}
        assert asked.result(20)["name"] == "s1"


def test_machine_is_ended_by_its_number_and_no_other_in_its_place(bench: Bench) -> None:
    first = begun(bench)
    assert pool.end("lab/s1", first["machine"]) is True
    assert pool.end("lab/s1", first["machine"]) is False
    assert begun(bench, "key:ci op_2")["name"] == "s1"
    assert pool.end("lab/s1", first["machine"]) is False
    assert bench.states() == {"s1": State.CLAIMED}


def test_end_of_what_a_running_task_has_is_refused_and_not_waited_for(bench: Bench) -> None:
    with run.desktop(bench.wanted()) as found, pytest.raises(HostError, match="another task holds it"):
        pool.end(found["target"], found["machine"])
    assert bench.states() == {}


def test_what_a_killed_end_has_left_is_removed(bench: Bench) -> None:
    found = begun(bench)
    seated = bench.seats.ledger.machines()["s1"]
    bench.seats.ledger.note(Entry(Event.GONE, "s1", seated.number, time.time()))
    assert bench.disposables.there() == {"s1"}
    assert pool.end("lab/s1", found["machine"]) is True
    assert bench.disposables.there() == set()


def test_what_is_over_goes_and_the_pool_is_filled_where_there_is_one(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(bench, seconds=60)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 61)
    assert filling.tidy("lab") == ["s1", "s2"]
    bench.declared = declared(3, pool=None)
    assert filling.tidy("lab") == []
