"""Names that a spent budget closes: asked for once, kept closed, reopened, and no others than the budget says."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import psycopg
import pytest

from deskyard.control.store.connection import Link
from deskyard.control.usage.sight import Sight
from deskyard.control.watch import budgets
from deskyard.control.watch.__main__ import look_once
from deskyard.control.watch.rules import Eye
from tests.control.lab import Lab
from tests.control.watching import ask_for_closing, look, opened

KIND, MODEL, OTHER = "egress.close", "api.example.org", "*.models.example.org"
BUDGET = 1000


@pytest.fixture(autouse=True)
def spent(mission: Lab) -> Iterator[None]:
    """A locked workspace that has cost 1,000 millionths this month, and nobody who does what is asked for."""
    mission.end("worker")
    mission.declare("lab", "first")
    mission.link.execute("update workspace set egress = 'locked'")
    first = datetime.now(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    mission.link.execute("insert into tier_price values ('free', 3600, %s, 'x')", [first - timedelta(days=1)])
    mission.link.execute("truncate usage_interval")
    query = """insert into usage_interval (desktop_id, workspace_id, tier, began_at, ended_at)
        values ('lab.gone', 'lab', 'free', %s, %s)"""
    mission.link.execute(query, [first, first + timedelta(seconds=BUDGET)])
    # The desktop itself costs nothing: what is spent stays what it is.
    mission.link.execute("update desktop set tier = 'gratis'")
    yield


def put(owner: httpx.Client, micros: int | None, **values: Any) -> httpx.Response:
    return owner.put("/api/budgets/lab", json={"microsPerMonth": micros, **values})


def shown(owner: httpx.Client) -> dict[str, Any]:
    (found,) = owner.get("/api/budgets").json()["items"]
    return dict(found)


def asked(mission: Lab) -> list[list[str]]:
    """The names of what waits."""
    query = "select input from operation where kind = %s and state = 'queued' order by created_at"
    return [row["input"]["names"] for row in mission.link.execute(query, [KIND]).fetchall()]


def work(mission: Lab) -> None:
    """Have a worker do what waits."""
    mission.worker()
    mission.until("select 1 where not exists (select from operation where state in ('queued', 'running'))", [])
    mission.end("worker")


def test_names_are_closed_while_the_budget_is_spent_and_reopened_when_it_is_raised(
    mission: Lab, owner: httpx.Client, worker: Link
) -> None:
    assert put(owner, BUDGET + 1, closes=[MODEL.upper(), OTHER]).json()["items"][0]["closes"] == [OTHER, MODEL]
    assert ask_for_closing(worker) == [], "it is not spent"
    assert put(owner, BUDGET).status_code == 200
    assert ask_for_closing(worker) == ["lab"]
    assert asked(mission) == [[OTHER, MODEL]]
    assert ask_for_closing(worker) == [], "it waits still"
    assert shown(owner)["closed"] == []
    work(mission)
    assert shown(owner)["closed"] == [OTHER, MODEL]
    assert ask_for_closing(worker) == []
    # The audit keeps what other tests did, which close other names.
    query = "select * from audit_entry where action = %s and detail -> 'names' = %s::jsonb"
    line = mission.until(query, [KIND, json.dumps([OTHER, MODEL])])
    assert (line["actor"], line["target"]) == ("watch", "lab")
    put(owner, BUDGET * 2)
    assert shown(owner)["closes"] == [OTHER, MODEL], "they were not named, so they stay"
    assert ask_for_closing(worker) == ["lab"]
    assert asked(mission) == [[]]
    work(mission)
    assert (shown(owner)["closed"], ask_for_closing(worker)) == ([], [])


def test_names_are_reopened_when_there_is_no_budget_any_more(mission: Lab, owner: httpx.Client, worker: Link) -> None:
    put(owner, BUDGET, closes=[MODEL])
    ask_for_closing(worker)
    work(mission)
    put(owner, None)
    assert (ask_for_closing(worker), asked(mission)) == (["lab"], [[]])


def test_a_budget_that_names_nothing_closes_nothing(owner: httpx.Client, worker: Link) -> None:
    put(owner, BUDGET)
    assert ask_for_closing(worker) == []
    look(worker)
    assert "budget.spent lab" in opened(owner)


def test_alert_of_a_spent_budget_names_what_it_closes(owner: httpx.Client, worker: Link) -> None:
    put(owner, BUDGET, closes=[MODEL])
    look(worker)
    assert MODEL in opened(owner)["budget.spent lab"]["text"]


def test_a_gateway_is_told_again_by_the_hour_since_it_may_be_another(
    mission: Lab, owner: httpx.Client, worker: Link
) -> None:
    put(owner, BUDGET, closes=[MODEL])
    ask_for_closing(worker)
    work(mission)
    mission.link.execute("update closing set told_at = now() - interval '59 minutes'")
    assert ask_for_closing(worker) == []
    mission.link.execute("update closing set told_at = now() - interval '61 minutes'")
    assert ask_for_closing(worker) == ["lab"]
    query = "select count(*) as count from operation where kind = %s"
    assert mission.link.execute(query, [KIND]).fetchall() == [{"count": 1}], "those that are over are not kept"


def test_what_failed_is_asked_for_again_after_a_while(mission: Lab, owner: httpx.Client, worker: Link) -> None:
    put(owner, BUDGET, closes=[MODEL])
    ask_for_closing(worker)
    mission.link.execute("update operation set state = 'failed', ended_at = now() where kind = %s", [KIND])
    assert ask_for_closing(worker) == []
    mission.link.execute("update operation set ended_at = now() - interval '6 minutes' where kind = %s", [KIND])
    assert ask_for_closing(worker) == ["lab"]


@pytest.mark.parametrize(
    "change",
    [
        "update desktop set state = 'stopped'",
        "update workspace set silent_since = now(), silence = 'does not answer'",
        "update workspace set problem = '{}'",
        "update workspace set gone_at = now()",
        "update workspace set egress = 'open'",
    ],
    ids=["nothing is in use", "its gateway is silent", "its declaration is broken", "it is gone", "it knows no names"],
)
def test_no_gateway_is_told_in_vain(mission: Lab, owner: httpx.Client, worker: Link, change: str) -> None:
    put(owner, BUDGET, closes=[MODEL])
    mission.link.execute(change.encode())
    assert ask_for_closing(worker) == []


@pytest.mark.parametrize("names", [["evil.example.org"], [MODEL, "evil.example.org"]])
def test_who_watches_closes_no_other_names_than_the_budget(
    mission: Lab, owner: httpx.Client, worker: Link, names: list[str]
) -> None:
    put(owner, BUDGET, closes=[MODEL])
    with pytest.raises(psycopg.errors.CheckViolation, match="closes no such names"):
        worker.execute("select ask_for_closing('op_x', 'lab', %s::text[])", [names])
    assert asked(mission) == []


@pytest.mark.parametrize(
    ("name", "reason"),
    [("api.example.org:443", "has a port"), ("10.0.0.1", "is an address"), ("*.org", "top-level"), ("x", "DNS name")],
)
def test_names_that_no_gateway_can_close_are_refused_with_their_place(
    owner: httpx.Client, name: str, reason: str
) -> None:
    answer = put(owner, BUDGET, closes=[MODEL, name])
    problem = answer.json()
    assert (answer.status_code, problem["field"], problem["value"]) == (422, "closes[1]", name)
    assert reason in problem["reason"] and problem["remedy"]
    assert owner.get("/api/budgets").json()["items"] == []


def test_names_of_other_alphabets_are_kept_as_gateways_know_them(owner: httpx.Client) -> None:
    # The tables for it are read by the first such name, and by then the web process opens no file.
    put(owner, BUDGET, closes=["*.bücher.example.org"])
    assert shown(owner)["closes"] == ["*.xn--bcher-kva.example.org"]


def test_a_workspace_whose_gateway_knows_no_names_closes_none(mission: Lab, owner: httpx.Client) -> None:
    mission.link.execute("update workspace set egress = 'open'")
    answer = put(owner, BUDGET, closes=[MODEL])
    assert (answer.status_code, answer.json()["field"]) == (422, "closes")
    assert "egress of lab is open" in answer.json()["reason"] and "locked" in answer.json()["remedy"]
    assert put(owner, BUDGET, closes=[]).status_code == 200


def test_what_is_spent_is_worked_out_once_in_a_look_and_only_where_there_is_a_budget(
    mission: Lab, owner: httpx.Client, worker: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    worked_out = []
    work_out = budgets.spent_this_month

    def counted(link: Link) -> budgets.Spent:
        worked_out.append(link)
        return work_out(link)

    monkeypatch.setattr(budgets, "spent_this_month", counted)
    eye = Eye(None, lambda _: datetime.now(UTC))
    look_once(worker, eye, Sight())
    assert worked_out == []
    put(owner, BUDGET, closes=[MODEL])
    look_once(worker, eye, Sight())
    assert len(worked_out) == 1
    assert "budget.spent lab" in opened(owner) and asked(mission) == [[MODEL]], "both have read it"
    put(owner, BUDGET + 1)
    look_once(worker, eye, Sight())
    assert len(worked_out) == 2 and "budget.spent lab" not in opened(owner), "another look works it out anew"


def test_budget_that_somebody_changed_meanwhile_stays_as_they_made_it(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first")
    path = "/api/budgets/lab"
    none_yet = {"If-None-Match": "*"}
    (made,) = owner.put(path, json={"microsPerMonth": 1}, headers=none_yet).json()["items"]
    assert owner.put(path, json={"microsPerMonth": 2}, headers=none_yet).status_code == 412
    as_read = {"If-Match": f'"{made["changedAt"]}"'}
    assert owner.put(path, json={"microsPerMonth": 3}, headers=as_read).status_code == 200
    assert owner.put(path, json={"microsPerMonth": None}, headers=as_read).status_code == 412
    (now,) = owner.get("/api/budgets").json()["items"]
    assert now["microsPerMonth"] == 3
