"""What a look reads of a gateway's own lines: those after the last known, and all there are of another gateway."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from deskyard.control.jobs.child import JOBS
from deskyard.control.upkeep import look, moments
from deskyard.control.upkeep.moments import KEPT, MOST_LINES, MOST_ROWS, MOST_TEXT
from deskyard.control.upkeep.workspace import Workspace
from deskyard.errors import SiteError

NOW = datetime.now(UTC).replace(microsecond=0)
Line = dict[str, Any]


def line(seq: int, **more: Any) -> Line:
    time = (NOW - timedelta(hours=1) + timedelta(milliseconds=seq)).isoformat(timespec="milliseconds")
    known = {"seq": seq, "time": time, "event": "driver", "result": "drives", "desktop": "dev", "actor": "person:Ada"}
    return known | {"reason": "first"} | more


def refusal(**more: Any) -> Line:
    return {"time": NOW.isoformat(), "desktop": "dev", "target": "a.test:443", "rule": "list", "reason": "no"} | more


class Gateway:
    """A gateway's lines, and how they were asked for."""

    def __init__(self) -> None:
        self.lines: list[Any] = []
        self.refusals: list[Any] = []
        self.asked: list[tuple[int, int | None]] = []
        self.asked_for_refusals = 0
        self.silent = False

    def audit(self, name: str, *, since: int = 0, last: int | None = None) -> list[Any]:
        """As the gateway answers."""
        self.asked.append((since, last))
        found = [line for line in self.lines if line["seq"] > since]
        return found[-last:] if last is not None else found

    def denied(self, name: str, follow: bool) -> Iterator[Any]:
        """As the gateway answers, line by line; a silent one ends amid them."""
        self.asked_for_refusals += 1
        yield from self.refusals
        if self.silent:
            raise SiteError("gateway", name, "did not say what it refused", "see its status")


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Gateway:
    found = Gateway()
    monkeypatch.setattr("deskyard.access.access.audit", found.audit)
    monkeypatch.setattr("deskyard.access.egress.denied", found.denied)
    return found


def numbers(rows: moments.Rows) -> list[int]:
    return [int(row["key"].rpartition(" ")[2]) for row in rows]


def test_only_what_came_after_the_known_line_is_asked_for(gateway: Gateway) -> None:
    gateway.lines = [line(seq) for seq in range(1, 6)]
    first = moments.read(Workspace("lab"))
    assert numbers(first) == [1, 2, 3, 4, 5]
    gateway.lines += [line(6), line(7, event="keys"), line(8)]
    assert numbers(moments.read(Workspace("lab"), first[-1]["key"])) == [6, 8]
    assert gateway.asked == [(0, MOST_LINES), (4, MOST_LINES)]


@pytest.mark.parametrize("seen", [3, 9])
def test_gateway_that_was_made_anew_is_read_from_its_begin(gateway: Gateway, seen: int) -> None:
    old = [line(seq, actor="old") for seq in range(1, seen + 1)]
    (known,) = moments.of_door(old[-1:])
    later = timedelta(minutes=5)
    gateway.lines = [
        line(seq, time=(datetime.fromisoformat(line(seq)["time"]) + later).isoformat()) for seq in range(1, 6)
    ]
    assert numbers(moments.read(Workspace("lab"), known["key"])) == [1, 2, 3, 4, 5]


def test_of_more_lines_than_a_look_reads_the_newest_come(gateway: Gateway) -> None:
    gateway.lines = [line(seq) for seq in range(1, MOST_LINES + 10)]
    found = moments.read(Workspace("lab"), moments.of_door([line(2)])[0]["key"])
    assert numbers(found)[0] == 10 and len(found) == MOST_LINES
    assert len(gateway.asked) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"desktop": "Not.A.Name"}, {"desktop": None}, {"desktop": ["dev"]}, {"time": "yesterday"}, {"time": 7},
        {"time": None}, {"seq": "1"}, {"seq": True}, {"event": "keys"}, {"event": None}, {"result": ["drives"]},
    ],
)  # fmt: skip
def test_what_is_no_line_of_a_desktop_is_left_out(wrong: Line) -> None:
    assert moments.of_door([line(1) | wrong, line(2)]) == moments.of_door([line(2)])


@pytest.mark.parametrize("wrong", [{"desktop": "a.b"}, {"time": ""}, {"time": "9999-12-31T23:59:59-23:59"}])
def test_what_is_no_refusal_of_a_desktop_is_left_out(wrong: Line) -> None:
    assert moments.of_egress([refusal(**wrong), "x", None, refusal()]) == moments.of_egress([refusal()])


def test_refusals_of_an_hour_a_target_and_a_rule_are_a_single_moment() -> None:
    (found,) = moments.of_egress([refusal(), refusal(time=(NOW.replace(minute=0)).isoformat()), refusal()])
    assert (found["times"], found["at"]) == (3, NOW.isoformat())
    others = [refusal(target="b.test:443"), refusal(rule="port"), refusal(desktop="other")]
    assert len(moments.of_egress([refusal(), *others, refusal(time=(NOW - timedelta(hours=1)).isoformat())])) == 5


def test_what_steers_a_terminal_or_cannot_be_kept_is_marked_and_what_is_long_is_cut() -> None:
    (found,) = moments.of_door([line(1, actor="a\x1b[2J\x00\ud800", reason="x" * 1000)])
    assert found["actor"] == "a\ufffd[2J\ufffd\ufffd" and len(found["detail"]) == MOST_TEXT
    (found,) = moments.of_egress([refusal(target="\x00" * 5000)])
    assert "\x00" not in found["key"] and len(found["key"]) <= moments.MOST_KEY


def test_who_did_it_for_whom_is_said() -> None:
    (found,) = moments.of_door([line(1, event="revoke", result="revoked", by="root", reason="asked")])
    assert (found["what"], found["actor"], found["detail"]) == ("link revoked", "person:Ada", "by root, asked")


def test_what_is_to_come_or_older_than_it_is_kept_is_left_out_and_there_are_no_more_than_may_be() -> None:
    rows = [{"at": (NOW + delta).isoformat(), "key": delta} for delta in (-KEPT, timedelta(0), timedelta(hours=2))]
    assert moments.bounded(rows, NOW) == [rows[1]]
    many = [{"at": (NOW - timedelta(seconds=seconds)).isoformat()} for seconds in range(MOST_ROWS + 5)]
    found = moments.bounded(many, NOW)
    assert len(found) == MOST_ROWS and found[-1] == many[0]


@pytest.mark.parametrize("silent", [False, True])
def test_look_asks_once_for_what_was_refused(gateway: Gateway, monkeypatch: pytest.MonkeyPatch, silent: bool) -> None:
    gateway.refusals, gateway.silent = [refusal(allow="egress.allow lab a.test"), refusal(allow="")], silent
    monkeypatch.setattr(look, "PARTS", {name: look.PARTS[name] for name in ("refusals", "moments")})
    for looks in (1, 2):
        parts = look.look("lab", since={"moments": ""})
        assert gateway.asked_for_refusals == looks, "another look asks anew"
        if silent:
            assert {part["problem"]["reason"] for part in parts.values()} == {"did not say what it refused"}
            assert [part["rows"] for part in parts.values()] == [[], []]
        else:
            assert [part["problem"] for part in parts.values()] == [None, None]
            ((listed,), (moment,)) = (part["rows"] for part in parts.values())
            assert (listed["count"], moment["times"]) == (2, 2)


def test_look_reads_on_where_it_is_said_to(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway.lines = [line(1), line(2)]
    monkeypatch.setattr(look, "PARTS", {"moments": look.PARTS["moments"]})
    wanted = {"workspace": "lab", "desktop": None, "kind": "workspace.look", "actor": "watch", "attempt": 1}
    (known,) = moments.of_door([line(1)])
    found = JOBS["workspace.look"]({**wanted, "input": {"moments_since": known["key"]}}) or {}
    assert numbers(found["result"]["moments"]["rows"]) == [2]
