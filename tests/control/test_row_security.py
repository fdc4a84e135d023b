"""Which rows a role of the database may read and write, from a connection of each process's own account."""

import json
from collections.abc import Callable

import pytest

from deskyard.control.people import session
from deskyard.control.people.keys import Key
from deskyard.control.store.cluster import IDENTITY, LINK, RECORDER, WEB, WORKER
from deskyard.control.store.connection import connect
from tests.control.lab import ACCOUNTS, Lab
from tests.control.taken import PLACES, counted, tried

Taken = Callable[..., str]
LINE = "insert into audit_intake (actor, action, target, detail) values ('{}', '{}', 'x', '{{}}')"
TOGETHER = "insert into audit_intake (actor, action, target, detail) values ('others', '{}', 'others', '{{}}')"


@pytest.fixture(scope="module", params=PLACES)
def whole(request: pytest.FixtureRequest) -> Lab:
    """A Mission Control whose database is on this machine, and then elsewhere: its rows are as safe."""
    found: Lab = request.getfixturevalue(request.param)
    return found


def rows_by(taken: Taken, mission: Lab, role: str, account: str, statements: list[str]) -> list[object]:
    """What each statement did by a role: how many rows it read or changed, or `refused`."""
    named = [(None, statement) for statement in statements]
    found: list[object] = json.loads(taken(counted(mission.url(role), named), account))
    return found


def actor_of(key: str) -> str:
    """A key of the lab, as the audit names it."""
    found = Key.parsed(key)
    assert found is not None
    return f"key:test:{found.id}"


def people(mission: Lab) -> None:
    """Ada, whom the host made; Bea of a rule, with a session by the provider; Cas, whom the host offers to a mail."""
    for statement in (
        "insert into person (id, name, role, by_rule) values ('pe_a', 'ada', 'admin', false),"
        " ('pe_b', 'bea', 'viewer', true), ('pe_c', 'cas', 'operator', false)",
        "insert into mail_offer (mail, person_id) values ('cas@example.org', 'pe_c')",
        "insert into session (id, token_hash, person_id, agent, expires_at, confirmed_until, standing) values"
        " ('se_a', '\\x01', 'pe_a', 'x', now() + interval '1 hour', null, null),"
        " ('se_b', '\\x02', 'pe_b', 'x', now() + interval '1 hour', now() + interval '1 minute', 'b')",
    ):
        mission.link.execute(statement.encode())


def test_a_key_that_was_revoked_stays_so_whatever_the_web_process_writes(mission: Lab, taken: Taken) -> None:
    text = mission.key("read")
    people(mission)
    statements = ["select set_config('deskyard.caller', 'person:ada', false)"]
    statements += ["update api_key set last_used_at = now()", "update api_key set revoked_at = now()"]
    statements += ["update api_key set revoked_at = null", "update api_key set last_used_at = null"]
    assert rows_by(taken, mission, WEB, ACCOUNTS.web, statements) == [1, 1, 1, 0, 0]
    with mission.client(text) as client:
        assert client.get("/api/desktops").status_code == 401


def test_a_key_is_revoked_twice_and_keeps_when_it_was(mission: Lab) -> None:
    key = Key.parsed(mission.key("read"))
    assert key is not None
    id = key.id
    with mission.client(mission.key("read", "admin")) as admin:
        assert admin.delete(f"/api/keys/{id}").status_code == 204
        query = "select revoked_at from api_key where id = %s and revoked_at is not null"
        first = mission.link.execute(query, [id]).fetchone()
        assert first is not None
        assert admin.delete(f"/api/keys/{id}").status_code == 204
        assert mission.link.execute(query, [id]).fetchone() == first
        assert admin.delete("/api/keys/nothing").status_code == 404


def test_the_web_process_begins_no_session_that_outlasts_it_for_long(mission: Lab, taken: Taken) -> None:
    people(mission)
    begin = (
        "insert into session (id, token_hash, person_id, agent, expires_at) values ('{}', '\\x1{}', 'pe_a', 'x', {})"
    )
    most = f"now() + make_interval(secs => {session.SECONDS})"
    statements = [
        begin.format("se_1", 1, most),
        begin.format("se_2", 2, f"{most} + interval '1 second'"),
        begin.format("se_3", 3, "'infinity'"),
        "update session set expires_at = 'infinity'",
        "update session set seen_at = now()",
    ]
    assert rows_by(taken, mission, WEB, ACCOUNTS.web, statements) == [1, "refused", "refused", "refused", 3]


def test_the_web_process_writes_lines_in_the_names_of_callers_and_of_what_leaves_no_row_alone(
    mission: Lab, taken: Taken
) -> None:
    people(mission)
    key = actor_of(mission.key("read"))
    refused = [
        LINE.format("host:root", "control.backup"),
        LINE.format("person:ada", "control.backup"),
        LINE.format("person:ada", "person.make"),
        LINE.format("provider", "person.role"),
        LINE.format("watch", "desktop.stop"),
        LINE.format("mission-control", "gateway.head"),
        LINE.format("desktop:lab.first", "approval.raised"),
        LINE.format("nobody", "desktop.stop"),
        LINE.format("others", "request.refused"),
        TOGETHER.format("desktop.stop"),
        LINE.format("person:", "link.read"),
        LINE.format("person:eve", "link.read"),
        LINE.format("key:test:1", "link.read"),
        # Of these the rows have triggers.
        *(LINE.format("person:ada", f"{action}") for action in ("desktop.stop", "key.revoke", "budget.set")),
        "insert into audit_intake (at, actor, action, target) values ('2020-01-01', 'person:ada', 'link.read', 'x')",
    ]
    written = [
        LINE.format("person:ada", "link.read"),
        LINE.format(key, "audit.export"),
        LINE.format("enrolment:ada", "request.refused"),
        LINE.format("nobody", "request.refused"),
        # Beyond so many different ones in a minute requests are counted together.
        *(TOGETHER.format(f"{action}.read") for action in ("audit", "keys", "people", "sessions")),
        TOGETHER.format("request.refused"),
    ]
    found = rows_by(taken, mission, WEB, ACCOUNTS.web, refused + written)
    assert found == ["refused"] * len(refused) + [1] * len(written)


def test_the_web_process_wants_nothing_as_a_process_and_says_nothing_as_an_agent(mission: Lab, taken: Taken) -> None:
    mission.declare("lab", "first")
    people(mission)
    want = "insert into operation (id, kind, actor) values ('{}', 'workspace.none', '{}')"
    columns = "id, conversation_id, role, author, state, text"
    say = f"insert into message ({columns}) values ('{{}}', 'cv_1', '{{}}', '{{}}', '{{}}', 'x')"
    statements = [
        want.format("op_1", "watch"),
        want.format("op_2", "host:root"),
        want.format("op_3", "person:ada"),
        "insert into conversation (id, desktop_id, title) values ('cv_1', 'lab.first', 'x')",
        say.format("ms_1", "agent", "person:ada", "queued"),
        say.format("ms_2", "person", "person:ada", "done"),
        say.format("ms_3", "person", "agent", "queued"),
        say.format("ms_4", "person", "person:ada", "queued"),
    ]
    found = rows_by(taken, mission, WEB, ACCOUNTS.web, statements)
    assert found == ["nobody", "nobody", 1, 1, "refused", "refused", "nobody", 1]
    # The worker's word is what it was.
    with connect(mission.url(WORKER)) as link:
        link.execute(say.format("ms_5", "agent", "agent", "done").encode())


def test_who_asks_the_provider_sees_and_changes_sessions_of_the_provider_alone(mission: Lab, taken: Taken) -> None:
    people(mission)
    statements = [
        "select standing from session",
        "update session set ended_at = now() where person_id = 'pe_a'",
        "update session set confirmed_until = null where person_id = 'pe_b'",
        "update session set confirmed_until = now() + interval '5 minutes'",
        "update session set ended_at = now()",
    ]
    assert rows_by(taken, mission, IDENTITY, ACCOUNTS.identity, statements) == [1, 0, "refused", 1, 1]
    rows = mission.link.execute("select id from session where ended_at is null").fetchall()
    assert rows == [{"id": "se_a"}], "the one that a passkey began is as it was"


def test_who_asks_the_provider_knows_of_persons_for_whom_an_account_stands_or_may(mission: Lab, taken: Taken) -> None:
    people(mission)
    account = "insert into identity (issuer, subject, person_id) values ('https://id.example', '{}', '{}')"
    statements = [
        "select id from person",
        "select id from person where name = 'ada'",
        "update person set role = 'viewer' where name in ('ada', 'cas')",
        "update person set role = 'operator'",
        account.format("1", "pe_a"),
        account.format("2", "pe_b"),
        account.format("3", "pe_c"),
        "delete from mail_offer",
        "select id from person",
        account.format("4", "pe_c"),
        "update person set by_rule = true",
        "insert into person (id, name, role, by_rule) values ('pe_d', 'dan', 'admin', false)",
        "insert into person (id, name, role, by_rule) values ('pe_d', 'dan', 'admin', true)",
    ]
    found = rows_by(taken, mission, IDENTITY, ACCOUNTS.identity, statements)
    assert found == [2, 0, 0, 1, "refused", 1, 1, 1, 2, "refused", "refused", "refused", 1]
    roles = mission.link.execute("select id, role from person order by id").fetchall()
    assert [row["role"] for row in roles] == ["admin", "operator", "operator", "admin"]


def test_who_asks_the_provider_writes_of_persons_in_the_providers_name_alone(mission: Lab, taken: Taken) -> None:
    statements = [
        LINE.format("person:ada", "desktop.destroy"),
        LINE.format("provider", "desktop.destroy"),
        LINE.format("provider", "control.backup"),
        LINE.format("provider", "person.role"),
    ]
    assert rows_by(taken, mission, IDENTITY, ACCOUNTS.identity, statements) == ["refused", "refused", "refused", 1]


def test_who_asks_gateways_writes_what_they_say_in_their_names_alone(mission: Lab, taken: Taken) -> None:
    statements = [
        LINE.format("desktop:", "approval.raised"),
        LINE.format("desktop:lab.first", "desktop.destroy"),
        LINE.format("desktop:lab.first", "gateway.head"),
        LINE.format("desktop:lab.first", "approval.raised"),
        LINE.format("mission-control", "gateway.head"),
    ]
    found = rows_by(taken, mission, LINK, ACCOUNTS.link, statements)
    assert found == ["refused", "refused", "refused", 1, 1]


def test_the_recorder_alone_reads_and_takes_lines_that_wait(mission: Lab, taken: Taken) -> None:
    people(mission)
    mission.end("recorder")
    mission.link.execute(LINE.format("person:ada", "desktop.stop").encode())
    with connect(mission.url(WORKER)) as link:
        link.execute(LINE.format("watch", "desktop.stop").encode())
    forbidden = ["select * from audit_intake", "delete from audit_intake"]
    for role, account in ((WEB, ACCOUNTS.web), (IDENTITY, ACCOUNTS.identity), (LINK, ACCOUNTS.link)):
        assert taken(tried(mission.url(role), forbidden), account) == ""
    statements = [*forbidden, "update audit_entry set actor = 'x'", "delete from audit_entry"]
    assert rows_by(taken, mission, RECORDER, ACCOUNTS.recorder, statements) == [2, 2, "refused", "refused"]


def test_tables_of_lists_have_no_policy(mission: Lab) -> None:
    """A table with one gets another plan where words are compared, whatever the policy says: see the documentation."""
    found = mission.link.execute("select relname from pg_class where relrowsecurity order by relname").fetchall()
    assert [row["relname"] for row in found] == ["api_key", "audit_intake", "identity", "person", "session"]
    query = """select relname from pg_class c
        where relrowsecurity and not exists (select from pg_policy where polrelid = c.oid)"""
    assert mission.link.execute(query).fetchall() == []
