"""Rules about agents, isolation and backups: what each finds in what Mission Control was told, and when it is over."""

import re
import secrets
import time
from datetime import UTC
from typing import Any

import httpx
import pytest
from psycopg.types.json import Jsonb

from deskyard.control.store.connection import Link
from deskyard.control.watch.rules import RULES
from tests.control.lab import Lab
from tests.control.watching import look, opened

ERROR, SILENT, ISOLATION, BACKUP = "agent.error", "agent.silent", "isolation.failed", "desktop.no-backup"
DAY = 86_400
HOUR = 3600


def operation(mission: Lab, kind: str, state: str, ago: float = 0, *, desktop: str | None = None, **more: Any) -> str:
    """An operation of the workspace `lab` that was wanted, and ended if it has, so many seconds ago."""
    id = f"op_{secrets.token_hex(8)}"
    values = {"input": {}, "result": None, "problem": None} | more
    ended = ago if state in ("done", "failed", "cancelled") else None
    mission.link.execute(
        """insert into operation (id, kind, workspace_id, desktop_id, actor, state, input, result, problem, created_at,
            started_at, ended_at) values (%s, %s, 'lab', %s, 'x', %s, %s, %s, %s, now() - make_interval(secs => %s),
            now() - make_interval(secs => %s), now() - make_interval(secs => %s))""",
        [id, kind, desktop, state, *(Jsonb(value) for value in values.values()), ago, ago, ended],
    )
    return id


def turn(mission: Lab, state: str, ago: float = 0, field: str | None = None) -> str:
    """A turn of the agent of `lab.first`; `field` is what it failed of."""
    problem = {"field": field, "reason": "has an agent that could not do it"} if field else None
    return operation(mission, "desktop.chat", state, ago, desktop="lab.first", problem=problem)


def test_every_rule_can_be_put_out_of_force(owner: httpx.Client) -> None:
    assert {rule["kind"] for rule in owner.get("/api/alert-rules").json()["items"]} == set(RULES)


def test_operation_without_room_is_told_after_minutes_until_it_ends(
    mission: Lab, owner: httpx.Client, worker: Link
) -> None:
    mission.declare("lab", "first")
    # The worker would begin it, and find room.
    mission.end("worker")
    waits = operation(mission, "desktop.start", "queued", 9 * 60, desktop="lab.first")
    mission.link.execute("update operation set waits = '100 MiB are free' where id = %s", [waits])
    look(worker)
    assert opened(owner) == {}
    mission.link.execute("update operation set created_at = now() - interval '11 minutes' where id = %s", [waits])
    for state in ("queued", "running"):
        mission.link.execute("update operation set state = %s where id = %s", [state, waits])
        look(worker)
        (alert,) = opened(owner).values()
        assert (alert["rule"], alert["object"]) == ("operation.no-room", "desktop.start lab.first")
        assert (alert["text"], alert["number"]) == ("100 MiB are free", 11)
    mission.link.execute("update operation set state = 'done' where id = %s", [waits])
    look(worker)
    assert opened(owner) == {}


def test_turn_that_its_agent_failed_is_told_until_a_turn_goes_well(
    mission: Lab, owner: httpx.Client, worker: Link
) -> None:
    mission.declare("lab", "first")
    turn(mission, "failed", 25 * HOUR, "agent")
    look(worker)
    assert opened(owner) == {}, "it is too long ago"
    failed = turn(mission, "failed", 23 * HOUR, "agent")
    look(worker)
    (alert,) = opened(owner).values()
    assert (alert["rule"], alert["object"], alert["workspaceId"], alert["unit"]) == (ERROR, "lab.first", "lab", "hours")
    assert alert["text"] == f"{failed}: has an agent that could not do it" and alert["nextStep"]
    # Whether the next goes well nobody knows before its end.
    for state in ("running", "queued", "cancelled"):
        turn(mission, state)
        look(worker)
        assert opened(owner)[f"{ERROR} lab.first"]["id"] == alert["id"]
    turn(mission, "done")
    look(worker)
    assert opened(owner) == {}


def test_turn_that_never_came_to_its_agent_is_an_operation_that_failed(
    mission: Lab, owner: httpx.Client, worker: Link
) -> None:
    mission.declare("lab", "first")
    turn(mission, "failed", 60, "gateway")
    operation(mission, "desktop.start", "failed", 60, desktop="lab.first", problem={"field": "agent", "reason": "x"})
    look(worker)
    assert set(opened(owner)) == {f"operation.failed desktop.{verb} lab.first" for verb in ("chat", "start")}
    turn(mission, "failed", 0, "agent")
    look(worker)
    assert set(opened(owner)) == {f"{ERROR} lab.first", "operation.failed desktop.start lab.first"}


def message(mission: Lab, turn: str, minutes: float, role: str = "agent", questions: Any = ()) -> str:
    """A message of a turn that was written last so many minutes ago."""
    query = """insert into message (id, conversation_id, role, author, text, state, operation_id, questions, changed_at)
        select %s, input ->> 'conversation', %s, 'x', '', 'streaming', id, %s, now() - make_interval(secs => %s)
        from operation where id = %s"""
    id = f"ms_{secrets.token_hex(8)}"
    mission.link.execute(query, [id, role, Jsonb(list(questions)), 60 * minutes + 1, turn])
    return id


def running(mission: Lab, minutes: float, conversation: str = "cv_1") -> str:
    """A turn that runs for so many minutes, whose message was handed over then."""
    query = "insert into conversation (id, desktop_id, title) values (%s, 'lab.first', 'x')"
    mission.link.execute(query, [conversation])
    values = {"conversation": conversation}
    id = operation(mission, "desktop.chat", "running", 60 * minutes + 1, desktop="lab.first", input=values)
    message(mission, id, minutes, "person")
    return id


def test_answer_that_grows_no_more_is_told_until_it_grows_or_its_turn_is_over(
    mission: Lab, owner: httpx.Client, worker: Link
) -> None:
    mission.declare("lab", "first")
    held = running(mission, 14)
    look(worker)
    assert opened(owner) == {}
    mission.link.execute("update operation set started_at = now() - interval '40 minutes' where id = %s", [held])
    growing = message(mission, held, 16)
    look(worker)
    assert opened(owner) == {}, "its message was handed over later: a worker began it again"
    mission.link.execute("delete from message where role = 'person'")
    look(worker)
    (alert,) = opened(owner).values()
    assert (alert["rule"], alert["object"], alert["number"], alert["unit"]) == (SILENT, "lab.first", 16, "minutes")
    assert alert["text"].startswith(f"{held}: ") and alert["nextStep"]
    worker.execute("update message set text = 'more' where id = %s", [growing])
    look(worker)
    assert opened(owner) == {}
    mission.link.execute("delete from message where id = %s", [growing])
    message(mission, held, 20)
    look(worker)
    assert set(opened(owner)) == {f"{SILENT} lab.first"}
    mission.link.execute("update operation set state = 'done', ended_at = now() where id = %s", [held])
    look(worker)
    assert opened(owner) == {}


@pytest.mark.parametrize(("state", "is_silent"), [("open", False), ("lapsed", True), ("answered", True)])
def test_agent_that_waits_for_a_person_is_not_silent(
    mission: Lab, owner: httpx.Client, worker: Link, state: str, is_silent: bool
) -> None:
    mission.declare("lab", "first")
    message(mission, running(mission, 20), 20, questions=[{"id": "q1", "state": state}])
    look(worker)
    assert (f"{SILENT} lab.first" in opened(owner)) == is_silent


def test_of_two_silent_turns_of_a_desktop_one_alert_is_open_for_the_longer(
    mission: Lab, owner: httpx.Client, worker: Link
) -> None:
    mission.declare("lab", "first")
    running(mission, 20)
    longer = running(mission, 30, "cv_2")
    look(worker)
    (alert,) = opened(owner).values()
    assert (alert["number"], alert["text"].startswith(longer)) == (30, True)


def test_isolation_that_does_not_hold_is_told_until_it_was_verified_again(
    mission: Lab, owner: httpx.Client, worker: Link
) -> None:
    mission.declare("lab", "first")
    wrong = {"ok": False, "wrong": ["tcp: answered, expected blocked", "udp: answered, expected blocked"]}
    right = {"ok": True, "wrong": []}
    operation(mission, "workspace.verify", "done", 3 * HOUR, result=right)
    look(worker)
    assert opened(owner) == {}
    found = operation(mission, "workspace.verify", "done", 2 * HOUR, result=wrong)
    look(worker)
    (alert,) = opened(owner).values()
    assert (alert["rule"], alert["object"], alert["workspaceId"]) == (ISOLATION, "lab", "lab")
    assert alert["text"].startswith(f"{found} of ") and alert["nextStep"]
    assert alert["text"].endswith("found: tcp: answered, expected blocked, and 1 more")
    # One that could not be brought to its end found nothing.
    operation(mission, "workspace.verify", "cancelled", HOUR)
    operation(mission, "workspace.verify", "running")
    operation(mission, "workspace.look", "done", HOUR, result=right)
    look(worker)
    assert set(opened(owner)) == {f"{ISOLATION} lab"}
    operation(mission, "workspace.verify", "done", 60, result=right)
    look(worker)
    assert opened(owner) == {}
    operation(mission, "workspace.verify", "done", 0, result=wrong)
    mission.link.execute("update workspace set gone_at = now()")
    look(worker)
    assert opened(owner) == {}, "what is gone is isolated from nobody"


def looked(mission: Lab, ago: float, *made: float, problem: Any = None, desktop: str = "first") -> str:
    """When a look at the workspace was over, so many days ago, with backups of so many days ago."""
    rows = [{"desktop": desktop, "id": "b", "made": int(time.time() - days * DAY), "verified": None} for days in made]
    found = {"backups": {"rows": rows, "problem": problem}}
    id = operation(mission, "workspace.look", "done", ago * DAY, result=found)
    row = mission.link.execute("select ended_at from operation where id = %s", [id]).fetchone()
    assert row is not None
    return f"{row['ended_at'].astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def there_for(mission: Lab, days: float) -> None:
    """A desktop that is there for so many days."""
    mission.declare("lab", "first")
    query = "update desktop set there_since = now() - make_interval(secs => %s)"
    mission.link.execute(query, [days * DAY])


def backup(mission: Lab, days: float, state: str = "done") -> None:
    operation(mission, "backup.run", state, days * DAY, desktop="lab.first")


def test_desktop_without_a_recent_backup_is_told_as_far_as_that_is_known(
    mission: Lab, owner: httpx.Client, worker: Link
) -> None:
    there_for(mission, 30)
    look(worker)
    assert opened(owner) == {}, "nobody has looked: nothing is known"
    looked(mission, 9, problem={"field": "backups"})
    look(worker)
    assert opened(owner) == {}, "the look could not see them"
    known = looked(mission, 8, 20, 8.5)
    look(worker)
    (alert,) = opened(owner).values()
    assert (alert["rule"], alert["object"], alert["number"], alert["unit"]) == (BACKUP, "lab.first", 8, "days")
    assert re.fullmatch(f"the last that is known is of [-0-9: ]+ UTC, as of {known}", alert["text"])
    assert alert["nextStep"]
    looked(mission, 6, problem={"field": "backups"})
    look(worker)
    assert opened(owner)[f"{BACKUP} lab.first"]["text"] == alert["text"]
    backup(mission, 3, "failed")
    backup(mission, 2)
    look(worker)
    assert opened(owner) == {}
    known = looked(mission, 1, 20, desktop="second")
    look(worker)
    (alert,) = opened(owner).values()
    assert alert["text"] == f"none is known, as of {known}", "it was deleted since"
    assert alert["number"] == 30
    looked(mission, 0, 6)
    look(worker)
    assert opened(owner) == {}


@pytest.mark.parametrize(("days", "is_missing"), [(6, False), (8, True)])
def test_last_backup_by_mission_control_is_known_without_a_look(
    mission: Lab, owner: httpx.Client, worker: Link, days: int, is_missing: bool
) -> None:
    there_for(mission, 30)
    backup(mission, days)
    look(worker)
    assert (f"{BACKUP} lab.first" in opened(owner)) == is_missing


@pytest.mark.parametrize(("days", "is_missing"), [(6, False), (8, True)])
def test_new_desktop_needs_no_backup_yet(
    mission: Lab, owner: httpx.Client, worker: Link, days: int, is_missing: bool
) -> None:
    there_for(mission, days)
    looked(mission, 1)
    look(worker)
    assert (f"{BACKUP} lab.first" in opened(owner)) == is_missing


def test_look_says_nothing_of_a_desktop_that_came_later(mission: Lab, owner: httpx.Client, worker: Link) -> None:
    there_for(mission, 8)
    looked(mission, 9)
    look(worker)
    assert opened(owner) == {}


def test_desktop_whose_name_is_taken_again_is_a_new_one(mission: Lab, owner: httpx.Client, worker: Link) -> None:
    there_for(mission, 30)
    looked(mission, 8, 20)
    look(worker)
    assert set(opened(owner)) == {f"{BACKUP} lab.first"}
    mission.link.execute("update desktop set gone_at = now()")
    look(worker)
    assert opened(owner) == {}
    mission.declare("lab", "first")
    look(worker)
    assert opened(owner) == {}
