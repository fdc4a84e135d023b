"""What a taken web process can do: its account, its database role and its sockets, used by somebody who means harm."""

import errno
import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from cryptography.exceptions import InvalidTag
from psycopg.types.json import Jsonb
from webauthn.helpers import base64url_to_bytes

from deskyard.control.opening.target import SESSION
from deskyard.control.people import enrolment
from deskyard.control.recorder import chain
from deskyard.control.store.cluster import IDENTITY, LINK, RECORDER, ROLES, WEB, WORKER
from tests.control.authenticator import Authenticator
from tests.control.lab import ACCOUNTS, ORIGIN, WAIT_SECONDS, Lab
from tests.control.people import Person, enrolled, link_token
from tests.control.tab import Tab
from tests.control.taken import PLACES, confined, tried

OTHER_ROLES = (WORKER, RECORDER, IDENTITY, LINK, "mc_owner", "postgres")
FORBIDDEN = (
    "insert into passkey (id, person_id, name, public_key) select '\\x01', id, 'mine', '\\x01' from person",
    "update passkey set public_key = '\\x01'",
    "delete from passkey",
    "insert into person (id, name, role) values ('x', 'x', 'admin')",
    "update person set role = 'admin'",
    "insert into enrolment values ('\\x01', 'x', now())",
    "insert into identity (issuer, subject, person_id) select 'x', 'x', id from person",
    "select subject from identity",
    "insert into mail_offer (mail, person_id) select 'x@x', id from person",
    "select mail from mail_offer",
    "update person set workspaces = null",
    "insert into api_key (id, name, auth_hash, scopes, expires_at) values ('x', 'x', '\\x01', '{admin}', now())",
    "update api_key set scopes = '{desktops:destroy}'",
    "select secret from key_proof",
    "insert into audit_entry values (1, now(), 'x', 'x', 'x', '{}', '\\x01')",
    "update audit_entry set actor = 'x'",
    "delete from audit_entry",
    "delete from audit_intake",
    "update audit_intake set actor = 'x'",
    "insert into audit_intake (actor, action, target, detail) values ('x', 'gateway.head', 'lab', '{}')",
    "insert into anchor (workspace_id) values ('lab')",
    "update anchor set problem = null",
    "delete from anchor",
    "insert into operation (id, kind, actor, state) values ('x', 'desktop.start', 'x', 'done')",
    "insert into operation (id, kind, actor, created_at) values ('x', 'desktop.start', 'x', now())",
    "update operation set state = 'queued'",
    "update operation set proof = '{}'",
    "update operation set program = 'x'",
    "update operation set remains = 'x'",
    "select forget_refused_names()",
    "insert into approval (id, ticket, workspace_id, desktop_id, name, port) values ('x', 'x', 'x', 'x', 'x', 1)",
    "update approval set state = 'allowed'",
    "delete from approval",
    "insert into approval_rule (workspace_id, persons, roles, people, keys, actor)"
    " values ('x', 1, '{}', '{}', '{}', 'x')",
    "update approval_rule set persons = 1",
    "delete from approval_rule",
    "insert into approval_rule_change (workspace_id, actor, operation_id) values ('x', 'person:x', 'x')",
    "update approval_rule_change set actor = 'person:x'",
    "delete from approval_rule_change",
    "insert into approval_decision (approval_id, actor, answer, operation_id) values ('x', 'x', 'once', 'x')",
    "update approval_decision set actor = 'person:x'",
    "delete from approval_decision",
    "insert into operation_decision (operation_id, actor, answer, decision_id) values ('x', 'x', 'allow', 'x')",
    "update operation_decision set actor = 'person:x'",
    "delete from operation_decision",
    "update operation set asker = 'person:x'",
    "insert into operation (id, kind, actor, asker) values ('x', 'desktop.destroy', 'x', 'person:x')",
    "update operation set input = '{}'",
    "delete from operation",
    "update desktop set state = 'ready'",
    "update desktop set frozen_at = null",
    "insert into intent_used (nonce, operation_id) values ('x', 'x')",
    "delete from intent_used",
    "insert into operation_log values ('x', 1, now(), 1, 'x')",
    "update message set text = 'x'",
    "update message set tools = '[]'",
    "update message set questions = '[]'",
    "insert into question_answer (message_id, question, option, actor, at) values ('x', 'q1', 'x', 'x', now())",
    "update question_answer set option = 'x'",
    "delete from question_answer",
    "update message set claimed_input = 0, claimed_output = 0, claimed_cached = 0",
    "insert into message (id, conversation_id, role, author, text, state, tools)"
    " values ('x', 'x', 'agent', 'x', 'x', 'done', '[]')",
    "insert into message (id, conversation_id, role, author, text, state, claimed_input, claimed_output,"
    " claimed_cached) values ('x', 'x', 'agent', 'x', 'x', 'done', 1, 1, 1)",
    "insert into message (id, conversation_id, role, author, text, state, changed_at)"
    " values ('x', 'x', 'person', 'x', 'x', 'done', '2100-01-01')",
    "delete from message",
    "delete from conversation",
    "update conversation set last_at = '2000-01-01'",
    "insert into conversation (id, desktop_id, title, last_at) values ('x', 'x', 'x', '2000-01-01')",
    "insert into message (id, conversation_id, role, author, text, state, at)"
    " values ('x', 'x', 'person', 'x', 'x', 'done', '2000-01-01')",
    "insert into retention (subject, days, actor) values ('site', 1, 'x')",
    "update retention set days = 1",
    "delete from retention",
    "insert into claim_kept values ('x', 1, 1, 1, 1, 1)",
    "update claim_kept set input = 0",
    "delete from claim_kept",
    "insert into traffic values ('x', 'x', '2026-01-01', 'x', 1, 1, 1)",
    "update traffic set sent = 0",
    "delete from traffic",
    "update workspace set traffic_read_at = null",
    "insert into moment values ('x', 'x', 'door', 'x', now(), 'x', 'x', 'x', 1)",
    "update moment set times = 2",
    "delete from moment",
    "insert into host_task values ('x', 'x', 'x', 'x', 'x', now(), 'done', 'x', 'x')",
    "update host_task set state = 'done'",
    "delete from host_task",
    "update host_spool set number = 0",
    "select name from refused_name",
    "insert into refused_name values ('x', 'x', 'x.example', '2026-01-01')",
    "delete from refused_name",
    "insert into event (kind, subject) values ('x', 'x')",
    "select secret from webhook_secret",
    "update webhook set url = 'https://mine.example'",
    "update delivery set state = 'delivered'",
    "delete from delivery",
    "insert into alert (id, rule, object, text, number) values ('x', 'x', 'x', 'x', 1)",
    "update alert set closed_at = now()",
    "delete from alert",
    "insert into usage_interval (desktop_id, workspace_id, tier, began_at) values ('x', 'x', 'x', now())",
    "update usage_interval set ended_at = began_at",
    "insert into closing (workspace_id, names) values ('x', '{}')",
    "delete from closing",
    "select ask_for_closing('op_x', 'x', '{}')",
    "insert into mail_server (sender) values ('x')",
    "delete from mail_server",
    "update tier_price set micros_per_hour = 0",
    "insert into tier_price (tier, micros_per_hour, since, actor) values ('free', 0, '2020-01-01', 'x')",
    "delete from tier_price",
    "update budget set changed_at = '2020-01-01'",
    "update budget set actor = 'person:x'",
    "update quota set actor = 'person:x'",
    "update alert_rule set changed_at = now()",
    "update alert set acknowledged_by = 'person:x'",
    "insert into webhook (id, url, actor) values ('x', 'https://mine.example', 'person:x')",
    "insert into delivery (id, webhook_id, kind, payload) values ('x', 'x', 'alert.opened', '{}')",
    "insert into audit_intake (actor, action, target, detail) values ('person:x', 'budget.set', 'lab', '{}')",
    "select setter()",
    "truncate operation",
    "create table mine ()",
    "create temporary table mine ()",
    "set role mc_worker",
    "set session authorization mc_owner",
    "copy operation to program 'id'",
    "select pg_read_file('/etc/passwd')",
    "select lo_import('/etc/passwd')",
    "alter table operation disable trigger all",
    "drop function note_event() cascade",
    "alter role mc_web superuser",
)


@pytest.fixture(scope="module", params=PLACES)
def whole(request: pytest.FixtureRequest) -> Lab:
    """A Mission Control whose database is on this machine, and then elsewhere: the borders are the same."""
    found: Lab = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="module")
def answers(whole: Lab) -> dict[str, list[str]]:
    """What the database answers the web process for each of these: the kind of its error, and its message.

    One process tries them all, each on a connection of its own that ends without a commit: what is done against the
    border is undone, and changes no other's answer.
    """
    whole.clear()
    url = whole.url(WEB)
    attempts = {statement: (url, statement) for statement in FORBIDDEN}
    attempts |= {role: (url.replace(f"user={WEB}", f"user={role}"), "select") for role in OTHER_ROLES}
    body = f"""
answers = {{}}
for name, (url, statement) in {attempts!r}.items():
    try:
        with contextlib.closing(psycopg.connect(url)) as link:
            link.execute(statement)
        answers[name] = "", "was done"
    except psycopg.Error as error:
        answers[name] = type(error).__name__, str(error)
print(json.dumps(answers))
"""
    found: dict[str, list[str]] = json.loads(confined(whole, body))
    return found


@pytest.mark.parametrize("statement", FORBIDDEN)
def test_the_web_process_cannot(answers: dict[str, list[str]], statement: str) -> None:
    kind, message = answers[statement]
    assert kind == "InsufficientPrivilege", message


def test_the_web_process_can_write_down_what_is_wanted(mission: Lab, taken: Callable[..., str]) -> None:
    statement = "insert into operation (id, kind, actor) values ('op_x', 'workspace.none', 'person:x') returning state"
    mission.link.execute("insert into person (id, name, role) values ('pe_x', 'x', 'operator')")
    body = f"print(psycopg.connect({mission.url(WEB)!r}).execute({statement!r}).fetchone())"
    assert taken(body) == "('queued',)"


# It wants links by itself, and reads what the worker gives out; what it got is printed.
WANTS_LINKS = """
with psycopg.connect({url!r}, autocommit=True) as link:
    link.execute("listen event")
    for number, (mode, key) in enumerate((mode, key) for mode in ("drive", "agent", "view") for key in (None, {key!r})):
        wanted = json.dumps({{"mode": mode, "scopes": None, "seal_to": key}})
        link.execute("insert into operation (id, kind, workspace_id, desktop_id, input, proof, actor) values"
            " (%s, 'desktop.session', 'lab', 'lab.first', %s, %s, 'person:ada')", [f"op_{{number}}", wanted, {proof!r}])
    unknown = "select count(*) from operation where id like 'op\\__' and state not in ('done', 'failed')"
    while link.execute(unknown).fetchone()[0]:
        for _ in link.notifies(timeout={seconds}, stop_after=1):
            pass
    states = [row[0] for row in link.execute("select distinct state from operation where id like 'op\\__'")]
    values = [row[0] for row in link.execute("select value from operation_secret")]
print(json.dumps([states, values]))
"""


def test_the_web_process_gets_no_link_that_opens_a_desktop(mission: Lab, taken: Callable[..., str]) -> None:
    mission.declare("lab", "first")
    own, page = Tab(), Tab()
    with mission.client() as client:
        ada = enrolled(mission, client, "ada", "operator")
        # A person opens a desktop while the process is taken, and has not read the answer yet.
        wanted = page.wanted(**ada.signed(SESSION, page.target()))
        id = ada.call("POST", "/api/desktops/lab.first/session", wanted).json()["id"]
    mission.state(id, "done")
    row = mission.link.execute("select proof::text as proof from operation where id = %s", [id]).fetchone()
    assert row is not None
    given = {"url": mission.url(WEB), "key": own.key, "proof": row["proof"]}
    states, values = json.loads(taken(WANTS_LINKS.format(**given, seconds=WAIT_SECONDS)))
    assert (states, len(values)) == (["failed"], 1), "what it wants by itself is refused"
    with pytest.raises(InvalidTag):
        own.opens(values[0]["sealed"], page.target())
    assert page.opens(values[0]["sealed"], page.target())["link"], "the person's page opens what it carries"


@pytest.mark.parametrize("role", OTHER_ROLES)
def test_the_web_process_is_nobody_else_for_the_database(answers: dict[str, list[str]], role: str) -> None:
    kind, message = answers[role]
    # Elsewhere it has no secret of anybody else, and cannot read one.
    assert kind == "OperationalError" and re.search("authentication failed|no password supplied", message), message


def test_the_web_process_has_no_network(mission: Lab, taken: Callable[..., str]) -> None:
    body = """
assert os.listdir('/sys/class/net')
for address in ("127.0.0.1", "192.0.2.1"):
    try:
        socket.create_connection((address, 22), 2)
        print(address, "answers")
    except OSError as error:
        print(address, error.errno)
"""
    # Where its database is elsewhere it has a loopback of its own, on which nothing is but the way there.
    loopback = errno.ECONNREFUSED if mission.address else errno.ENETUNREACH
    assert taken(body) == f"127.0.0.1 {loopback}\n192.0.2.1 {errno.ENETUNREACH}"


def test_the_web_process_reads_no_secret_of_the_host(mission: Lab, taken: Callable[..., str]) -> None:
    secret = mission.folder.root / "tls" / "mission.pem"
    secret.write_text("private")
    secret.chmod(0o600)
    provider = mission.folder.provider
    provider.write_text("the client's secret")
    provider.chmod(0o600)
    others = [mission.folder.database_secret(role) for role in ROLES if role != WEB] if mission.address else []
    version, logs = mission.folder.cluster / "PG_VERSION", mission.folder.root / "logs"
    paths = [str(path) for path in (*others, secret, provider, version, logs, "/etc/shadow")]
    body = f"""
for path in {paths!r}:
    try:
        print(path, list(pathlib.Path(path).iterdir()) if path.endswith("logs") else pathlib.Path(path).read_bytes())
    except OSError as error:
        print(path, error.errno)
"""
    assert taken(body).splitlines() == [f"{path} {errno.EACCES}" for path in paths]


def test_the_web_process_does_not_become_root_again(mission: Lab, taken: Callable[..., str]) -> None:
    assert "Operation not permitted" in taken("os.setuid(0)")
    status = "print([l.split()[1] for l in open('/proc/self/status') if l.startswith(('NoNewPrivs', 'CapEff'))])"
    assert taken(status) == "['0000000000000000', '1']"


def test_the_real_web_process_runs_like_that(mission: Lab) -> None:
    number = mission.processes["web"].pid
    lines = Path(f"/proc/{number}/status").read_text().splitlines()
    fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    assert int(fields["Uid"].split()[0]) != 0 and fields["CapEff"] == "0" * 16 and fields["NoNewPrivs"] == "1"
    assert Path(f"/proc/{number}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()


def test_the_worker_cannot_want_anything_by_itself_nor_write_the_audit(mission: Lab) -> None:
    for statement in (
        "insert into operation (id, kind, actor) values ('x', 'desktop.destroy', 'x')",
        "update operation set input = '{}'",
        "update operation set actor = 'x'",
        "insert into audit_entry values (1, now(), 'x', 'x', 'x', '{}', '\\x01')",
        "insert into person (id, name, role) values ('x', 'x', 'admin')",
        "update passkey set public_key = '\\x01'",
        "delete from traffic",
        "update traffic set day = '2026-01-01'",
        "update moment set actor = 'x'",
        "update refused_name set day = '2026-01-01'",
        "delete from refused_name",
        "update budget set bytes_per_month = null, micros_per_month = 1",
    ):
        with psycopg.connect(mission.url(WORKER)) as link, pytest.raises(psycopg.errors.InsufficientPrivilege):
            link.execute(statement.encode())


@pytest.mark.parametrize("weakened", [False, True])
def test_a_link_is_used_by_nobody_who_reads_what_is_kept_of_it(
    mission: Lab, owner: httpx.Client, weakened: bool
) -> None:
    token = link_token(mission, "ada", "admin")
    eve = Person(owner, Authenticator(ORIGIN))
    own = link_token(mission, "eve", "viewer")
    options = eve.call("POST", "/api/enrol/options", {"token": own}).json()["publicKey"]
    given = {
        "credential": eve.passkey.create(options),
        "name": "mine",
        "challenge": base64url_to_bytes(options["challenge"]).hex(),
    }
    with mission.link.transaction():
        mission.link.execute(f"set local role {WEB}".encode())
        found = mission.link.execute("select token_hash from enrolment where person_id = 'pe_ada'").fetchone()
        assert found is not None
        known = enrolment.shown(token) if weakened else bytes(found["token_hash"])
        query = "insert into operation (id, kind, actor, input) values ('op_x', 'person.enrol', 'enrolment:eve', %s)"
        mission.link.execute(query, [Jsonb(given | {"link": known.hex()})])
    state = mission.state("op_x", "done", "failed")
    enrolled = mission.link.execute("select person_id from passkey").fetchall()
    # With what the page was shown it works: the test would notice a database that holds it.
    assert (state["state"], len(enrolled)) == (("done", 1) if weakened else ("failed", 0)), state


def test_who_asks_the_provider_makes_no_more_of_persons_than_its_rules(mission: Lab, taken: Callable[..., str]) -> None:
    mission.link.execute("insert into person (id, name, role) values ('pe_a', 'ada', 'viewer')")
    query = (
        "insert into session (id, token_hash, person_id, agent, expires_at) values ('s', '\\x01', 'pe_a', 'x', now())"
    )
    mission.link.execute(query.encode())
    statements = [
        "insert into person (id, name, role, by_rule) values ('pe_b', 'bea', 'admin', false)",
        "update person set by_rule = true",
        "update person set disabled_at = null",
        "insert into mail_offer (mail, person_id) values ('x@x', 'pe_a')",
        "insert into passkey (id, person_id, name, public_key) values ('\\x01', 'pe_a', 'mine', '\\x01')",
        "insert into enrolment values ('\\x01', 'pe_a', now())",
        "insert into session (id, token_hash, person_id, agent, expires_at) values ('x', '\\x01', 'pe_a', 'x', now())",
        "insert into operation (id, kind, actor) values ('x', 'desktop.start', 'x')",
        "select secret from key_proof",
        "select token_hash from session",
        "update session set expires_at = now() + interval '1 day'",
        "insert into audit_entry values (1, now(), 'x', 'x', 'x', '{}', '\\x01')",
        "create temporary table mine ()",
        "insert into audit_intake (actor, action, target, detail) values ('x', 'gateway.head', 'lab', '{}')",
    ]
    body = (
        tried(mission.url(IDENTITY), statements)
        + """
    link.execute("insert into person (id, name, role, by_rule) values ('pe_c', 'cas', 'viewer', true)")
    print(link.execute("update person set role = 'operator' where id = 'pe_c' returning role").fetchone())
"""
    )
    assert taken(body, ACCOUNTS.identity) == "('operator',)"


def test_who_asks_gateways_writes_down_what_they_say_and_no_more(mission: Lab, taken: Callable[..., str]) -> None:
    mission.declare("lab", "first")
    intake = "insert into audit_intake (actor, action, target, detail) values"
    statements = [
        "insert into operation (id, kind, actor) values ('x', 'desktop.start', 'x')",
        "update operation set state = 'running'",
        "select proof from operation",
        "select secret from key_proof",
        "select value from operation_secret",
        "select token_hash from session",
        "select * from passkey",
        "select * from person",
        "select text from message",
        "select url from workspace",
        "select name from traffic",
        "update traffic set sent = 0",
        "select actor from moment",
        "select actor from host_task",
        "select name from refused_name",
        "update workspace set egress = 'open'",
        "update desktop set state = 'ready'",
        "delete from approval",
        "insert into approval_decision (approval_id, actor, answer, operation_id) values ('x', 'x', 'once', 'x')",
        "update approval_rule set persons = 1",
        "insert into audit_entry values (1, now(), 'x', 'x', 'x', '{}', '\\x01')",
        "delete from audit_intake",
        "insert into intent_used (nonce, operation_id) values ('x', 'x')",
        f"{intake} ('person:ada', 'approval.raised', 'x', '{{}}')",
        f"{intake} ('person:ada', 'gateway.head', 'x', '{{}}')",
        f"{intake} ('mission-control', 'person.make', 'x', '{{}}')",
        "create table mine ()",
        "create temporary table mine ()",
        "set role mc_worker",
    ]
    body = (
        tried(mission.url(LINK), statements)
        + f"""
    link.execute({intake!r} + " ('mission-control', 'gateway.head', 'lab', '{{}}')")
    print(link.execute("insert into anchor (workspace_id) values ('lab') returning workspace_id").fetchone())
"""
    )
    assert taken(body, ACCOUNTS.link) == "('lab',)"


def test_the_worker_writes_nothing_that_gateways_say(mission: Lab) -> None:
    head = "insert into audit_intake (actor, action, target) values ('mission-control', 'gateway.head', 'lab')"
    for statement in ("insert into anchor (workspace_id) values ('lab')", "delete from approval", head):
        with psycopg.connect(mission.url(WORKER)) as link, pytest.raises(psycopg.errors.InsufficientPrivilege):
            link.execute(statement.encode())


def lines(client: httpx.Client, after: int = 0) -> Iterator[dict[str, Any]]:
    """The lines of the audit as they are exported."""
    with client.stream("GET", f"/api/audit/export?after={after}") as answer:
        assert answer.headers["content-type"].startswith("application/jsonl")
        for line in answer.iter_lines():
            entry = json.loads(line)
            yield {**entry, "at": datetime.fromisoformat(entry["at"]), "hash": bytes.fromhex(entry["hash"])}


def test_a_line_of_the_audit_that_was_changed_or_left_out_is_found(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first")
    for _ in range(3):
        operation = owner.post("/api/desktops/lab.first/restart").json()["id"]
    mission.until("select 1 from audit_entry where detail ->> 'operation' = %s", [operation])
    assert owner.get("/api/audit/verify").json()["ok"]
    exported = list(lines(owner))
    assert chain.verify(exported).entries == exported[-1]["number"] >= 3, "whoever keeps a copy can check it"
    # To export it is a line of its own.
    assert list(lines(owner, 2))[: len(exported) - 2] == exported[2:]
    last = owner.get("/api/audit?limit=1").json()["items"][0]
    mission.link.execute("update audit_entry set actor = 'somebody' where number = %s", [last["number"]])
    assert owner.get("/api/audit/verify").json()["problem"] == f"line {last['number']} was changed"
    mission.link.execute("delete from audit_entry where number = %s - 1", [last["number"]])
    assert owner.get("/api/audit/verify").json()["problem"] == f"line {last['number'] - 1} is missing"
    with pytest.raises(httpx.RemoteProtocolError):
        list(lines(owner, last["number"] - 2))
    mission.link.execute("truncate audit_entry")
