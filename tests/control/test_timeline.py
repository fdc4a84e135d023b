"""What happened to a desktop: from operations, messages, tools, approvals, alerts, and what its gateway wrote down."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from psycopg.types.json import Jsonb

from deskyard.control.approvals import follow
from deskyard.control.store.connection import Link
from deskyard.control.upkeep.moments import DECISIONS, KEPT, of_door, of_egress
from deskyard.control.usage.sight import close_unseen
from tests.control.lab import EVERYTHING, Lab
from tests.control.test_approvals import TICKET

NOW = datetime.now(UTC).replace(microsecond=0)
SILENT = {"field": "gateway", "value": "lab", "reason": "does not answer", "remedy": "x"}
Row = dict[str, Any]


def drives(seq: int, ago: timedelta = timedelta(0), **more: Any) -> Row:
    """A line of a door's audit, in the gateway's own words."""
    line = {"seq": seq, "time": (NOW - ago).isoformat(timespec="milliseconds"), "event": "driver", "result": "drives"}
    return (
        line | {"desktop": "first", "actor": "person:Ada", "mode": "drive", "reason": "took over", "prev": "x"} | more
    )


def refused(target: str, at: datetime, desktop: str = "first") -> Row:
    """A line of what a gateway refused, in its own words."""
    line = {"time": at.isoformat(), "desktop": desktop, "address": "10.80.1.10", "target": target, "rule": "list"}
    return line | {"reason": "is not in the list", "allow": f"./inv egress.allow lab {target}"}


def looked(mission: Lab, client: httpx.Client, *rows: Row, problem: Any = None) -> Row:
    """A look that finds these moments; the operation at its end."""
    (mission.path / "look").write_text(json.dumps({"moments": {"rows": rows, "problem": problem}}))
    return mission.state(client.post("/api/workspaces/lab/look").json()["id"], "done", "failed")


def shown(client: httpx.Client, desktop: str = "lab.first", **options: Any) -> list[Row]:
    answer = client.get(f"/api/desktops/{desktop}/timeline", params=options)
    assert answer.status_code == httpx.codes.OK, answer.text
    return list(answer.json()["items"])


def fill(mission: Lab) -> None:
    """One moment of each kind, a minute apart, in the order of `KINDS`' reverse."""
    mission.declare("lab", "first", "second")
    # As if nobody had looked whether they run.
    mission.link.execute("delete from usage_interval")
    when = [(NOW - timedelta(minutes=minutes)).isoformat() for minutes in range(9)]
    card: Row = {"id": "t1", "name": "browser", "state": "running", "started_at": when[3], "ended_at": None}
    card |= {"arguments": "open example.org", "arguments_cut": False, "output": "", "output_cut": False}
    link = mission.link
    link.execute("insert into conversation (id, desktop_id, title) values ('cv_1', 'lab.first', 'x')")
    query = """insert into message (id, conversation_id, role, author, text, state, at, tools)
        values ('ms_1', 'cv_1', 'person', 'person:Ada', %s, 'done', %s, %s)"""
    link.execute(query, ["look at it " * 100, when[4], Jsonb([card])])
    query = """insert into operation (id, kind, workspace_id, desktop_id, actor, state, created_at, problem)
        values (%s, %s, 'lab', 'lab.first', 'person:Ada', 'failed', %s, '{"reason": "no room"}')"""
    link.execute(query, ["op_1", "desktop.start", when[5]])
    link.execute(query, ["op_2", "desktop.chat", when[5]])
    query = """insert into alert (id, rule, object, workspace_id, text, number, opened_at)
        values (%s, 'operation.failed', %s, 'lab', 'no room', 1, %s)"""
    link.execute(query, ["al_1", "desktop.start lab.first", when[1]])
    link.execute(query, ["al_2", "desktop.start lab.second", when[1]])
    follow.write(link, "lab", {**TICKET, "desktop": "first"})
    link.execute("update approval set since = %s", [when[2]])


def test_all_that_happened_is_on_one_line_of_time_the_newest_first(mission: Lab, owner: httpx.Client) -> None:
    fill(mission)
    door = of_door([drives(7, timedelta(minutes=7))])
    looked(mission, owner, *door, *of_egress([refused("pypi.org:443", NOW - timedelta(minutes=6))] * 3))
    found = shown(owner)
    assert [moment["kind"] for moment in found] == [
        "alert", "approval", "tool", "message", "operation", "refusal", "session",
    ]  # fmt: skip
    by_kind = {moment["kind"]: moment for moment in found}
    assert by_kind["alert"]["subject"] == "al_1" and by_kind["alert"]["state"] == "open"
    assert by_kind["approval"]["what"] == f"{TICKET['name']}:{TICKET['port']}"
    assert by_kind["tool"]["state"] == "interrupted" and by_kind["tool"]["detail"] == "open example.org"
    assert by_kind["message"]["subject"] == "cv_1" and len(by_kind["message"]["detail"]) == 300
    assert (by_kind["operation"]["what"], by_kind["operation"]["detail"]) == ("desktop.start", "no room")
    assert (by_kind["refusal"]["detail"], by_kind["refusal"]["times"]) == ("pypi.org:443: is not in the list", 3)
    session = by_kind["session"]
    assert (session["what"], session["actor"], session["detail"]) == ("drives", "person:Ada", "took over")
    assert [moment["subject"] for moment in shown(owner, "lab.second")] == ["al_2"]


def test_when_its_machine_ran_is_on_it(mission: Lab, owner: httpx.Client, worker: Link) -> None:
    mission.declare("lab", "first")
    mission.link.execute("delete from usage_interval")
    began, ended = NOW - timedelta(hours=3), NOW - timedelta(hours=2)
    query = """insert into usage_interval (desktop_id, workspace_id, tier, began_at, ended_at)
        values (%s, 'lab', 'pro', %s, %s)"""
    mission.link.execute(query, ["lab.first", began, ended])
    mission.link.execute(query, ["lab.first", NOW - timedelta(hours=1), None])
    mission.link.execute(query, ["lab.other", began, ended])
    found = [(moment["what"], moment["detail"]) for moment in shown(owner, kind="machine")]
    assert found == [("runs", "tier pro"), ("is off", "tier pro"), ("runs", "tier pro")]
    # Its observer ended, and began again: nobody saw the machine off.
    mission.link.execute("update workspace set followed_at = %s", [NOW - timedelta(minutes=5)])
    close_unseen(worker, "lab")
    assert [moment["what"] for moment in shown(owner, kind="machine")] == ["is not watched", "runs", "is off", "runs"]


def test_parts_follow_each_other_without_a_gap_and_kinds_and_times_are_chosen(
    mission: Lab, owner: httpx.Client
) -> None:
    fill(mission)
    whole, after, parts = shown(owner), None, []
    while True:
        page = owner.get("/api/desktops/lab.first/timeline", params={"limit": 2, **({"after": after} if after else {})})
        parts += page.json()["items"]
        assert len(page.json()["items"]) <= 2
        after = page.json()["nextCursor"]
        if after is None:
            break
    assert parts == whole and len(whole) == 5
    assert [moment["kind"] for moment in shown(owner, kind=["tool", "alert"])] == ["alert", "tool"]
    before = (NOW - timedelta(minutes=3, seconds=30)).isoformat()
    assert [moment["kind"] for moment in shown(owner, before=before)] == ["message", "operation"]
    assert owner.get("/api/desktops/lab.first/timeline?after=rubbish").status_code == 422


def test_who_may_not_see_approvals_or_the_workspace_sees_none_of_them(mission: Lab, owner: httpx.Client) -> None:
    fill(mission)
    with mission.client(mission.key("read")) as reader:
        kinds = {moment["kind"] for moment in shown(reader)}
        assert "approval" not in kinds and "message" in kinds
        assert shown(reader, kind="approval") == []
    with mission.client(mission.key(*EVERYTHING[:5], workspaces=["other"])) as stranger:
        assert stranger.get("/api/desktops/lab.first/timeline").status_code == 404
    assert owner.get("/api/desktops/lab.never/timeline").status_code == 404


def test_desktop_that_is_gone_has_its_timeline(mission: Lab, owner: httpx.Client) -> None:
    fill(mission)
    before = shown(owner)
    mission.link.execute("update desktop set gone_at = now() where id = 'lab.first'")
    assert owner.get("/api/desktops/lab.first").status_code == 404
    assert shown(owner) == before


def test_look_goes_on_after_the_last_line_of_the_door_and_says_as_of_when(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first")
    assert owner.get("/api/desktops/lab.first/timeline").json()["readAt"] is None
    rows = of_door([drives(1, timedelta(hours=2)), drives(2, timedelta(hours=1), result="nobody", reason="left")])
    done = looked(mission, owner, *rows)
    assert done["result"]["moments"] == {"kept": 2, "problem": None}
    read_at = owner.get("/api/desktops/lab.first/timeline").json()["readAt"]
    assert datetime.fromisoformat(read_at) == done["started_at"]
    again = looked(mission, owner, *rows)
    assert again["result"]["seen"] == {"moments_since": rows[1]["key"]}
    assert [moment["what"] for moment in shown(owner, kind="session")] == ["nobody drives", "drives"]
    later = owner.get("/api/desktops/lab.first/timeline").json()["readAt"]
    failed = looked(mission, owner, problem=SILENT)
    assert failed["result"]["moments"] == {"kept": 0, "problem": SILENT}
    assert owner.get("/api/desktops/lab.first/timeline").json()["readAt"] == later


def test_what_is_refused_within_an_hour_grows_and_is_never_made_smaller(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first")
    hour = NOW.replace(minute=0, second=0)
    lines = [refused("pypi.org:443", hour + timedelta(seconds=second)) for second in range(3)]
    for known, times in ((lines[:1], 1), (lines, 3), (lines[2:], 3)):
        looked(mission, owner, *of_egress(known))
        (found,) = shown(owner, kind="refusal")
        assert found["times"] == times
    looked(mission, owner, *of_egress([refused("pypi.org:443", hour - timedelta(seconds=1))]))
    assert [moment["times"] for moment in shown(owner, kind="refusal")] == [3, 1]


def test_what_is_older_than_it_is_kept_is_forgotten_by_the_next_look(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first")
    looked(mission, owner, *of_door([drives(1)]))
    mission.link.execute("update moment set at = now() - %s - interval '1 second'", [KEPT])
    looked(mission, owner, *of_door([drives(2)]))
    (found,) = mission.link.execute("select key from moment").fetchall()
    assert found["key"].endswith(" 2")


@pytest.mark.parametrize("event", sorted(DECISIONS))
def test_each_decision_of_the_door_is_a_moment(mission: Lab, owner: httpx.Client, event: tuple[str, str]) -> None:
    mission.declare("lab", "first")
    looked(mission, owner, *of_door([drives(1, event=event[0], result=event[1])]))
    assert [moment["what"] for moment in shown(owner, kind="session")] == [DECISIONS[event]]
