"""Every call of the API by every role and every scope: who may asks, who may not is refused and changes nothing.

schemathesis makes up what is sent from the OpenAPI document; `rights` says who may.
"""

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import Request
from schemathesis import Case, GenerationMode

from deskyard.control.api.caller import COOKIE, OWN_HEADER, Connection, caller
from deskyard.control.api.caller import Caller as Who
from deskyard.control.people.scopes import ROLES, SCOPES
from deskyard.control.store.cluster import OWNER
from deskyard.control.web.application import create
from deskyard.control.web.pages import Pages
from tests.control.lab import ORIGIN, Lab
from tests.control.rights import DEPENDS, RIGHTS
from tests.control.sampling import ENDLESS, Caller, Sample, sample
from tests.control.test_every_call import OPEN_TO_ALL, furnish, known, served, with_all_scopes

# It ends the session with which the others are sent; tests/control/test_people.py ends some.
LAST = "POST /api/sign-out"
REFUSALS = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
# Who asked last, and what only waits to be written down: nobody changed that by asking.
UNHEEDED = "{seen_at,last_used_at}"
# Counted, so that a flood of them writes few.
COUNTED = "request.refused"


@pytest.fixture
def mission(without_worker: Lab) -> Lab:
    """A worker would begin a program for all that is admitted, and clears away what is old."""
    return without_worker


def roles(mission: Lab) -> dict[str, tuple[frozenset[str], dict[str, str]]]:
    """Everybody, the mightiest last: the scopes, and what a request shows."""
    found: dict[str, tuple[frozenset[str], dict[str, str]]] = {"nobody": (frozenset(), {})}
    for scope in SCOPES:
        found[f"a key for {scope}"] = frozenset({scope}), {"Authorization": f"Bearer {mission.key(scope)}"}
    for role, scopes in ROLES.items():
        token = f"of-the-{role}"
        mission.link.execute("insert into person (id, name, role) values (%s, %s, %s)", [f"pe_{role}", role, role])
        mission.link.execute(
            "insert into session (id, token_hash, person_id, agent, expires_at)"
            " values (%s, %s, %s, 'x', now() + interval '1 hour')",
            [f"se_{role}", hashlib.sha256(token.encode()).digest(), f"pe_{role}"],
        )
        found[f"the {role}"] = scopes, {"Cookie": f"{COOKIE}={token}", OWN_HEADER: "1"}
    return found


def may(scopes: frozenset[str], is_somebody: bool, call: str) -> bool:
    """Whether somebody with these scopes may ask a call at all."""
    scope = RIGHTS[call]
    return is_somebody if scope is None else scope in scopes


def is_refused(case: Case, answer: httpx.Response) -> str | None:
    """Who may not hears that, whatever was sent; what cannot be read at all may be said before."""
    is_valid = case.meta is not None and case.meta.generation.mode is GenerationMode.POSITIVE
    if answer.status_code in REFUSALS or (not is_valid and 400 <= answer.status_code < 500):
        return None
    return "who may not was not refused"


def is_let_in(case: Case, answer: httpx.Response) -> str | None:
    """Who may is not sent away for lack of a scope, whatever else is wrong."""
    if answer.status_code == HTTPStatus.UNAUTHORIZED:
        return "who may is not known"
    problem = answer.json() if answer.status_code == HTTPStatus.FORBIDDEN else {}
    call = case.operation.label
    is_another = call in DEPENDS and problem.get("value") != RIGHTS[call]
    return "who may was refused" if problem.get("field") == "scope" and not is_another else None


def held(mission: Lab) -> dict[str, str]:
    """A digest of each table, but for the audit, and of who asked last."""
    tables = mission.link.execute(
        """select relname as name from pg_class c join pg_namespace n on n.oid = relnamespace
        where nspname = 'public' and relkind = 'r' and relname not like 'audit%' order by relname"""
    ).fetchall()
    found = {}
    for table in tables:
        query = f"""select md5(coalesce(string_agg(line, '' order by line), '')) as digest
            from (select (to_jsonb(t) - '{UNHEEDED}'::text[])::text as line from {table["name"]} t) as lines"""
        row = mission.link.execute(query.encode()).fetchone()
        assert row is not None
        found[table["name"]] = row["digest"]
    return found


def written(mission: Lab, after: int) -> set[str]:
    """The actions of lines of the audit after one, also of those that wait for the recorder."""
    query = """select action from audit_entry where number > %s union select action from audit_intake"""
    return {row["action"] for row in mission.link.execute(query, [after]).fetchall()}


@contextlib.contextmanager
def asked(mission: Lab, path: Path | None, wanted: bool) -> Iterator[list[Caller]]:
    """Everybody, for the calls that they may ask, or for those that they may not."""
    with contextlib.ExitStack() as stack:
        found = []
        for name, (scopes, shown) in roles(mission).items():
            client = stack.enter_context(mission.client(path=path))
            client.headers.update(shown)

            def calls(call: str, scopes: frozenset[str] = scopes, is_somebody: bool = bool(shown)) -> bool:
                return call in RIGHTS and call != LAST and may(scopes, is_somebody, call) == wanted

            judge = is_let_in if wanted else is_refused
            found.append(Caller(name, client, judge, calls=calls))
        yield found


def run(
    mission: Lab, wanted: bool, number: int, examples: int, only: str | None = None, path: Path | None = None
) -> Sample:
    """A sample of all calls by those who may ask them, or by those who may not, who have to leave all as it is."""
    furnish(mission)
    # The lines of what was put there, which the recorder may take later, are nobody's who asks.
    mission.until("select 1 where not exists (select from audit_intake)", [])
    with asked(mission, path, wanted) as callers:
        document = callers[0].client.get("/api/openapi.json").json()
        before, row = held(mission), mission.link.execute("select max(number) as last from audit_entry").fetchone()
        last = (row and row["last"]) or 0
        found = sample(document, callers, number, examples, known(document), only)
        if not wanted:
            after = held(mission)
            found.wrong += [f"{table} was changed by who may not" for table in after if after[table] != before[table]]
            found.wrong += [f"the audit has {action} of who may not" for action in written(mission, last) - {COUNTED}]
    return found


def test_each_call_of_the_document_has_its_right(mission: Lab) -> None:
    with mission.client() as nobody:
        document = nobody.get("/api/openapi.json").json()
        assert [nobody.get(path).status_code for path in ENDLESS] == [HTTPStatus.UNAUTHORIZED] * len(ENDLESS)
    there = {f"{verb.upper()} {path}" for path, verbs in document["paths"].items() for verb in verbs}
    endless = {f"GET {path}" for path in ENDLESS}
    assert there - OPEN_TO_ALL - endless == set(RIGHTS)


@pytest.mark.parametrize("examples", [1, pytest.param(12, marks=pytest.mark.deep)])
def test_who_may_not_is_refused_and_changes_nothing(mission: Lab, random_seed: int, examples: int) -> None:
    found = run(mission, False, random_seed, examples)
    assert not found.wrong, "\n\n".join(found.wrong)
    # An admin may ask everything.
    assert {who for who, _ in found.answers} == {
        "nobody",
        *(f"a key for {scope}" for scope in SCOPES),
        *(f"the {role}" for role in ROLES if role != "admin"),
    }


@pytest.mark.parametrize("examples", [1, pytest.param(12, marks=pytest.mark.deep)])
def test_who_may_is_let_in_and_answered_as_it_says(mission: Lab, random_seed: int, examples: int) -> None:
    found = run(mission, True, random_seed, examples)
    assert not found.wrong, "\n\n".join(found.wrong)
    # Not by refusals alone.
    done = {call for (_, call), answers in found.answers.items() if any(status < 300 for status in answers)}
    assert len(done) >= 40, sorted(done)


class Careless:
    """An application that refuses a call, and does something all the same."""

    def __init__(self, mission: Lab, app: Any, call: str) -> None:
        self._mission, self._app, self._call = mission, app, call

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if f"{scope.get('method')} {scope.get('path')}" == self._call:
            self._mission.link.execute("update desktop set detail = 'looked at' where id = 'lab.first'")
        await self._app(scope, receive, send)


@pytest.mark.parametrize(
    ("call", "wanted", "words"),
    [
        ("POST /api/desktops/{id}/stop", False, "who may not was not refused"),
        ("DELETE /api/keys/{id}", False, "who may not was not refused"),
        ("POST /api/desktops", False, "desktop was changed by who may not"),
        ("GET /api/usage", True, "who may was refused"),
    ],
)
def test_a_fault_that_was_planted_is_found(mission: Lab, tmp_path: Path, call: str, wanted: bool, words: str) -> None:
    app: Any = create(mission.url(OWNER), ORIGIN, Pages())
    if wanted:
        app.dependency_overrides[caller] = with_no_scope
    elif words.startswith("who"):
        app.dependency_overrides[caller] = with_all_scopes
    else:
        app = Careless(mission, app, call)
    with served(app, tmp_path / "socket") as path:
        found = run(mission, wanted, 1, 2, call, path)
    assert words in "\n".join(found.wrong)


async def with_no_scope(request: Request, connection: Connection) -> Who:
    return replace(await caller(request, connection), scopes=frozenset())
