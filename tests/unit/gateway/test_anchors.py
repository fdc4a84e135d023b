"""Anchors of other chains in a gateway's audit: they only go forward, and what is malformed is not written."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from deskyard.errors import GatewayError
from deskyard.gateway import anchors
from deskyard.gateway.anchors import PERIOD_SECONDS, SOURCES, Anchors, held
from deskyard.gateway.session import admin, line
from deskyard.gateway.session.audit import Audit, events
from deskyard.gateway.session.audit_check import verify_both
from deskyard.wire import session_requests

FIRST, SECOND = "1" * 64, "2" * 64


class Gateway:
    """An audit with its anchors, and a clock that the test moves."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "audit.jsonl"
        self.audit = Audit(self.path)
        self.now = 0.0
        self.anchors = Anchors(self.audit, self.path, lambda: self.now)

    def add(self, number: object = 7, head: object = FIRST, source: object = "control", actor: object = "ann") -> Any:
        self.now += PERIOD_SECONDS
        return self.anchors.add(source, number, head, actor)

    def verdict(self) -> dict[str, Any]:
        return verify_both(self.path, self.path.with_name("actions.jsonl"))


@pytest.fixture
def gateway(tmp_path: Path) -> Gateway:
    return Gateway(tmp_path)


def test_anchor_is_a_line_of_the_audit_with_who_asked(gateway: Gateway) -> None:
    assert gateway.add() == {"source": "control", "number": 7, "head": FIRST, "written": True}
    [event] = held(gateway.path)
    assert {name: event[name] for name in ("event", "source", "number", "head", "by")} == {
        **{"event": "anchor", "source": "control", "number": 7, "head": FIRST, "by": "ann"}
    }
    assert gateway.verdict()["ok"]


def test_same_anchor_again_is_answered_and_not_written_again(gateway: Gateway) -> None:
    gateway.add()
    assert gateway.add()["written"] is False
    assert len(events(gateway.path)) == 1


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        *(("head", wrong) for wrong in ("", "1" * 63, "1" * 65, "A" * 64, "1" * 63 + "\n", "\u0661" * 64, 5, None)),
        *(("number", wrong) for wrong in (0, -1, 2**63, True, 1.0, "7", None)),
        *(("source", wrong) for wrong in ("", "a" * 64, "A", "-a", "a b", "a\n", None)),
        *(("actor", wrong) for wrong in ("", "a" * 65, "a b", "a\n", None)),
    ],
)
def test_malformed_anchor_is_refused_by_its_field_and_nothing_is_written(
    gateway: Gateway, field: str, wrong: object
) -> None:
    with pytest.raises(GatewayError) as caught:
        gateway.add(**{field: wrong})
    assert caught.value.field == field
    assert caught.value.remedy
    assert events(gateway.path) == []


@pytest.mark.parametrize(
    ("number", "head", "field"), [(6, SECOND, "number"), (6, FIRST, "number"), (7, SECOND, "head")]
)
@pytest.mark.parametrize("restarted", [False, True])
def test_anchor_that_goes_backwards_is_refused_and_the_refusal_written_down(
    gateway: Gateway, number: int, head: str, field: str, restarted: bool
) -> None:
    gateway.add()
    if restarted:
        gateway = Gateway(gateway.path.parent)
    with pytest.raises(GatewayError) as caught:
        gateway.add(number, head)
    assert (caught.value.field, "find out" in caught.value.remedy) == (field, True)
    last = events(gateway.path)[-1]
    assert (last["event"], last["route"], last["reason"], last["by"]) == ("refuse", "anchor", field, "ann")
    assert [event["number"] for event in held(gateway.path)] == [7]
    assert gateway.add(8, SECOND)["written"]


def test_each_source_goes_forward_by_itself(gateway: Gateway) -> None:
    gateway.add(7, FIRST, "east")
    gateway.add(2, SECOND, "west")
    assert [event["number"] for event in held(gateway.path, "west")] == [2]
    assert [event["number"] for event in held(gateway.path, last=1)] == [2]
    assert gateway.verdict()["ok"]


def test_anchors_and_refusals_of_a_source_are_a_line_each_in_a_period(gateway: Gateway) -> None:
    gateway.anchors.add("control", 1, FIRST, "ann")
    for number in range(2, 50):
        with pytest.raises(GatewayError, match="rate"):
            gateway.anchors.add("control", number, SECOND, "ann")
        with pytest.raises(GatewayError, match="head"):
            gateway.anchors.add("control", 1, SECOND, "ann")
    assert [event["event"] for event in events(gateway.path)] == ["anchor", "refuse"]
    gateway.now += PERIOD_SECONDS
    assert gateway.anchors.add("control", 50, SECOND, "ann")["written"]


def test_more_sources_than_a_gateway_knows_are_refused(gateway: Gateway) -> None:
    for number in range(SOURCES):
        gateway.add(source=f"s{number}")
    with pytest.raises(GatewayError, match="source"):
        gateway.add(source="other")
    assert gateway.add(8, SECOND, "s0")["written"]


def test_anchor_that_goes_backwards_in_the_audit_is_named(gateway: Gateway) -> None:
    for number, head in ((7, FIRST), (6, SECOND)):
        gateway.audit.note(anchors.EVENT, source="control", number=number, head=head, by="ann")
    verdict = gateway.verdict()
    assert (verdict["ok"], verdict["problems"][0]["line"]) == (False, 2)
    assert "anchors line 6 of control after line 7" in verdict["problems"][0]["problem"]


@pytest.mark.parametrize(
    "wrong", [{"number": "7"}, {"number": None}, {"source": ["control"]}, {"head": "x"}, {"by": 5}]
)
def test_line_that_only_looks_like_an_anchor_is_named_and_stops_nothing(
    gateway: Gateway, wrong: dict[str, object]
) -> None:
    facts = {"source": "control", "number": 7, "head": FIRST, "by": "ann", **wrong}
    gateway.audit.note(anchors.EVENT, **facts)
    assert [problem["problem"] for problem in gateway.verdict()["problems"]] == ["is no anchor"]
    assert gateway.add(8, SECOND)["written"]


def test_anchor_is_asked_for_on_the_private_line(gateway: Gateway, tmp_path: Path) -> None:
    async def ask() -> Any:
        server = await admin.serve(gateway, tmp_path / "admin.sock")  # type: ignore[arg-type]
        async with server:
            request = session_requests.anchor("control", 7, FIRST, "ann")
            return await asyncio.to_thread(line.ask, tmp_path / "admin.sock", request)

    assert asyncio.run(ask())["written"] is True
