"""The audit's lines in the gateways, and the gateways' in it: who rewrites one chain is found by the other.

Only SSH is left out: the gateways are the program that runs in them, each with an audit in a folder of its own.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx
import pytest
from psycopg.types.json import Jsonb

from deskyard.access.gateway_program import Rubbish
from deskyard.control.anchors import visits
from deskyard.control.anchors.gateways import ACTOR, Gateways, Line, plain
from deskyard.control.anchors.proof import prove
from deskyard.control.anchors.source import source
from deskyard.control.anchors.visit import HEAD, known, last
from deskyard.control.anchors.visits import Visits
from deskyard.control.recorder import chain
from deskyard.control.store.cluster import LINK, WORKER
from deskyard.control.store.connection import Link, connect
from deskyard.errors import ConfigError, GatewayError, SiteError
from deskyard.gateway import anchors as held_there
from deskyard.gateway.session.audit import Audit, events
from deskyard.gateway.session.audit_check import verify_both
from deskyard.host.deadline import Deadline
from tests.control.lab import WAIT_SECONDS, Lab
from tests.control.watching import look

SOURCE = "mission.0123456789abcdef"
RUBBISH: list[Any] = [
    None,
    "ok",
    [],
    {"ok": True},
    {"ok": True, "last": -1, "hash": "0" * 64},
    {"ok": True, "last": 3, "hash": "x"},
    {"ok": 1, "last": 3, "hash": "0" * 64},
    {"ok": False, "problems": []},
    {"ok": False, "problems": [{"problem": 5}]},
]
AT = "2026-01-01T00:00:00.000+00:00"
HELD_RUBBISH: list[Any] = [
    None,
    {"number": 1},
    [1],
    [{"number": "1", "head": "0" * 64, "time": AT}],
    [{"number": True, "head": "0" * 64, "time": AT}],
    [{"number": 1, "head": "0" * 63, "time": AT}],
    [{"number": 1, "head": "0" * 64, "time": "\x1b[2J" + AT}],
    [{"number": 2, "head": "0" * 64, "time": AT}, {"number": 1, "head": "0" * 64, "time": AT}],
]


class Double(Gateways):
    """Gateways of this process: their own program, on audits in a folder."""

    def __init__(self, folder: Path, *names: str) -> None:
        self._folder, self._names = folder, list(names)
        self._services: dict[str, tuple[Audit, held_there.Anchors]] = {}
        self.now = 0.0
        self.away: set[str] = set()
        self.answers: dict[tuple[str, str], Any] = {}  # what one says in place of the truth

    def path(self, name: str) -> Path:
        return self._folder / name / "audit.jsonl"

    def service(self, name: str) -> tuple[Audit, held_there.Anchors]:
        if name not in self._services:
            audit = Audit(self.path(name))
            self._services[name] = audit, held_there.Anchors(audit, self.path(name), lambda: self.now)
        return self._services[name]

    def make_anew(self, name: str) -> None:
        """What a gateway is after it was replaced."""
        del self._services[name]
        for file in self.path(name).parent.iterdir():
            file.unlink()

    def numbers(self, name: str) -> list[int]:
        return [event["number"] for event in held_there.held(self.path(name), SOURCE)]

    def names(self) -> list[str]:
        return self._names

    def ask_audit(self, name: str, noted: str | None) -> Any:
        self._answers(name)
        number, _, digest = (noted or "").partition(":")
        said = verify_both(
            self.path(name), self.path(name).with_name("actions.jsonl"), {int(number): digest} if noted else None
        )
        return self.answers.get((name, "audit"), json.loads(json.dumps(said)))

    def ask_held(self, name: str, source: str, last: int | None) -> Any:
        self._answers(name)
        said = held_there.held(self.path(name), source, last)
        return self.answers.get((name, "held"), json.loads(json.dumps(said)))

    def anchor(self, name: str, source: str, line: Line) -> None:
        self._answers(name)
        try:
            self.service(name)[1].add(source, line.number, line.hash, ACTOR)
        except GatewayError as error:
            raise ConfigError(error.field, error.value, error.reason, error.remedy) from error

    def _answers(self, name: str) -> None:
        if name in self.away:
            raise SiteError("workspace", name, "is not up", f"run ./inv workspace.up {name}")
        self.service(name)


@pytest.fixture
def gateways(tmp_path: Path) -> Double:
    double = Double(tmp_path, "lab", "study")
    for name in double.names():
        double.service(name)[0].note("grant", session="s1", actor="ada", result="granted")
    return double


@pytest.fixture
def link(mission: Lab) -> Iterator[Link]:
    """What the process that asks gateways has; the chain is empty before and afterwards."""
    settle(mission)
    mission.link.execute("truncate audit_entry, anchor")
    with connect(mission.url_as(LINK)) as found:
        yield found
    settle(mission)
    mission.link.execute("truncate audit_entry, anchor")


@pytest.fixture
def visit(mission: Lab, link: Link, gateways: Double) -> Callable[[], None]:
    """Visits all gateways once, later than the last time, and waits until the recorder has written what came of it."""
    process = Visits(mission.url_as(LINK), SOURCE, gateways)

    def once() -> None:
        gateways.now += held_there.PERIOD_SECONDS
        with mission.link.transaction():
            # Until all were visited nothing is appended: which line is the last is the same for each gateway.
            mission.link.execute("select pg_advisory_xact_lock(4711)")
            process.visit_all(link)
        settle(mission)

    return once


def settle(mission: Lab) -> None:
    def is_written() -> bool:
        return mission.link.execute("select 1 from audit_intake limit 1").fetchone() is None

    assert Deadline(WAIT_SECONDS).wait_for(is_written, 0.02), mission.log("recorder")


def note(mission: Lab, *targets: str, action: str = "test", hours: int = 0) -> None:
    for target in targets:
        query = """insert into audit_intake (at, actor, action, target)
            values (now() - make_interval(hours => %s), 'x', %s, %s)"""
        mission.link.execute(query, [hours, action, target])
    settle(mission)


def rewrite(link: Link, number: int) -> None:
    """What who owns the database can do: change a line, and make all hashes anew."""
    rows = link.execute("select * from audit_entry order by number").fetchall()
    before = chain.START
    for row in rows:
        if row["number"] == number:
            row["actor"] = "somebody else"
        before = chain.line_hash(before, row)
        query = "update audit_entry set actor = %s, hash = %s where number = %s"
        link.execute(query, [row["actor"], before, row["number"]])


def state(proof: dict[str, Any], name: str) -> dict[str, Any]:
    [found] = [gateway for gateway in proof["gateways"] if gateway["workspace"] == name]
    return dict(found)


def problem(mission: Lab, name: str) -> str | None:
    row = mission.link.execute("select problem from anchor where workspace_id = %s", [name]).fetchone()
    assert row is not None
    return str(row["problem"]) if row["problem"] is not None else None


def test_each_chain_holds_the_last_line_of_the_other(
    mission: Lab, link: Link, gateways: Double, visit: Callable[[], None]
) -> None:
    note(mission, "a", "b")
    visit()
    for name in gateways.names():
        assert gateways.numbers(name) == [2]
        taken = known(link, name)
        assert taken is not None
        assert events(gateways.path(name))[taken.number - 1]["hash"] == taken.hash
        assert verify_both(gateways.path(name), gateways.path(name).with_name("actions.jsonl"))["ok"]
        assert problem(mission, name) is None


def test_clean_chain_passes_and_says_up_to_where_it_is_proved(
    mission: Lab, link: Link, gateways: Double, visit: Callable[[], None]
) -> None:
    assert prove(link, SOURCE, gateways)["unproved"] is None
    note(mission, "a", "b")
    found = prove(link, SOURCE, gateways)
    assert (found["ok"], found["proved"], found["unproved"]["line"]) == (True, 0, 1)
    assert state(found, "lab")["state"] == "empty"
    visit()
    found = prove(link, SOURCE, gateways)
    # What the gateways wrote is in the chain, and comes into theirs with the next line of it.
    assert (found["ok"], found["entries"], found["proved"], found["unproved"]["lines"]) == (True, 4, 2, 2)
    row = mission.link.execute("select at from audit_entry where number = 3").fetchone()
    assert row is not None
    assert (found["unproved"]["line"], found["unproved"]["at"]) == (3, row["at"].isoformat())
    assert [gateway["state"] for gateway in found["gateways"]] == ["matches", "matches"]


def test_chain_rewritten_whole_passes_its_own_check_and_is_found_by_the_gateways(
    mission: Lab, owner: httpx.Client, link: Link, gateways: Double, visit: Callable[[], None]
) -> None:
    note(mission, "a")
    visit()
    note(mission, "b", "c")
    before = last(link)
    visit()
    assert before is not None
    rewrite(mission.link, before.number)
    after = link.execute("select hash from audit_entry where number = %s", [before.number]).fetchone()
    assert after is not None
    assert owner.get("/api/audit/verify").json()["ok"]
    found = prove(link, SOURCE, gateways)
    assert (found["ok"], found["problem"], found["proved"], found["unproved"]["line"]) == (False, None, 1, 2)
    lab = state(found, "lab")
    [difference] = lab["differences"]
    assert (lab["state"], difference["line"]) == ("differs", before.number)
    assert (difference["anchored"], difference["chain"]) == (before.hash, after["hash"].hex())
    assert f"of lines 2 to {before.number} one was changed after 2" in difference["means"]


def test_rewritten_chain_is_anchored_no_more_and_opens_an_alert(
    mission: Lab, owner: httpx.Client, link: Link, gateways: Double, visit: Callable[[], None]
) -> None:
    note(mission, "a", "b")
    visit()
    rewrite(mission.link, 1)
    note(mission, "c")
    visit()
    assert gateways.numbers("lab") == [2]
    assert "line 2 of the audit is not the one that this gateway holds" in str(problem(mission, "lab"))
    with connect(mission.url(WORKER)) as watching:
        look(watching)
    found = {alert["object"] for alert in owner.get("/api/alerts?open=true").json()["items"]}
    assert {"gateway lab", "gateway study"} <= found


def test_end_that_was_cut_off_is_found(mission: Lab, link: Link, gateways: Double, visit: Callable[[], None]) -> None:
    note(mission, "a", "b", "c")
    visit()
    mission.link.execute("delete from audit_entry where number >= 2")
    found = prove(link, SOURCE, gateways)
    [difference] = state(found, "study")["differences"]
    assert (found["ok"], difference["line"], difference["chain"]) == (False, 3, None)
    assert "its end was cut off since" in difference["means"]


def test_chain_that_is_broken_is_not_anchored(
    mission: Lab, link: Link, gateways: Double, visit: Callable[[], None]
) -> None:
    note(mission, "a")
    visit()
    note(mission, "b", "c")
    mission.link.execute("update audit_entry set actor = 'y' where target = 'b'")
    visit()
    assert gateways.numbers("lab") == [1]
    assert "was changed" in str(problem(mission, "lab"))


@pytest.mark.parametrize(
    ("about", "answer"), [*(("audit", answer) for answer in RUBBISH), *(("held", answer) for answer in HELD_RUBBISH)]
)
def test_gateway_that_answers_rubbish_is_named_and_keeps_no_other_from_its_anchor(
    mission: Lab, link: Link, gateways: Double, visit: Callable[[], None], about: str, answer: Any
) -> None:
    gateways.answers["lab", about] = answer
    note(mission, "a")
    visit()
    assert str(problem(mission, "lab"))
    assert (gateways.numbers("study"), problem(mission, "study")) == ([1], None)
    found = prove(link, SOURCE, gateways)
    lab = state(found, "lab")
    assert (found["ok"], found["proved"], lab["state"], lab["anchors"]) == (False, 1, "wrong", 0)
    assert lab["reason"] == plain(lab["reason"])


def test_gateway_that_is_away_is_not_asked_and_keeps_no_other_from_its_anchor(
    mission: Lab, link: Link, gateways: Double, visit: Callable[[], None]
) -> None:
    gateways.away.add("lab")
    note(mission, "a")
    visit()
    assert gateways.numbers("study") == [1]
    found = prove(link, SOURCE, gateways)
    lab = state(found, "lab")
    assert (found["ok"], found["proved"], lab["state"]) == (True, 1, "not asked")
    assert "is not up" in lab["reason"]
    gateways.away.clear()
    visit()
    assert state(prove(link, SOURCE, gateways), "lab")["state"] == "matches"


def test_gateway_whose_own_audit_was_changed_proves_nothing(
    mission: Lab, link: Link, gateways: Double, visit: Callable[[], None]
) -> None:
    note(mission, "a")
    visit()
    path = gateways.path("lab")
    path.write_bytes(path.read_bytes().replace(b"ada", b"eve"))
    visit()
    assert "its own audit is not whole" in str(problem(mission, "lab"))
    gateways.away.add("study")
    found = prove(link, SOURCE, gateways)
    assert (found["ok"], found["proved"], state(found, "lab")["state"]) == (False, 0, "wrong")


def test_chains_that_rest_write_nothing_into_each_other(
    mission: Lab, link: Link, gateways: Double, visit: Callable[[], None]
) -> None:
    note(mission, "a")
    for _ in range(3):
        visit()
    lengths = [len(events(gateways.path(name))) for name in gateways.names()], last(link)
    for _ in range(3):
        visit()
    assert ([len(events(gateways.path(name))) for name in gateways.names()], last(link)) == lengths
    assert gateways.numbers("lab") == [1]


def test_lines_of_gateways_alone_are_anchored_after_a_day(
    mission: Lab, link: Link, gateways: Double, visit: Callable[[], None]
) -> None:
    note(mission, "a")
    visit()
    with mission.link.transaction():
        mission.link.execute(f"set local role {LINK}".encode())
        query = "insert into audit_intake (actor, action, target, detail) values (%s, %s, %s, %s)"
        mission.link.execute(query, [ACTOR, HEAD, "other", Jsonb({"number": 1, "hash": "0" * 64})])
        mission.link.execute("reset role")
        mission.link.execute("update audit_intake set at = now() - interval '25 hours' where target = 'other'")
    settle(mission)
    head = last(link)
    visit()
    assert head is not None
    assert gateways.numbers("lab") == [1, head.number]


def test_gateway_that_takes_no_anchor_yet_is_no_problem(
    mission: Lab, link: Link, gateways: Double, visit: Callable[[], None]
) -> None:
    note(mission, "a")
    visit()
    note(mission, "b")
    gateways.now -= held_there.PERIOD_SECONDS
    visit()
    assert (gateways.numbers("lab"), problem(mission, "lab")) == ([1], None)
    visit()
    assert len(gateways.numbers("lab")) == 2


def test_gateway_that_was_made_anew_is_a_line_of_the_audit_and_takes_anchors_again(
    mission: Lab, link: Link, gateways: Double, visit: Callable[[], None]
) -> None:
    note(mission, "a")
    visit()
    before = known(link, "lab")
    gateways.make_anew("lab")
    gateways.service("lab")[0].note("grant", session="s2", actor="ada", result="granted")
    note(mission, "b")
    visit()
    assert before is not None
    query = "select detail from audit_entry where action = %s and detail ? 'anew'"
    [row] = link.execute(query, [HEAD]).fetchall()
    assert row["detail"]["anew"] == {"number": before.number, "hash": before.hash}
    found = prove(link, SOURCE, gateways)
    assert (found["ok"], len(state(found, "lab")["anew"]), state(found, "study")["anew"]) == (True, 1, [])
    assert len(gateways.numbers("lab")) == 1


def test_workspace_that_is_gone_is_forgotten(
    mission: Lab, link: Link, gateways: Double, visit: Callable[[], None]
) -> None:
    note(mission, "a")
    visit()
    gateways.names().remove("study")
    visit()
    rows = mission.link.execute("select workspace_id from anchor").fetchall()
    assert [row["workspace_id"] for row in rows] == ["lab"]


def test_visits_go_on_once_it_is_known_again_which_gateways_there_are(
    mission: Lab, link: Link, gateways: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    note(mission, "a")
    monkeypatch.setattr(visits, "AGAIN_SECONDS", 0.05)
    answers: Iterator[Any] = iter([SiteError("link", None, "is shown no way", "see ./inv control.status")])
    names, known_names = Event(), gateways.names()

    def ask() -> list[str]:
        for error in answers:
            raise error
        names.set()
        return known_names

    monkeypatch.setattr(gateways, "names", ask)
    process = Visits(mission.url_as(LINK), SOURCE, gateways)
    thread = Thread(target=process.run, daemon=True)
    thread.start()
    assert names.wait(WAIT_SECONDS)
    mission.until("select 1 from anchor where workspace_id = 'study'", [])
    process.stop()
    thread.join(WAIT_SECONDS)
    assert not thread.is_alive()


def test_name_of_the_chain_stays_and_is_for_root_alone(mission: Lab) -> None:
    name = source(mission.folder)
    assert (source(mission.folder), mission.folder.source.stat().st_mode & 0o777) == (name, 0o600)
    assert held_there.SOURCE.fullmatch(name)


def test_real_gateway_is_asked_over_its_program_and_its_rubbish_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def anchors(*arguments: Any) -> int:
        asked.append(arguments)
        return 5

    monkeypatch.setattr("deskyard.access.anchors.anchors", anchors)
    with pytest.raises(Rubbish, match="answers rubbish of what it holds"):
        Gateways().held("lab", SOURCE, 1)
    assert asked == [("lab", SOURCE, 1)]
