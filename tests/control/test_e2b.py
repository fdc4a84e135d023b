"""E2B's unmodified clients make, find, stop and destroy desktops by the real Mission Control, with its keys."""

import asyncio
import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from deskyard_e2b.naming import Choice, desktop_id
from deskyard_sdk import DesktopError
from deskyard_sdk.mission import AsyncMissionControl
from e2b import (
    AsyncSandbox,
    AuthenticationException,
    NotFoundException,
    Sandbox,
    SandboxException,
    SandboxNotFoundException,
    SandboxQuery,
    SandboxState,
)

from tests.control.lab import Lab
from tests.support import npm
from tests.support.e2b_door import Served, served

MAY = ("read", "desktops:write", "desktops:destroy")
WHOLE_LIFE = ["desktop.create", "desktop.pause", "desktop.resume", "desktop.destroy"]
TIERS = '[{"name": "free", "vcpus": 2, "memoryGib": 4.0, "diskGib": 20, "homeGib": 10},'
TIERS += ' {"name": "pro", "vcpus": 4, "memoryGib": 8.0, "diskGib": 40, "homeGib": 20}]'
# What the observer writes down as it happens, written by the database: nothing else moves machines here.
OBSERVER = """
create or replace function played_observer() returns trigger language plpgsql as $$ begin
    if new.kind = 'desktop.create' then
        insert into desktop (id, workspace_id, name, tier, image, address, state) values (new.desktop_id,
            new.workspace_id, new.input->>'name', new.input->>'tier', 'desktop', '10.0.0.2', 'ready');
    elsif new.kind = 'desktop.destroy' then update desktop set gone_at = now() where id = new.desktop_id;
    elsif new.kind = 'desktop.stop' then update desktop set state = 'stopped' where id = new.desktop_id;
    elsif new.kind = 'desktop.pause' then update desktop set state = 'paused' where id = new.desktop_id;
    elsif new.kind in ('desktop.start', 'desktop.resume', 'desktop.restart') then
        update desktop set state = 'ready' where id = new.desktop_id;
    end if; return null; end $$;
create or replace trigger played_observer after update of state on operation
    for each row when (new.state = 'done') execute function played_observer();
"""


@contextlib.contextmanager
def observing(mission: Lab) -> Iterator[Lab]:
    """A Mission Control whose observer is played, with a workspace and a person's desktop in it."""
    mission.link.execute(OBSERVER)
    mission.declare("lab", "persons")
    mission.link.execute("update workspace set tiers = %s::jsonb", [TIERS])
    yield mission
    mission.link.execute("drop trigger played_observer on operation; drop function played_observer")


@pytest.fixture
def observed(mission: Lab) -> Iterator[Lab]:
    with observing(mission) as found:
        yield found


@pytest.fixture
def door(observed: Lab, tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "e2b.sqlite", opens_of(observed), default=Choice("lab")) as found:
        yield found


@pytest.fixture
def key(observed: Lab) -> str:
    return observed.key(*MAY)


def opens_of(lab: Lab) -> Any:
    async def opens(key: str) -> AsyncMissionControl:
        transport = httpx.AsyncHTTPTransport(verify=False, uds=str(lab.folder.web_socket))
        headers = {"Authorization": f"Bearer {key}"}
        client = httpx.AsyncClient(transport=transport, base_url="http://lab", headers=headers, timeout=60)
        found = AsyncMissionControl(client, None)
        try:
            await found.me()
        except DesktopError:
            await found.close()
            raise
        return found

    return opens


def listed(door: Served, key: str, limit: int | None = None, **query: Any) -> list[list[str]]:
    """The names in a list, page by page."""
    paginator = Sandbox.list(query=SandboxQuery(**query), limit=limit, **_api(door, key))
    pages = []
    while paginator.has_next:
        pages.append([item.sandbox_id for item in paginator.next_items()])
    return pages


def _api(door: Served, key: str) -> dict[str, Any]:
    return {"api_key": key, "api_url": door.url}


def ended(lab: Lab, sandbox: str) -> list[str]:
    """What was done with the desktop of a sandbox, in order."""
    desktop = desktop_id(sandbox)
    return [line["kind"] for line in lab.all_effects() if line["event"] == "end" and line["desktop"] == desktop]


def becomes(lab: Lab, sandbox: Sandbox, state: str) -> None:
    """Wait until the desktop of a sandbox is in a state."""
    lab.until("select 1 from desktop where id = %s and state = %s", [desktop_id(sandbox.sandbox_id), state])


def test_a_sandbox_is_made_listed_paused_resumed_and_killed(observed: Lab, door: Served, key: str) -> None:
    sandbox = door.create(key, template="lab/pro", timeout=600, metadata={"odd name": "ä=ö&?"})
    id = sandbox.sandbox_id
    assert id.startswith("lab--e2b-")
    info = sandbox.get_info()
    assert (info.template_id, info.metadata, info.state) == ("lab/pro", {"odd name": "ä=ö&?"}, SandboxState.RUNNING)
    assert (info.cpu_count, info.memory_mb) == (4, 8192)
    assert 590 < (info.end_at - datetime.now(UTC)).total_seconds() <= 600
    sandbox.set_timeout(3600)
    assert 3590 < (sandbox.get_info().end_at - datetime.now(UTC)).total_seconds() <= 3600
    assert listed(door, key, metadata={"odd name": "ä=ö&?"}) == [[id]]
    assert listed(door, key, metadata={"odd name": "other"}) == [[]]
    assert listed(door, key, state=[SandboxState.RUNNING], template="lab/pro") == [[id]]
    assert sandbox.pause()
    assert not sandbox.pause(), "it is paused already"
    assert listed(door, key, state=[SandboxState.PAUSED]) == [[id]]
    older = httpx.get(f"{door.url}/sandboxes", headers={"X-API-KEY": key}).json()
    assert [item["sandboxID"] for item in older] == ["lab--persons"], "the older list has those that run"
    again = door.connect(key, id)
    assert again.get_info().state == SandboxState.RUNNING
    assert again.kill()
    assert not again.kill(), "it is gone"
    with pytest.raises(SandboxNotFoundException):
        sandbox.get_info()
    with pytest.raises(NotFoundException):
        door.connect(key, id)
    assert ended(observed, id) == WHOLE_LIFE


def test_the_javascript_client_does_the_same(observed: Lab, door: Served, key: str, e2b_packages: Path) -> None:
    id = npm.run(e2b_packages, "lifecycle.mjs", {"options": door.for_javascript(key)})
    assert ended(observed, id) == WHOLE_LIFE


def test_the_asynchronous_client_does_the_same(observed: Lab, door: Served, key: str) -> None:
    async def live() -> str:
        api = door.with_key(key)
        sandbox = await AsyncSandbox.create("lab/pro", timeout=600, metadata={"found": "this"}, **api)
        id = sandbox.sandbox_id
        await sandbox.set_timeout(3600)
        info = await sandbox.get_info()
        assert (info.template_id, info.metadata, info.state) == ("lab/pro", {"found": "this"}, SandboxState.RUNNING)
        assert (info.end_at - datetime.now(UTC)).total_seconds() > 600
        assert await sandbox.pause()
        pages = AsyncSandbox.list(query=SandboxQuery(state=[SandboxState.PAUSED]), **_api(door, key))
        assert [item.sandbox_id for item in await pages.next_items()] == [id]
        again = await AsyncSandbox.connect(id, **api)
        assert (await again.get_info()).state == SandboxState.RUNNING
        assert await again.kill()
        assert not await again.kill(), "it is gone"
        return id

    assert ended(observed, asyncio.run(live())) == WHOLE_LIFE


def test_a_list_comes_in_pages(observed: Lab, door: Served, key: str) -> None:
    observed.declare("lab", *(f"d{number}" for number in range(4)))
    pages = listed(door, key, limit=2)
    assert [len(page) for page in pages] == [2, 2, 1]
    assert {name for page in pages for name in page} == {"lab--persons", *(f"lab--d{number}" for number in range(4))}
    for query in ("limit=0", "limit=x", "nextToken=x", "state=asleep", "order=up", "startedAfter=x"):
        answer = httpx.get(f"{door.url}/v2/sandboxes?{query}", headers={"X-API-KEY": key})
        assert (answer.status_code, answer.json()["code"]) == (400, 400), query


def test_the_same_wish_again_makes_nothing_more(observed: Lab, door: Served, key: str) -> None:
    headers = {"X-API-KEY": key, "Idempotency-Key": "job-17"}
    answers: list[dict[str, Any]] = []

    def wish(place: str = "/v2/sandboxes") -> None:
        answer = httpx.post(door.url + place, headers=headers, json={"templateID": "base"}, timeout=60)
        assert answer.status_code == 201, answer.text
        answers.append(answer.json())

    wishing = [threading.Thread(target=wish) for _ in range(3)]
    for thread in wishing:
        thread.start()
    for thread in wishing:
        thread.join()
    door.restart()
    wish("/sandboxes")
    assert len(answers) == 4
    assert len({answer["envdAccessToken"] for answer in answers}) == 1
    # Even where all that the program kept is lost.
    door.stop()
    door.state.unlink()
    door.start()
    wish()
    assert len({answer["sandboxID"] for answer in answers}) == 1
    headers["X-API-KEY"] = observed.key(*MAY)
    wish()
    assert answers[-1]["sandboxID"] != answers[0]["sandboxID"], "another key's wish is another one"
    made = [line for line in observed.all_effects() if line["event"] == "end" and line["kind"] == "desktop.create"]
    assert len(made) == 2


def test_a_restart_loses_nothing_and_the_file_opens_nothing(door: Served, key: str) -> None:
    sandbox = door.create(key, timeout=900, metadata={"found": "this"})
    token = sandbox._envd_access_token
    assert token is not None
    door.restart()
    again = door.connect(key, sandbox.sandbox_id, timeout=60)
    info = again.get_info()
    assert info.metadata == {"found": "this"}
    assert (info.end_at - datetime.now(UTC)).total_seconds() > 800, "to connect makes no time shorter"
    assert again._envd_access_token == token
    assert door.state.stat().st_mode & 0o777 == 0o600
    content = door.state.read_bytes()
    assert b"this" in content
    assert key.encode() not in content and key[17:60].encode() not in content
    assert token.encode() not in content and token.removeprefix("dye_").encode() not in content


def test_a_key_does_here_what_it_may_at_mission_control(observed: Lab, door: Served, key: str) -> None:
    for wrong in ("", "dyk_nobody", "e2b_" + "0" * 40, "dyk_" + "ä" * 50):
        answer = httpx.get(f"{door.url}/v2/sandboxes", headers=[(b"X-API-KEY", wrong.encode())])
        assert (answer.status_code, answer.json()["code"]) == (401, 401)
        assert "./inv control.key" in answer.json()["message"]
    reader, elsewhere = observed.key("read"), observed.key(*MAY, workspaces=["other"])
    assert Sandbox.get_info("lab--persons", **_api(door, reader)).state == SandboxState.RUNNING
    with pytest.raises(SandboxException, match="403"):
        door.create(reader)
    assert listed(door, elsewhere) == [[]]
    with pytest.raises(SandboxNotFoundException):
        Sandbox.get_info("lab--persons", **_api(door, elsewhere))
    observed.link.execute("update api_key set revoked_at = now()")
    for _ in range(2):
        with pytest.raises(AuthenticationException):
            Sandbox.get_info("lab--persons", **_api(door, reader))
    assert observed.all_effects() == []


def test_a_desktop_that_was_not_made_here_is_used_and_never_ended(observed: Lab, door: Served, key: str) -> None:
    sandbox = door.connect(key, "lab--persons", timeout=0)
    assert sandbox.get_info().end_at.year == 9999
    with pytest.raises(SandboxException, match="no timeout ends"):
        sandbox.set_timeout(0)
    with pytest.raises(SandboxException, match=r"was not made by Sandbox\.create"):
        sandbox.kill()
    assert observed.effects("lab.persons") == []
    assert sandbox.pause(), "whoever has the key may stop it"


def test_what_cannot_be_is_refused_before_anything_is_made(observed: Lab, door: Served, key: str) -> None:
    def refusal(path: str, **body: Any) -> tuple[int, str]:
        answer = httpx.post(door.url + path, headers={"X-API-KEY": key}, **body).json()
        return answer["code"], answer["message"]

    for template, said in (("nowhere", "workspaces: lab"), ("lab/huge", "give free, pro")):
        code, message = refusal("/v2/sandboxes", json={"templateID": template})
        assert (code, said in message) == (404, True), message
    for path in ("/sandboxes/lab--persons/fork", "/v3/templates", "/volumes", "/sandboxes/lab--persons/metrics"):
        code, message = refusal(path, json={})
        assert (code, "is not offered by Deskyard" in message) == (501, True), message
    for body in (b"[]", b"{", b'{"templateID": 1}', b'{"templateID": "base", "timeout": -1}'):
        assert refusal("/v2/sandboxes", content=body)[0] == 400
    assert refusal("/nowhere", json={})[0] == 404
    observed.link.execute("insert into quota (subject, desktops, actor) values ('workspace:lab', 0, 'test')")
    with pytest.raises(SandboxException, match="quota"):
        door.create(key)
    assert observed.all_effects() == []


def test_an_end_that_was_missed_is_made_up_for_when_a_key_is_heard(observed: Lab, door: Served, key: str) -> None:
    sandbox = door.create(key)
    door.stop()
    with contextlib.closing(sqlite3.connect(door.state, isolation_level=None)) as link:
        link.execute("update sandbox set ends = ?", [time.time() - 60])
    door.start()
    assert httpx.get(f"{door.url}/v2/sandboxes", headers={"X-API-KEY": "dyk_wrong"}).status_code == 401
    assert ended(observed, sandbox.sandbox_id) == ["desktop.create"], "nobody with a key was here"
    assert listed(door, key)
    becomes(observed, sandbox, "stopped")
    # It can be gone on with, and ends again.
    again = door.connect(key, sandbox.sandbox_id, timeout=600)
    assert again.get_info().state == SandboxState.RUNNING
    again.set_timeout(0)
    becomes(observed, sandbox, "stopped")
    assert ended(observed, sandbox.sandbox_id) == ["desktop.create", "desktop.stop", "desktop.start", "desktop.stop"]


@pytest.mark.parametrize("may_destroy", [True, False])
def test_an_end_destroys_where_the_host_wants_it_and_the_key_may(
    observed: Lab, tmp_path: Path, may_destroy: bool
) -> None:
    key = observed.key(*(MAY if may_destroy else MAY[:2]))
    with served(tmp_path / "e2b.sqlite", opens_of(observed), action="destroy") as door:
        sandbox = door.create(key)
        expected = "desktop.destroy" if may_destroy else "desktop.stop"
        if may_destroy:
            # Who asks for a pause at the end gets that.
            kept = door.create(key, lifecycle={"on_timeout": "pause"})
            kept.set_timeout(0)
            becomes(observed, kept, "paused")
        else:
            with pytest.raises(SandboxException, match="403"):
                sandbox.kill()
        sandbox.set_timeout(0)
        query = "select 1 from operation where desktop_id = %s and kind = %s and state = 'done'"
        observed.until(query, [desktop_id(sandbox.sandbox_id), expected])
