"""Every call of the API by everybody: nobody, a key that may look, one of another workspace, and one that may all.

schemathesis, which knows nothing of Mission Control, makes up what is sent from the OpenAPI document.
"""

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import Request
from fastapi.responses import JSONResponse, Response
from schemathesis import Case

from deskyard.control.api.caller import Caller as Who
from deskyard.control.api.caller import Connection, caller
from deskyard.control.approvals import follow
from deskyard.control.people.scopes import SCOPES
from deskyard.control.store.cluster import OWNER
from deskyard.control.web.application import create
from deskyard.control.web.pages import Pages
from tests.control.lab import EVERYTHING, ORIGIN, Lab
from tests.control.sampling import Caller, Sample, sample
from tests.control.test_approvals import TICKET

# By their nature: whether it lives, what it offers, and how to become somebody.
OPEN_TO_ALL = {
    *("GET /healthz", "GET /readyz", "GET /version"),
    *("POST /api/enrol", "POST /api/enrol/options", "POST /api/sign-in", "POST /api/sign-in/options"),
    *("GET /api/sign-in", "POST /api/sign-in/provider", "POST /api/sign-in/provider/answer"),
}
# What moves nothing but the caller's own.
OWN = {"POST /api/sign-out", "POST /api/intents"}
# Stands in every text of the workspace that others must not see, and is never sent.
MARK = "belongs-to-lab"
KNOWN = {"desktops": "lab.first", "workspaces": "lab", "budgets": "lab", "operations": "op_lab"}
KNOWN |= {"conversations": "cv_lab", "alerts": "al_lab", "approvals": "lab.0a1b2c"}
KNOWN |= {"approval-rules": "lab", "quotas": "workspace:lab", "retention": "lab", "people": "pe_lab"}


@pytest.fixture
def mission(without_worker: Lab) -> Lab:
    """A worker would begin a program for all that is admitted: what happens to that is not asked here."""
    return without_worker


def furnish(mission: Lab) -> None:
    """A workspace with something of everything, and another."""
    mission.declare("lab", "first")
    mission.declare("elsewhere", "first")
    follow.write(mission.link, "lab", {**TICKET, "name": f"{MARK}.test"})
    for statement in (
        f"update desktop set detail = '{MARK}' where workspace_id = 'lab'",
        f"update workspace set url = 'https://{MARK}', silence = '{MARK}', unseen_why = '{MARK}' where id = 'lab'",
        "insert into operation (id, kind, workspace_id, desktop_id, actor, state)"
        f" values ('op_lab', 'desktop.start', 'lab', 'lab.first', '{MARK}', 'failed')",
        f"insert into operation_log values ('op_lab', 1, now(), 1, '{MARK}')",
        f"insert into conversation (id, desktop_id, title) values ('cv_lab', 'lab.first', '{MARK}')",
        "insert into message (id, conversation_id, role, author, text, state)"
        f" values ('ms_lab', 'cv_lab', 'person', 'x', '{MARK}', 'done')",
        "insert into alert (id, rule, object, workspace_id, text, number)"
        f" values ('al_lab', 'desktop.broken', 'lab.first', 'lab', '{MARK}', 1)",
        f"insert into budget (workspace_id, micros_per_month, bytes_per_month, actor) values ('lab', 7, 8, '{MARK}')",
        f"insert into quota (subject, desktops, actor) values ('workspace:lab', 900, '{MARK}')",
        f"insert into traffic values ('lab', 'lab.first', current_date, '{MARK}.test', 1, 1, 1)",
        f"insert into moment values ('lab', 'lab.first', 'door', '{MARK}', now(), 'drives', '{MARK}', '{MARK}', 1)",
        "insert into host_task (id, workspace_id, desktop_id, task, actor, began_at, state, detail, process)"
        f" values ('x:{MARK}', 'lab', 'lab.first', 'desktop.stop', 'host:{MARK}', now(), 'done', '{MARK}', '')",
        f"insert into retention (subject, days, actor) values ('workspace:lab', 9, '{MARK}')",
        f"insert into person (id, name, role, workspaces) values ('pe_lab', '{MARK}', 'viewer', '{{lab}}')",
        "insert into seat (id, workspace_id, name, tier, image, address, state, machine, claimed_by)"
        f" values ('lab.s1', 'lab', 's1', 'free', 'desktop', '10.0.0.3', 'claimed', '0a', '{MARK}')",
        "insert into approval_rule (workspace_id, persons, roles, people, keys, actor)"
        f" values ('lab', 1, '{{}}', '{{}}', '{{}}', '{MARK}')",
    ):
        mission.link.execute(statement.encode())


def known(document: dict[str, object]) -> dict[str, dict[str, str]]:
    """By path, names of what is there."""
    paths = document["paths"]
    assert isinstance(paths, dict)
    return {
        path: {name: KNOWN[path.split("/")[2]] for name in ("id", "workspace", "subject") if f"{{{name}}}" in path}
        | ({"seat": "s1"} if "{seat}" in path else {})
        for path in paths
        if len(path.split("/")) > 2 and path.split("/")[2] in KNOWN
    }


def unknown_is_refused(case: Case, answer: httpx.Response) -> str | None:
    if case.operation.label in OPEN_TO_ALL or 400 <= answer.status_code < 500:
        return None
    return "nobody got more than a refusal"


def reader_changes_nothing(case: Case, answer: httpx.Response) -> str | None:
    if case.method == "GET" or case.operation.label in OPEN_TO_ALL | OWN or answer.status_code >= 400:
        return None
    return "a key that may look changed something"


def stranger_sees_nothing(case: Case, answer: httpx.Response) -> str | None:
    return "what belongs to another workspace stands in it" if MARK in answer.text else None


@contextlib.contextmanager
def everybody(mission: Lab, path: Path | None) -> Iterator[list[Caller]]:
    keys = {
        "nobody": None,
        "a reader": mission.key("read", "approvals:read"),
        "a stranger": mission.key(*EVERYTHING, workspaces=["elsewhere"]),
        "the owner": mission.key(*EVERYTHING),
    }
    judges = {"nobody": unknown_is_refused, "a reader": reader_changes_nothing, "a stranger": stranger_sees_nothing}
    with contextlib.ExitStack() as stack:
        yield [
            Caller(
                name,
                stack.enter_context(mission.client(key, path)),
                judges.get(name, lambda *_: None),
                name == "the owner",
            )
            for name, key in keys.items()
        ]


def run(mission: Lab, number: int, examples: int, only: str | None = None, path: Path | None = None) -> Sample:
    furnish(mission)
    with everybody(mission, path) as callers:
        document = callers[-1].client.get("/api/openapi.json").json()
        return sample(document, callers, number, examples, known(document), only)


@pytest.mark.parametrize("examples", [1, pytest.param(60, marks=pytest.mark.deep)])
def test_every_call_answers_everybody_as_it_says(mission: Lab, random_seed: int, examples: int) -> None:
    found = run(mission, random_seed, examples)
    assert not found.wrong, "\n\n".join(found.wrong)


@contextlib.contextmanager
def served(app: Any, path: Path) -> Iterator[Path]:
    """An application of this process on a socket."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        # What is asked before it serves waits for it.
        listener.listen(16)
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        yield path
        server.should_exit = True
        thread.join(20)


async def as_anybody() -> Who:
    return Who("nobody", frozenset(SCOPES))


async def with_no_bounds(request: Request, connection: Connection) -> Who:
    return replace(await caller(request, connection), workspaces=None)


async def with_all_scopes(request: Request, connection: Connection) -> Who:
    return replace(await caller(request, connection), scopes=frozenset(SCOPES))


@dataclass
class Planted:
    """Answers one path by itself, as nobody's document says."""

    app: Any
    path: str
    answer: Response

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await (self.answer if scope.get("path") == self.path else self.app)(scope, receive, send)


@pytest.mark.parametrize(
    ("call", "fault", "words"),
    [
        ("GET /version", Planted(None, "/version", Response(status_code=500)), "Server error"),
        ("GET /version", Planted(None, "/version", Response("{", 200)), "Missing Content-Type"),
        (
            "GET /api/workspaces",
            Planted(None, "/api/workspaces", JSONResponse({"items": [{"id": 7}], "nextCursor": None})),
            "Response violates schema",
        ),
        ("GET /version", Planted(None, "/version", JSONResponse({}, 302)), "Undocumented status code"),
        ("GET /api/desktops", as_anybody, "nobody got more than a refusal"),
        ("GET /api/alerts", with_no_bounds, "what belongs to another workspace stands in it"),
        ("POST /api/desktops/{id}/stop", with_all_scopes, "a key that may look changed something"),
    ],
)
def test_a_fault_that_was_planted_is_found(mission: Lab, tmp_path: Path, call: str, fault: Any, words: str) -> None:
    app: Any = create(mission.url(OWNER), ORIGIN, Pages())
    if isinstance(fault, Planted):
        app = replace(fault, app=app)
    else:
        app.dependency_overrides[caller] = fault
    with served(app, tmp_path / "socket") as path:
        found = run(mission, 1, 2, call, path)
    assert words in "\n".join(found.wrong)
