"""Waiting for a workspace."""

import json
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

from deskyard.errors import SiteError
from deskyard.host.command import Result
from deskyard.host.deadline import Deadline
from deskyard.host.places import places
from deskyard.model.site import Site
from deskyard.model.workspace import Workspace
from deskyard.plan.power import Power
from deskyard.plan.workspace import DesktopPlan, WorkspacePlan, plan_workspace
from deskyard.site.ssh_link import SshLink
from deskyard.wire.stages import Stage
from deskyard.workspace import readiness
from tests.support.moves import Moves

DESKTOPS, DOMAIN = ("dev1", "dev2"), "deskyard-lab"
PLAN = plan_workspace(
    Workspace.check(
        {"name": "lab", "network": "10.80.1.0/24", "desktops": [{"name": name} for name in DESKTOPS]}, "test"
    ),
    Site(),
    "tcg",
)


def silent(*desktops: str) -> dict[str, Any]:
    """A gateway's status in which the routes of these desktops do not answer."""
    routes = {
        desktop.name: {route: {"ready": desktop.name not in desktops} for route in desktop.routes}
        for desktop in PLAN.desktops
    }
    return {"gateway_ready": True, "desktops": routes}


class Machines:
    """Machines whose agents tell their keys; `asleep` are wanted off."""

    def __init__(self, *asleep: str) -> None:
        self.asleep = asleep
        self.queue = Moves()

    def moves(self) -> Moves:
        """What a test tells."""
        return self.queue

    def desired(self) -> dict[str, Power]:
        """What each is wanted to be."""
        return {desktop.machine.domain: Power.OFF for desktop in PLAN.desktops if desktop.name in self.asleep}

    def keep_evidence(self, folder: Path, domains: Collection[str]) -> None:
        """A file for each."""
        for domain in domains:
            (folder / domain).touch()

    def host_key(self, domain: str) -> str:
        """Its name stands for it."""
        return domain


@pytest.mark.parametrize(
    ("pinned", "looks"), [(set(), 1), ({"dev1"}, 1), (set(DESKTOPS), 0)], ids=["none", "one", "all"]
)
def test_the_machines_are_looked_at_only_while_a_desktop_is_not_pinned(
    monkeypatch: pytest.MonkeyPatch, pinned: set[str], looks: int
) -> None:
    looked: list[WorkspacePlan] = []
    keys: dict[str, str] = {}

    def look(plan: WorkspacePlan) -> Machines:
        looked.append(plan)
        return Machines()

    monkeypatch.setattr(readiness, "machines_of", look)
    monkeypatch.setattr(SshLink, "pin", lambda _, host, key: keys.update({host: key}))
    seen = readiness._Seen(set(pinned), set())
    readiness._pin_desktops(PLAN, PLAN.desktops, seen)
    assert len(looked) == looks
    assert keys == {name: f"deskyard-lab.{name}" for name in DESKTOPS if name not in pinned}
    assert seen.pinned == set(DESKTOPS)


@pytest.mark.parametrize(
    ("answer_seconds", "pauses"),
    [(0.1, [1, 1, 1, 1]), (3, [3, 6, 9, 9]), (30, [15, 15, 15, 15])],
    ids=["at once", "emulated", "hardly at all"],
)
def test_gateway_that_answers_slowly_is_asked_less_often(
    monkeypatch: pytest.MonkeyPatch, answer_seconds: float, pauses: list[float]
) -> None:
    now, answers, machines = [0.0], [silent(*DESKTOPS)] * len(pauses) + [silent()], Machines()

    def ask(*_: object) -> dict[str, Any]:
        now[0] += answer_seconds
        return answers.pop(0)

    monkeypatch.setattr(readiness, "ask", ask)
    monkeypatch.setattr(readiness, "machines_of", lambda _: machines)
    monkeypatch.setattr(readiness, "stopped_machines", lambda _: [])
    monkeypatch.setattr(SshLink, "pin", lambda *_: None)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    assert readiness.wait(PLAN) == silent()
    assert machines.queue.waits == pytest.approx(pauses)


def test_gateway_that_waited_with_us_is_asked_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [{**silent(*DESKTOPS), "waited": True}, {**silent("dev2"), "waited": False}, {**silent(), "waited": True}]
    machines = Machines()
    monkeypatch.setattr(readiness, "ask", lambda *_: answers.pop(0))
    monkeypatch.setattr(readiness, "machines_of", lambda _: machines)
    monkeypatch.setattr(readiness, "stopped_machines", lambda _: [])
    monkeypatch.setattr(SshLink, "pin", lambda *_: None)
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    readiness.wait(PLAN)
    # Only after the second answer.
    assert machines.queue.waits == [readiness.PAUSE_SECONDS]


@pytest.mark.parametrize(
    ("asleep", "quiet", "named", "ready"),
    [
        ((), ("dev2",), None, False),
        (("dev2",), ("dev2",), None, True),
        (("dev2",), ("dev1", "dev2"), None, False),
        ((), ("dev2",), ["dev1"], True),
        ((), ("dev2",), ["dev2"], False),
    ],
)
def test_what_is_wanted_off_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    asleep: tuple[str, ...],
    quiet: tuple[str, ...],
    named: Sequence[str] | None,
    ready: bool,
) -> None:
    desktops = None if named is None else [PLAN.desktop(name) for name in named]
    off = [desktop.machine.domain for desktop in PLAN.desktops if desktop.name in asleep]
    monkeypatch.setattr(readiness, "ask", lambda *_: silent(*quiet))
    monkeypatch.setattr(readiness, "machines_of", lambda _: Machines(*asleep))
    monkeypatch.setattr(readiness, "stopped_machines", lambda _: off)
    monkeypatch.setattr(readiness, "keep_evidence", lambda *_: tmp_path)
    monkeypatch.setattr(SshLink, "pin", lambda *_: None)
    if ready:
        assert readiness.wait(PLAN, 0, desktops=desktops) == silent(*quiet)
        return
    with pytest.raises(SiteError, match="not ready in time"):
        monkeypatch.setattr(Deadline, "is_over", True)
        readiness.wait(PLAN, 0, desktops=desktops)


def test_evidence_is_kept_of_those_that_were_waited_for_and_of_the_last_failures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    failures = places().workspace(PLAN.site, PLAN.name) / "failures"
    for number in range(30):
        (failures / f"20260101-0000{number:02}").mkdir(parents=True)
        (failures / f"20260101-0000{number:02}" / "screen.ppm").touch()
    monkeypatch.setattr(readiness, "ask", lambda *_: silent(*DESKTOPS))
    monkeypatch.setattr(readiness, "machines_of", lambda _: Machines())
    monkeypatch.setattr(readiness, "stopped_machines", lambda _: [f"{DOMAIN}.dev2"])
    monkeypatch.setattr(SshLink, "pin", lambda *_: None)
    with pytest.raises(SiteError, match=f"see {failures}/"):
        readiness.wait(PLAN, desktops=[PLAN.desktop("dev2")])
    *older, fresh = sorted(failures.iterdir())
    assert [folder.name[-2:] for folder in older] == [f"{number}" for number in range(21, 30)]
    assert {path.name for path in fresh.iterdir()} == {f"{DOMAIN}.gateway", f"{DOMAIN}.dev2"}


def test_machine_that_stopped_by_itself_ends_the_wait(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(readiness, "ask", lambda *_: silent("dev2"))
    monkeypatch.setattr(readiness, "machines_of", lambda _: Machines())
    monkeypatch.setattr(readiness, "stopped_machines", lambda _: ["deskyard-lab.dev2"])
    monkeypatch.setattr(readiness, "keep_evidence", lambda *_: tmp_path)
    monkeypatch.setattr(SshLink, "pin", lambda *_: None)
    with pytest.raises(SiteError, match=r"stopped: deskyard-lab\.dev2"):
        readiness.wait(PLAN)


def test_machine_that_stops_is_noticed_at_once_and_what_others_do_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    dev1, dev2 = (desktop.machine.domain for desktop in PLAN.desktops)
    machines, dead = Machines(), list[list[str]]([[], [dev1]])
    for domain, stage in ((dev2, Stage.STOPPED), (dev1, Stage.BOOTING), (dev1, Stage.STOPPED)):
        machines.queue.tell(domain, stage)
    monkeypatch.setattr(readiness, "ask", lambda *_: silent(*DESKTOPS))
    monkeypatch.setattr(readiness, "machines_of", lambda _: machines)
    monkeypatch.setattr(readiness, "stopped_machines", lambda _: dead.pop(0))
    monkeypatch.setattr(readiness, "keep_evidence", lambda *_: tmp_path)
    monkeypatch.setattr(SshLink, "pin", lambda *_: None)
    with pytest.raises(SiteError, match=r"stopped: deskyard-lab\.dev1"):
        readiness.wait(PLAN, desktops=[PLAN.desktop("dev1")])
    assert (machines.queue.waits, list(machines.queue.coming)) == ([], [])


@pytest.mark.parametrize(
    ("named", "asleep", "asked"), [(None, (), DESKTOPS), (None, ("dev2",), ("dev1",)), (["dev2"], (), ("dev2",))]
)
def test_gateway_is_asked_about_those_alone_who_are_waited_for(
    monkeypatch: pytest.MonkeyPatch, named: Sequence[str] | None, asleep: tuple[str, ...], asked: tuple[str, ...]
) -> None:
    questions: list[tuple[str, ...]] = []

    def ask(_: WorkspacePlan, desktops: Sequence[DesktopPlan], wait: float) -> dict[str, Any]:
        assert wait == readiness.WAIT_SECONDS
        questions.append(tuple(desktop.name for desktop in desktops))
        return silent()

    monkeypatch.setattr(readiness, "ask", ask)
    monkeypatch.setattr(readiness, "machines_of", lambda _: Machines(*asleep))
    monkeypatch.setattr(SshLink, "pin", lambda *_: None)
    readiness.wait(PLAN, desktops=None if named is None else [PLAN.desktop(name) for name in named])
    assert questions == [asked]


ANSWER = {"gateway_ready": True, "desktops": {}}
WRONG = {"error": {"field": "settings", "value": "", "reason": "are not there yet", "remedy": "apply them"}}


@pytest.mark.parametrize(
    ("says", "programs", "status"),
    [
        ({"socat": (0, {"result": ANSWER})}, ["socat"], ANSWER),
        ({"socat": (1, None), "deskyard-gateway": (0, ANSWER)}, ["socat", "deskyard-gateway"], ANSWER),
        ({"socat": (0, WRONG)}, ["socat"], readiness.silent("are not there yet")),
        ({"socat": (0, [])}, ["socat"], readiness.silent("answers what is no answer of a gateway")),
        (
            {"socat": (1, None), "deskyard-gateway": (1, None)},
            ["socat", "deskyard-gateway"],
            readiness.silent("did not answer (1): "),
        ),
        ({}, ["socat"], readiness.silent("cannot be reached over SSH")),
    ],
    ids=["stays", "older", "settings", "nonsense", "broken", "unreached"],
)
def test_what_stays_in_the_gateway_is_asked_and_a_program_where_nothing_stays(
    monkeypatch: pytest.MonkeyPatch, says: dict[str, tuple[int, Any]], programs: list[str], status: dict[str, Any]
) -> None:
    asked: list[str] = []

    def run(_: SshLink, host: str, remote: Sequence[str], **options: Any) -> Result:
        assert (host, options["kept"]) == ("gateway", True)
        asked.append(remote[1])
        if not says:
            raise SiteError("machine", "lab/gateway", "cannot be reached over SSH", "see it")
        code, document = says[remote[1]]
        return Result(tuple(remote), code, "" if document is None else json.dumps(document), "", 0.1)

    monkeypatch.setattr(SshLink, "pinned", lambda *_: True)
    monkeypatch.setattr(SshLink, "run", run)
    assert readiness.ask(PLAN) == status
    assert asked == programs


def test_of_a_gateway_that_was_not_set_up_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SshLink, "pinned", lambda *_: False)
    assert readiness.ask(PLAN) == readiness.silent("it has not been set up yet")


STRANGE = {"error": {"field": "request", "value": "", "reason": "is no question for the status", "remedy": "another"}}


@pytest.mark.parametrize(
    ("desktops", "says", "asked", "status"),
    [
        (None, [{"result": ANSWER}], [None], ANSWER),
        ((), [{"result": ANSWER}], [[]], ANSWER),
        (("dev2", "dev1"), [{"result": ANSWER}], [["dev1", "dev2"]], ANSWER),
        (("dev1",), [STRANGE, {"result": ANSWER}], [["dev1"], None], ANSWER),
        (("dev1",), [STRANGE, STRANGE], [["dev1"], None], readiness.silent("is no question for the status")),
        (("dev1",), [WRONG], [["dev1"]], readiness.silent("are not there yet")),
    ],
    ids=["all", "none", "named", "from before", "stranger", "its error"],
)
def test_a_gateway_is_asked_about_named_desktops_and_from_before_about_all(
    monkeypatch: pytest.MonkeyPatch,
    desktops: Sequence[str] | None,
    says: Sequence[Any],
    asked: Sequence[Any],
    status: dict[str, Any],
) -> None:
    left, requests = list(says), list[Any]()

    def run(_: SshLink, host: str, remote: Sequence[str], **options: Any) -> Result:
        requests.append(json.loads(options["stdin"]))
        return Result(tuple(remote), 0, json.dumps(left.pop(0)), "", 0.1)

    monkeypatch.setattr(SshLink, "pinned", lambda *_: True)
    monkeypatch.setattr(SshLink, "run", run)
    named = None if desktops is None else [PLAN.desktop(name) for name in desktops]
    for wait in (0, 7):
        left, requests = list(says), []
        assert readiness.ask(PLAN, named, wait) == status
        waits = {"wait": wait} if wait else {}
        about = [{} if names is None else {"desktops": names, **waits} for names in asked]
        assert requests == [{"command": "status", **each} for each in about]
