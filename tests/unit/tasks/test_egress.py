"""egress.*: what is asked of the gateway, and what a person reads."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from invoke import Context, Exit

from deskyard.access import egress as run
from deskyard.access import gateway_program
from deskyard.errors import SiteError
from deskyard.tasks import egress

STATE = {
    "workspace": "demo",
    "egress": "locked",
    "allowed": [
        {"entry": "a.example.org", "declared": True, "until": None, "once": False, "actor": None},
        {"entry": "b.example.org", "declared": False, "until": "2026-01-01T00:00:00Z", "once": True, "actor": "ada"},
        {"entry": "c.example.org", "declared": False, "until": None, "once": False, "actor": "ada"},
    ],
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What the gateway was asked; nothing is declared and nothing runs."""
    found: list[list[str]] = []

    def ask(_: Any, arguments: list[str], *_rest: Any, **_more: Any) -> Any:
        found.append(arguments)
        return dict(STATE)

    monkeypatch.setattr(gateway_program, "ask", ask)
    monkeypatch.setattr(gateway_program, "actor", lambda: "ada")
    monkeypatch.setattr(gateway_program, "require", lambda name: SimpleNamespace(workspace=name, site="local"))
    monkeypatch.setattr(run, "declare", lambda path, entry: True)
    return found


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ({}, ["--for", "3600"]),
        ({"for_": "2d"}, ["--for", "172800"]),
        ({"once": True}, ["--once"]),
        ({"once": True, "for_": "5m"}, ["--for", "300", "--once"]),
        ({"always": True}, []),
    ],
)
def test_allowing_is_bounded_unless_it_was_said(
    asked: list[list[str]], options: dict[str, Any], arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    egress.allow(Context(), "demo", "News.Example.ORG", **options)
    assert asked == [["allow", "news.example.org", *arguments, "--actor", "ada"]]
    printed = capsys.readouterr().out
    assert ("declaration was changed" in printed) == bool(options.get("always"))


def test_closing_goes_to_the_gateway_and_says_who_asked(
    asked: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    egress.close(Context(), "demo", "*.Models.Example.ORG")
    egress.reopen(Context(), "demo", "*.models.example.org")
    run.close("demo", ["a.example.org", "b.example.org"], "budget", "mission-control")
    assert asked == [
        ["close", "*.models.example.org", "--actor", "ada"],
        ["reopen", "*.models.example.org", "--actor", "ada"],
        ["close", "a.example.org", "b.example.org", "--reason=budget", "--actor", "mission-control"],
    ]


def test_list_says_what_is_closed_and_for_which_reason(
    asked: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    since = "2026-01-01T00:00:00Z"
    closed = [
        {"entry": "a.example.org", "reason": "budget", "actor": "mission-control", "since": since},
        {"entry": "*.b.example.org", "reason": "", "actor": "ada", "since": since},
    ]
    monkeypatch.setattr(gateway_program, "ask", lambda *_: STATE | {"closed": closed})
    egress.list_(Context(), "demo")
    assert [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()][-2:] == [
        f"a.example.org closed, budget (by mission-control, since {since})",
        f"*.b.example.org closed (by ada, since {since})",
    ]


def test_list_says_where_each_comes_from(asked: list[list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    egress.list_(Context(), "demo")
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "demo: locked; 3 allowed",
        "a.example.org declared",
        "b.example.org once, until 2026-01-01T00:00:00Z (by ada)",
        "c.example.org until it is forbidden (by ada)",
    ]


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [("*.com", {}, "top-level"), ("a.example.org", {"always": True, "once": True}, "cannot end and stay")],
)
def test_what_makes_no_sense_is_refused_before_the_gateway_is_asked(
    asked: list[list[str]], name: str, options: dict[str, Any], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Exit):
        egress.allow(Context(), "demo", name, json=True, **options)
    assert reason in json.loads(capsys.readouterr().out)["error"]["reason"]
    assert asked == []


TICKET = {
    **{"id": "0a1b2c", "desktop": "d1", "name": "api.stripe.com", "port": 443, "since": "2026-01-01T00:00:00Z"},
    **{"state": "waiting", "held": 2, "held_until": "2026-01-01T00:01:30Z", "answer": None},
}


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ({"once": True}, ["--once", "--actor", "ada"]),
        ({"for_": "15m"}, ["--for", "900", "--actor", "ada"]),
        ({"always": True, "reason": "billing"}, ["--always", "--actor", "ada", "--reason=billing"]),
        ({"refuse": True, "reason": "-no"}, ["--refuse", "--actor", "ada", "--reason=-no"]),
    ],
)
def test_an_answer_is_handed_to_the_gateway_with_who_gives_it(
    asked: list[list[str]], monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], arguments: list[str]
) -> None:
    def ask(_: Any, sent: list[str], *_rest: Any) -> dict[str, Any]:
        asked.append(sent)
        return TICKET

    monkeypatch.setattr(gateway_program, "ask", ask)
    egress.decide(Context(), "demo", "0a1b2c", **options)
    assert asked == [["decide", "0a1b2c", *arguments]]


@pytest.mark.parametrize("options", [{}, {"once": True, "always": True}, {"for_": "1h", "refuse": True}])
def test_no_answer_or_two_ask_nobody(asked: list[list[str]], options: dict[str, Any]) -> None:
    with pytest.raises(Exit):
        egress.decide(Context(), "demo", "0a1b2c", **options)
    assert asked == []


def test_a_ticket_says_who_wants_what_and_until_when_it_waits(capsys: pytest.CaptureFixture[str]) -> None:
    text = egress.ticket_text(TICKET)
    assert "d1  api.stripe.com:443  waiting; 2 held until 2026-01-01T00:01:30Z" in text
    answer = {"verdict": "for", "actor": "ada", "until": "2026-01-01T00:15:00Z"}
    answered = egress.ticket_text({**TICKET, "state": "allowed", "held": 0, "answer": answer})
    assert answered.endswith("allowed by ada until 2026-01-01T00:15:00Z")


def counted(*rows: tuple[str, str, str, int, int, int], mode: str = "locked") -> dict[str, Any]:
    """What a gateway answers: day, desktop, name, connections, sent, received."""
    keys = ("day", "desktop", "name", "connections", "sent", "received")
    traffic = [dict(zip(keys, row, strict=True)) for row in rows]
    return {"workspace": "demo", "egress": mode, "kept_days": 40, "traffic": traffic}


TRAFFIC = counted(
    ("2026-01-01", "d1", "small.example.org", 1, 10, 20),
    ("2026-01-01", "d1", "api.example.org", 2, 1000, 2_000_000),
    ("2026-01-02", "d1", "api.example.org", 1, 500, 1),
    ("2026-01-02", "d2", "api.example.org", 1, 500, 1),
)


def printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: dict[str, Any], **options: Any
) -> str:
    monkeypatch.setattr(gateway_program, "ask", lambda _, arguments, *_rest: answer)
    egress.traffic(Context(), "demo", **options)
    return capsys.readouterr().out


def test_traffic_is_a_table_of_sums_with_the_biggest_first_and_a_total(
    asked: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *table = printed(monkeypatch, capsys, TRAFFIC).splitlines()
    assert first.startswith("demo: bytes since 20")
    assert [line.split() for line in table] == [
        ["desktop", "name", "sent", "received", "connections"],
        ["d1", "api.example.org", "1,500", "2,000,001", "3"],
        ["d2", "api.example.org", "500", "1", "1"],
        ["d1", "small.example.org", "10", "20", "1"],
        ["total", "2,010", "2,000,022", "5"],
    ]
    assert len({len(line) for line in table}) == 1
    document = json.loads(printed(monkeypatch, capsys, TRAFFIC, json=True))
    big = {"desktop": "d1", "name": "api.example.org", "sent": 1500, "received": 2_000_001, "connections": 3}
    assert document["traffic"][0] == big


@pytest.mark.parametrize("mode", ["open", "none"])
def test_traffic_says_where_names_are_counted_if_not_here(
    asked: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], mode: str
) -> None:
    words = f"demo: egress is {mode}; names are counted only where it is locked"
    assert printed(monkeypatch, capsys, counted(mode=mode)) == f"{words}\n"
    # What was counted while it was locked is shown all the same.
    before = printed(monkeypatch, capsys, {**TRAFFIC, "egress": mode})
    assert words in before
    assert "api.example.org" in before
    assert printed(monkeypatch, capsys, counted()).startswith("demo: nothing passed since ")


def test_a_name_steers_no_terminal(
    asked: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = counted(("2026-01-01", "d1", "\x1b[2Jevil.example.org", 1, 1, 1))
    assert "?[2Jevil.example.org" in printed(monkeypatch, capsys, answer)


def test_traffic_is_asked_for_by_days_that_a_gateway_keeps(
    asked: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for days in (0, 41):
        with pytest.raises(Exit):
            egress.traffic(Context(), "demo", days=days)
    assert asked == []

    def ask(_: Any, arguments: list[str], *_rest: Any, **_more: Any) -> Any:
        asked.append(arguments)
        return counted()

    monkeypatch.setattr(gateway_program, "ask", ask)
    for days in (1, 40):
        before = datetime.now(UTC)
        egress.traffic(Context(), "demo", days=days)
        command, option, since = asked[-1]
        assert (command, option) == ("traffic", "--since")
        back = timedelta(days=days - 1)
        assert since in {(moment - back).date().isoformat() for moment in (before, datetime.now(UTC))}


@pytest.mark.parametrize(
    ("command", "run_task", "lacks"),
    [
        ("traffic", lambda: egress.traffic(Context(), "demo", json=True), "counted traffic"),
        ("close", lambda: egress.close(Context(), "demo", "a.example.org", json=True), "closed names"),
    ],
)
def test_a_gateway_from_before_is_named(
    asked: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    run_task: Callable[[], None],
    lacks: str,
) -> None:
    def ask(_: Any, arguments: list[str], *_rest: Any, **_more: Any) -> Any:
        said = f"deskyard-gateway: error: argument COMMAND: invalid choice: '{command}' (choose from 'apply')"
        raise SiteError("gateway", "demo", f"did not answer (2): {said}", "see ./inv workspace.status demo")

    monkeypatch.setattr(gateway_program, "ask", ask)
    with pytest.raises(Exit):
        run_task()
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["reason"] == f"is from before gateways {lacks}"
    assert "workspace.up demo" in error["remedy"]
