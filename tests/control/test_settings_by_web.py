"""What a taken web process sets: in whose name, as of when, and that it is in the audit; from its own connection."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from deskyard.control.people.keys import Key
from deskyard.control.store.cluster import OWNER, WEB, WORKER
from deskyard.control.store.connection import connect
from tests.control.lab import ACCOUNTS, EVERYTHING, WAIT_SECONDS, Lab
from tests.control.taken import PLACES, counted

Taken = Callable[..., str]
# What it may set, and the line that the database writes of it.
SETTINGS = (
    ("insert into budget (workspace_id, micros_per_month) values ('lab', 5)", "budget.set", "lab"),
    ("update budget set micros_per_month = null, bytes_per_month = 6, closes = '{a.example}'", "budget.set", "lab"),
    ("delete from budget", "budget.set", "lab"),
    ("insert into quota (subject, desktops) values ('workspace:lab', 3)", "quota.set", "workspace:lab"),
    ("update quota set desktops = null, vcpus = 4", "quota.set", "workspace:lab"),
    ("delete from quota", "quota.set", "workspace:lab"),
    ("insert into tier_price (tier, micros_per_hour) values ('free', 7)", "price.set", "free"),
    ("update alert_rule set enabled = false where kind = 'desktop.broken'", "alert-rule.set", "desktop.broken"),
    ("update alert_rule set enabled = true where kind = 'desktop.broken'", "alert-rule.set", "desktop.broken"),
    ("update alert set acknowledged_at = '2020-01-01'", "alert.acknowledge", "al_1"),
    ("update alert set silenced_until = now() + interval '1 day'", "alert.silence", "al_1"),
    ("insert into webhook (id, url) values ('wh_1', 'https://a.example')", "webhook.make", "wh_1"),
    ("insert into delivery (id, webhook_id) values ('msg_1', 'wh_1')", "webhook.test", "wh_1"),
    ("update webhook set gone_at = '2020-01-01'", "webhook.remove", "wh_1"),
    ("update session set ended_at = '2020-01-01'", "session.end", "se_a"),
    ("update operation set cancel_requested_at = '2020-01-01' where id = 'op_1'", "operation.cancel", "op_1"),
    ("update operation set cancel_requested_at = '2099-01-01' where id = 'op_2'", "conversation.interrupt", "cv_1"),
    ("update operation set force_requested_at = '2099-01-01' where id = 'op_3'", "operation.force", "op_3"),
    ("update api_key set revoked_at = '2099-01-01' where id = 'other'", "key.revoke", "other"),
)
STAMPS = (
    "insert into budget (workspace_id, micros_per_month, actor) values ('lab', 5, 'person:ada')",
    "insert into budget (workspace_id, micros_per_month, changed_at) values ('lab', 5, '2020-01-01')",
    "update budget set actor = 'person:ada'",
    "update budget set changed_at = now()",
    "update budget set workspace_id = 'other'",
    "insert into quota (subject, desktops, actor) values ('workspace:lab', 3, 'person:ada')",
    "update quota set changed_at = now()",
    "update quota set actor = 'person:ada'",
    "insert into tier_price (tier, micros_per_hour, actor) values ('free', 7, 'person:ada')",
    "update tier_price set actor = 'person:ada'",
    "update alert_rule set changed_at = now()",
    "update alert set acknowledged_by = 'person:ada'",
    "update operation set force_requested_at = now() where id = 'op_1'",
    "update alert set silenced_until = 'infinity'",
    "update alert set silenced_until = now() + interval '400 days'",
    "insert into webhook (id, url, actor) values ('wh_2', 'https://a.example', 'person:ada')",
    "insert into delivery (id, webhook_id, kind, payload) values ('msg_2', 'wh_1', 'alert.opened', '{}')",
)


@pytest.fixture(scope="module", params=PLACES)
def whole(request: pytest.FixtureRequest) -> Lab:
    """A Mission Control whose database is on this machine, and then elsewhere."""
    found: Lab = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def ada(mission: Lab) -> str:
    """Ada, a person, with what there is to be set."""
    mission.end("worker")
    mission.declare("lab", "first")
    for statement in (
        "insert into person (id, name, role, disabled_at) values ('pe_a', 'ada', 'admin', null),"
        " ('pe_g', 'gone', 'admin', now())",
        "insert into session (id, token_hash, person_id, agent, expires_at) values"
        " ('se_a', '\\x01', 'pe_a', 'x', now() + interval '1 hour')",
        "insert into alert (id, rule, object, text, number) values ('al_1', 'desktop.broken', 'lab.first', 'x', 1)",
        "insert into operation (id, kind, actor, input) values ('op_1', 'desktop.stop', 'person:ada', '{}'),"
        """ ('op_2', 'desktop.chat', 'person:ada', '{"conversation": "cv_1"}')""",
        "insert into operation (id, kind, actor, input, cancel_requested_at) values"
        " ('op_3', 'desktop.stop', 'person:ada', '{}', now() - interval '1 minute')",
        "insert into api_key (id, name, auth_hash, scopes, expires_at, revoked_at) values"
        " ('other', 'b:c', '\\x01', '{read}', now() + interval '1 hour', null),"
        " ('over', 'x', '\\x02', '{read}', now() - interval '1 hour', null),"
        " ('revoked', 'x', '\\x03', '{read}', now() + interval '1 hour', now())",
    ):
        mission.link.execute(statement.encode())
    return "person:ada"


def tried(taken: Taken, mission: Lab, named: list[tuple[str, str]]) -> list[object]:
    """What each statement did by the web process's role in somebody's name: how many rows, or that it was refused."""
    found: list[object] = json.loads(taken(counted(mission.url(WEB), named), ACCOUNTS.web))
    return found


def lines(mission: Lab, number: int) -> list[tuple[str, str, str]]:
    """So many last lines of the audit, in order, as soon as the recorder has taken all."""
    mission.until("select 1 where not exists (select from audit_intake)", [])
    query = "select actor, action, target from audit_entry order by number desc limit %s"
    found = mission.link.execute(query, [number]).fetchall()
    return [(row["actor"], row["action"], row["target"]) for row in reversed(found)]


def test_whatever_it_sets_is_a_line_of_the_audit(mission: Lab, taken: Taken, ada: str) -> None:
    found = tried(taken, mission, [(ada, statement) for statement, _, _ in SETTINGS])
    assert found == [1] * len(SETTINGS)
    assert lines(mission, len(SETTINGS)) == [(ada, action, target) for _, action, target in SETTINGS]
    row = mission.link.execute("select detail from audit_entry where action = 'budget.set' order by number").fetchall()
    assert [each["detail"] for each in row[-2:]] == [
        {"microsPerMonth": None, "bytesPerMonth": 6, "closes": ["a.example"]},
        {"microsPerMonth": None, "bytesPerMonth": None, "closes": None},
    ]


def test_whose_and_of_when_a_setting_is_the_database_says(mission: Lab, taken: Taken, ada: str) -> None:
    assert tried(taken, mission, [(ada, statement) for statement in STAMPS]) == ["refused"] * len(STAMPS)
    kept = [statement for statement, _, _ in SETTINGS if not statement.startswith("delete")]
    assert tried(taken, mission, [(ada, statement) for statement in kept]) == [1] * len(kept)
    for table, stamp, actor in (
        ("budget", "changed_at", "actor"),
        ("quota", "changed_at", "actor"),
        ("tier_price", "since", "actor"),
        ("alert", "acknowledged_at", "acknowledged_by"),
        ("webhook", "gone_at", "actor"),
        ("delivery", "created_at", "payload ->> 'actor'"),
        ("session", "ended_at", f"'{ada}'"),
        ("operation", "cancel_requested_at", "actor"),
        ("operation", "force_requested_at", "actor"),
        ("api_key", "revoked_at", f"'{ada}'"),
    ):
        query = f"select {actor} as actor from {table} where {stamp} between now() - interval '5 minutes' and now()"
        rows = mission.link.execute(query.encode()).fetchall()
        assert rows and all(row["actor"] == ada for row in rows), table
    delivery = mission.link.execute("select kind, payload from delivery").fetchone()
    assert delivery == {"kind": "webhook.test", "payload": {"actor": ada}}, "it tells nobody of an alert that never was"


def test_what_is_over_stays_so_and_who_was_first_stays_first(mission: Lab, taken: Taken, ada: str) -> None:
    mission.link.execute("update alert set acknowledged_at = '2020-01-01', acknowledged_by = 'person:first'")
    mission.link.execute("update session set ended_at = '2020-01-01'")
    mission.link.execute("update operation set cancel_requested_at = '2020-01-01'")
    mission.link.execute("insert into webhook (id, url, actor, gone_at) values ('wh_1', 'x', 'x', '2020-01-01')")
    again = [
        "update alert set acknowledged_at = null",
        "update alert set acknowledged_at = now()",
        "update session set ended_at = null",
        "update operation set cancel_requested_at = null where id = 'op_1'",
        "update webhook set gone_at = null",
    ]
    assert tried(taken, mission, [(ada, statement) for statement in again]) == [1] * len(again)
    for query in (
        "select acknowledged_at as at from alert where acknowledged_by = 'person:first'",
        "select ended_at as at from session",
        "select cancel_requested_at as at from operation where id = 'op_1'",
        "select gone_at as at from webhook",
    ):
        row = mission.link.execute(query.encode()).fetchone()
        assert row is not None and row["at"].year == 2020, query


def test_a_key_revokes_itself_once_and_opens_nothing_then(mission: Lab) -> None:
    token = mission.key(*EVERYTHING)
    own = Key.parsed(token)
    assert own is not None
    with mission.client(token) as client:
        assert client.delete(f"/api/keys/{own.id}").status_code == 204
        assert client.get("/api/desktops").status_code == 401
    # A refusal is written down after it was answered.
    written = """select 1 from audit_entry where action = 'request.refused' and number >
        (select max(number) from audit_entry where action = 'key.revoke' and target = %s)"""
    mission.until(written, [own.id])
    (actor, action, target), (_, after, _) = lines(mission, 2)
    assert (action, target, after) == ("key.revoke", own.id, "request.refused")
    assert actor.startswith("key:") and actor.endswith(f":{own.id}")


def test_nobody_sets_wants_or_says_anything_who_is_not_there(mission: Lab, taken: Taken, ada: str) -> None:
    mission.link.execute("insert into conversation (id, desktop_id, title) values ('cv_1', 'lab.first', 'x')")
    there = Key.parsed(mission.key("read"))
    assert there is not None
    gone = ["", "watch", "host:root", "person:eve", "person:gone", "key:x:over", "key:x:revoked", "key:x:other"]
    here = [ada, f"key:test:{there.id}", "key:b:c:other"]
    price = "insert into tier_price (tier, micros_per_hour) values ('free', 1)"
    want = "insert into operation (id, kind, actor) values ('op_{}', 'workspace.none', '{}')"
    say = """insert into message (id, conversation_id, role, author, text, state)
        values ('ms_{}', 'cv_1', 'person', '{}', 'x', 'queued')"""
    for names, answer in ((gone, "nobody"), (here, 1)):
        named = [(name, price) for name in names]
        named += [("", text.format(f"{answer}{n}", name)) for n, name in enumerate(names) for text in (want, say)]
        found = tried(taken, mission, named)
        # Of who is no caller at all, the trigger of before says so.
        assert [{"refused": "nobody"}.get(str(each), each) for each in found] == [answer] * len(named)
    with connect(mission.url(WORKER)) as link:
        link.execute(say.format("worker", "agent").replace("'person'", "'agent'").encode())


def test_what_agents_are_given_is_a_line_of_the_audit(mission: Lab, taken: Taken, ada: str) -> None:
    """By an operation, without which no message comes to its agent; also a session that begins, and an answer."""
    statements = (
        "insert into operation (id, kind, workspace_id, desktop_id, actor) values"
        " ('op_chat', 'desktop.chat', 'lab', 'lab.first', 'person:ada')",
        "insert into conversation (id, desktop_id, title) values ('cv_1', 'lab.first', 'x')",
        "insert into message (id, conversation_id, role, author, text, state, operation_id)"
        " values ('ms_1', 'cv_1', 'person', 'person:ada', 'x', 'queued', 'op_chat')",
        "insert into question_answer (message_id, question, option, actor) values ('ms_1', 'q', 'yes', 'person:ada')",
        "insert into session (id, token_hash, person_id, agent, expires_at) values"
        " ('se_b', '\\x02', 'pe_a', 'x', now() + interval '1 hour')",
    )
    assert tried(taken, mission, [("", statement) for statement in statements]) == [1] * len(statements)
    expected = [(ada, "desktop.chat", "lab.first"), (ada, "question.answer", "lab.first")]
    assert lines(mission, 3) == [*expected, (ada, "session.begin", "se_b")]


def test_a_key_that_goes_while_its_request_waits_sets_nothing(mission: Lab, owner: httpx.Client) -> None:
    """The database looks again: as the request was let in, the key was still there."""
    query = "select max(since) as changed_at from tier_price where tier = any(%s)"
    prices = {"prices": [{"tier": "free", "microsPerHour": 5}]}
    waiting = "select 1 from pg_locks where locktype = 'advisory' and not granted"
    # It was seen this minute, so that the request holds no row of it.
    assert owner.get("/api/prices").status_code == 200
    with ThreadPoolExecutor(1) as pool:
        with mission.link.transaction():
            mission.link.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", [query])
            asked = pool.submit(owner.put, "/api/prices", json=prices)
            mission.until(waiting, [])
            with connect(mission.url(OWNER)) as other:
                other.execute("update api_key set revoked_at = now()")
        answer = asked.result(WAIT_SECONDS)
    assert (answer.status_code, answer.json()["field"]) == (401, "caller")
    assert mission.link.execute("select 1 from tier_price").fetchone() is None
