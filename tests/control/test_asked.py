"""What was refused, and who read what few should, is in the audit: without what was sent, and bounded in a flood."""

import asyncio
import contextlib
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from deskyard.control.asked import tally as tally_module
from deskyard.control.asked.tally import MOST, Asked, Tally
from deskyard.control.store.cluster import OWNER, WEB
from deskyard.control.web.application import create
from deskyard.control.web.pages import Pages
from tests.control.lab import CHILD, EVERYTHING, ORIGIN, Lab
from tests.control.people import enrolled
from tests.control.test_every_call import served

SECRET = "dyk_0123456789ab_not-a-key-but-somebody-may-have-mistyped-one"


@pytest.fixture
def mission(whole: Lab) -> Lab:
    """Without its web process, which writes down what it counted as it ends."""
    if "web" in whole.processes:
        whole.end("web", signal.SIGTERM)
    whole.clear()
    if "recorder" not in whole.processes:
        whole.recorder()
    whole.work_by(CHILD)
    whole.until("select 1 where not exists (select from audit_intake)", [])
    whole.link.execute("truncate audit_entry")
    return whole


@pytest.fixture
def web(mission: Lab) -> Iterator[contextlib.ExitStack]:
    """An application that has counted nothing yet, with the web process's rights and socket; it ends with the stack."""
    mission.folder.web_socket.unlink(missing_ok=True)
    with contextlib.ExitStack() as stack:
        stack.enter_context(served(create(mission.url_as(WEB), ORIGIN, Pages()), mission.folder.web_socket))
        yield stack


@pytest.fixture
def owner(web: contextlib.ExitStack, mission: Lab) -> Iterator[httpx.Client]:
    with mission.client(mission.key(*EVERYTHING)) as client:
        yield client


def lines(mission: Lab, action: str, times: int) -> list[dict[str, Any]]:
    """The lines of an action, once they stand for so many requests."""
    query = """select 1 from audit_entry where action = %s
        having sum(coalesce((detail ->> 'times')::integer, 1)) = %s"""
    mission.until(query, [action, times])
    query = "select actor, target, detail from audit_entry where action = %s order by number"
    return mission.link.execute(query, [action]).fetchall()


def test_who_is_refused_is_written_down_at_once_with_what_and_without_what_was_sent(
    mission: Lab, owner: httpx.Client
) -> None:
    mission.declare("lab", "first")
    with mission.client() as nobody:
        assert nobody.get("/api/keys?q=hunter2", headers={"Authorization": f"Bearer {SECRET}"}).status_code == 401
    (line,) = lines(mission, "request.refused", 1)
    said = {"status": 401, "field": "caller", "times": 1}
    assert line == {"actor": "nobody", "target": "GET /api/keys", "detail": said}
    with mission.client(mission.key("read")) as reader:
        assert reader.post("/api/desktops/lab.first/stop", json={"force": True}).status_code == 403
    actor = mission.link.execute("select 'key:' || name || ':' || id as actor from api_key where scopes = '{read}'")
    found = lines(mission, "request.refused", 2)[1]
    assert found["actor"] == (actor.fetchone() or {})["actor"]
    assert (found["target"], found["detail"]["status"]) == ("POST /api/desktops/{id}/stop", 403)
    text = str(mission.link.execute("select * from audit_entry").fetchall())
    assert "hunter2" not in text and SECRET not in text and "not-a-key" not in text
    # Who may is in no such line.
    assert owner.get("/api/keys").status_code == 200
    assert len(lines(mission, "request.refused", 2)) == 2


@pytest.mark.usefixtures("web")
def test_a_page_of_another_site_is_written_down_under_nobody_it_pretends_to_be(mission: Lab) -> None:
    with mission.client() as client:
        person = enrolled(mission, client, "ada", "admin")
        answer = client.post("/api/sign-out", headers={"Origin": "https://evil.test", "X-Deskyard": "1"})
        assert answer.status_code == 403
        assert person.call("GET", "/api/me").status_code == 200
    (line,) = lines(mission, "request.refused", 1)
    assert (line["actor"], line["target"], line["detail"]["field"]) == ("nobody", "POST /api/sign-out", "origin")


def test_a_flood_is_counted_in_two_lines_a_minute_and_no_request_of_it_is_lost(mission: Lab) -> None:
    flood = 400
    mission.web()

    def ask() -> None:
        with mission.client() as nobody:
            for _ in range(flood // 4):
                assert nobody.get("/api/desktops").status_code == 401

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # What is counted is written down as the process ends, too.
    mission.end("web", signal.SIGTERM)
    found = lines(mission, "request.refused", flood)
    # A minute may have ended meanwhile.
    assert len(found) <= 4 and found[0]["detail"]["times"] == 1
    assert {line["target"] for line in found} == {"GET /api/desktops"}


def test_who_reads_keys_people_sessions_or_the_audit_is_written_down(
    mission: Lab, web: contextlib.ExitStack, owner: httpx.Client
) -> None:
    mission.declare("lab", "first")
    for path in ("keys", "people", "sessions", "audit"):
        assert owner.get(f"/api/{path}").status_code == 200
        (line,) = lines(mission, f"{path}.read", 1)
        assert line["actor"].startswith("key:test:") and line["target"] == path
    list(owner.get("/api/audit/export?after=2").iter_lines())
    (line,) = lines(mission, "audit.export", 1)
    assert line["detail"]["after"] == 2
    # What everybody who may look sees all day is not.
    for path in ("desktops", "workspaces", "operations", "me"):
        assert owner.get(f"/api/{path}").status_code == 200
    web.close()
    actions = {row["action"] for row in mission.link.execute("select distinct action from audit_entry").fetchall()}
    assert actions == {"keys.read", "people.read", "sessions.read", "audit.read", "audit.export"}


def test_each_export_and_each_link_that_is_read_is_a_line(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first")
    sent = owner.post("/api/desktops/lab.first/chat", json={"message": "a secret of mine"}).json()
    mission.state(sent["operationId"], "done")
    conversation = sent["conversationId"]
    for _ in range(2):
        assert owner.get(f"/api/conversations/{conversation}/export").status_code == 200
    assert owner.get("/api/workspaces/lab/conversations/export?format=markdown").status_code == 200
    assert [line["target"] for line in lines(mission, "conversation.export", 2)] == [conversation] * 2
    (line,) = lines(mission, "conversations.export", 1)
    assert (line["target"], line["detail"]) == ("lab", {"format": "markdown"})
    operation = owner.post("/api/desktops/lab.first/session", json={"mode": "view"}).json()["id"]
    mission.state(operation, "done")
    for _ in range(2):
        owner.get(f"/api/operations/{operation}")
    (line,) = lines(mission, "link.read", 1)
    assert (line["target"], line["detail"]) == ("lab.first", {"operation": operation})
    text = str(mission.link.execute("select * from audit_entry").fetchall())
    assert "a secret of mine" not in text and "#ticket" not in text


def test_another_minute_begins_a_line_at_once_again(
    mission: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tally_module, "WINDOW_SECONDS", 0.5)
    with (
        served(create(mission.url(OWNER), ORIGIN, Pages()), tmp_path / "socket") as path,
        mission.client(path=path) as client,
    ):
        for times in (1, 2, 3):
            assert client.get("/api/keys").status_code == 401
            lines(mission, "request.refused", times)


class Away:
    """A database that is away until it is said to be back, and refuses what is said in the name of `refused`."""

    def __init__(self, is_away: bool = True) -> None:
        self.is_away = is_away
        self.noted: list[list[Any]] = []

    def connection(self) -> "Away":
        return self

    async def __aenter__(self) -> "Away":
        if self.is_away:
            raise psycopg.OperationalError("away")
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def execute(self, _query: str, values: list[Any]) -> None:
        if values[0] == "refused":
            raise psycopg.errors.InsufficientPrivilege("no such line")
        self.noted.append(values)


def test_a_line_that_the_database_refuses_keeps_no_later_one_from_the_audit(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        database = Away(is_away=False)
        found = Tally(database)
        found.add(Asked("refused", "request.refused", "GET /api/keys", 403, "scope"))
        await found.finish()
        found.add(Asked("person:ada", "keys.read", "keys"))
        await found.finish()
        assert [values[0] for values in database.noted] == ["person:ada"]

    asyncio.run(run())
    assert "1 lines of requests were refused" in caplog.text


def test_what_is_asked_while_the_database_is_away_is_written_down_later_and_bounded() -> None:
    async def run() -> None:
        away = Away()
        found = Tally(away)
        for number in range(MOST + 50):
            for _ in range(2):
                found.add(Asked(f"person:{number}", "request.refused", "GET /api/keys", 403, "scope"))
        await found.finish()
        assert away.noted == []
        away.is_away = False
        await found.finish()
        times = [values[3].obj["times"] for values in away.noted]
        assert (len(times), sum(times)) == (MOST + 1, 2 * (MOST + 50))
        (others,) = [values for values in away.noted if values[0] == "others"]
        assert others[3].obj["times"] == 100

    asyncio.run(run())


def test_a_whole_chain_holds_with_lines_of_requests_in_it(mission: Lab, owner: httpx.Client) -> None:
    with mission.client() as nobody:
        nobody.get("/api/keys")
    owner.get("/api/audit")
    lines(mission, "audit.read", 1)
    assert owner.get("/api/audit/verify").json()["ok"]
