"""E2B's unmodified clients pause desktops with their memory by the real Mission Control, and go on with them."""

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
from e2b import AsyncSandbox, Sandbox, SandboxException, SandboxNotFoundException, SandboxState

from deskyard.host.deadline import Deadline
from tests.control.lab import Lab
from tests.control.test_e2b import MAY, becomes, ended, listed, observing, opens_of
from tests.support import npm
from tests.support.e2b_door import Served, served

BEGUN, PAUSED, RESUMED = "desktop.create", "desktop.pause", "desktop.resume"
STOPPED, STARTED, DESTROYED = "desktop.stop", "desktop.start", "desktop.destroy"


@pytest.fixture
def observed(mission: Lab) -> Iterator[Lab]:
    with observing(mission) as found:
        yield found


@pytest.fixture(params=["stop"])
def door(request: Any, observed: Lab, tmp_path: Path) -> Iterator[Served]:
    choice = Choice("lab")
    with served(tmp_path / "e2b.sqlite", opens_of(observed), default=choice, action=request.param) as found:
        yield found


@pytest.fixture
def key(observed: Lab) -> str:
    return observed.key(*MAY)


def wanted_of(lab: Lab, sandbox: Sandbox, kind: str) -> list[dict[str, Any]]:
    """What Mission Control was asked for with each operation of a kind."""
    query = "select input from operation where desktop_id = %s and kind = %s order by created_at"
    return [row["input"] for row in lab.link.execute(query, [desktop_id(sandbox.sandbox_id), kind]).fetchall()]


def asked(door: Served, key: str, place: str, **body: Any) -> httpx.Response:
    """What a call is answered, as any client may make it."""
    return httpx.post(f"{door.url}/{place}", headers={"X-API-KEY": key}, json=body, timeout=60)


def let_end(door: Served, sandbox: Sandbox) -> None:
    """Let the time of a sandbox be over while the program does not run."""
    door.stop()
    with contextlib.closing(sqlite3.connect(door.state, isolation_level=None)) as link:
        link.execute("update sandbox set ends = ? where id = ?", [time.time() - 60, sandbox.sandbox_id])
    door.start()


def is_put_off(door: Served, sandbox: Sandbox) -> bool:
    """Whether the end of a sandbox, which was over, is ahead again."""
    with contextlib.closing(sqlite3.connect(door.state)) as link:
        (ends,) = link.execute("select ends from sandbox where id = ?", [sandbox.sandbox_id]).fetchone()
    return bool(ends > time.time())


def test_a_pause_keeps_the_memory_on_disk_and_connect_goes_on_with_it(observed: Lab, door: Served, key: str) -> None:
    sandbox = door.create(key, timeout=600)
    assert sandbox.beta_pause()
    assert wanted_of(observed, sandbox, PAUSED) == [{"to_disk": True}], "its memory is free on the host"
    assert sandbox.get_info().state == SandboxState.PAUSED
    assert listed(door, key, state=[SandboxState.PAUSED]) == [[sandbox.sandbox_id]]
    assert not sandbox.pause(), "it is paused already"
    again = door.connect(key, sandbox.sandbox_id, timeout=1200)
    info = again.get_info()
    assert info.state == SandboxState.RUNNING
    assert 1190 < (info.end_at - datetime.now(UTC)).total_seconds() <= 1200, "its time begins anew"
    assert ended(observed, sandbox.sandbox_id) == [BEGUN, PAUSED, RESUMED]


def test_a_pause_of_the_files_alone_stops_the_desktop(observed: Lab, door: Served, key: str) -> None:
    sandbox = door.create(key)
    kept = asked(door, key, f"sandboxes/{sandbox.sandbox_id}/pause", memory=False)
    assert (kept.status_code, kept.headers["X-Deskyard-Kept"]) == (204, "files")
    assert sandbox.get_info().state == SandboxState.PAUSED
    # The older generation's call goes on with it, once.
    resumed = asked(door, key, f"sandboxes/{sandbox.sandbox_id}/resume", timeout=60)
    assert resumed.status_code == 201
    assert asked(door, key, f"sandboxes/{sandbox.sandbox_id}/resume", timeout=60).status_code == 409
    assert ended(observed, sandbox.sandbox_id) == [BEGUN, STOPPED, STARTED]
    for place, body in (("pause", {"memory": "yes"}), ("connect", {"memory": 1})):
        refused = asked(door, key, f"sandboxes/{sandbox.sandbox_id}/{place}", **body)
        assert (refused.status_code, "must be true or false" in refused.text) == (400, True)


def test_who_wants_a_boot_gets_one_in_place_of_the_memory(observed: Lab, door: Served, key: str) -> None:
    sandbox = door.create(key)
    sandbox.pause()
    assert asked(door, key, f"v2/sandboxes/{sandbox.sandbox_id}/connect", timeout=60, memory=False).status_code == 201
    assert wanted_of(observed, sandbox, "desktop.restart") == [{"force": True}]
    assert sandbox.get_info().state == SandboxState.RUNNING


def test_where_no_memory_can_be_kept_the_desktop_is_stopped_unless_it_was_asked_for(
    observed: Lab, door: Served, key: str
) -> None:
    (observed.path / "full").touch()
    sandbox = door.create(key)
    refused = asked(door, key, f"sandboxes/{sandbox.sandbox_id}/pause", memory=True)
    assert (refused.status_code, "has no room for its memory: add space" in refused.text) == (500, True)
    assert sandbox.get_info().state == SandboxState.RUNNING
    kept = asked(door, key, f"sandboxes/{sandbox.sandbox_id}/pause")
    assert (kept.status_code, kept.headers["X-Deskyard-Kept"]) == (204, "files")
    assert sandbox.get_info().state == SandboxState.PAUSED
    assert door.connect(key, sandbox.sandbox_id).get_info().state == SandboxState.RUNNING
    assert ended(observed, sandbox.sandbox_id) == [BEGUN, STOPPED, STARTED]


def test_a_key_that_may_not_write_pauses_nothing(observed: Lab, door: Served) -> None:
    with pytest.raises(SandboxException, match="403"):
        door.connect(observed.key("read"), "lab--persons").pause()
    assert observed.all_effects() == []


@pytest.mark.parametrize("backups", [False, True])
def test_a_paused_sandbox_is_killed(observed: Lab, door: Served, key: str, backups: bool) -> None:
    sandbox = door.create(key)
    sandbox.pause()
    if backups:
        # No backup holds a memory: the last one is made of the desktop as it goes on.
        (observed.path / "backups").touch()
    assert sandbox.kill()
    with pytest.raises(SandboxNotFoundException):
        sandbox.get_info()
    assert ended(observed, sandbox.sandbox_id) == [BEGUN, PAUSED, *([RESUMED] if backups else []), DESTROYED]


@pytest.mark.parametrize("door", ["destroy"], indirect=True)
def test_no_time_of_a_paused_sandbox_runs(observed: Lab, door: Served, key: str, owner: httpx.Client) -> None:
    paused, by_a_person, other = (door.create(key, timeout=600) for _ in range(3))
    paused.pause()
    with pytest.raises(SandboxNotFoundException):
        paused.set_timeout(60)
    path = f"/api/desktops/{desktop_id(by_a_person.sandbox_id)}/pause"
    assert owner.post(path, headers={"Prefer": "wait=30"}).json()["state"] == "done"
    for sandbox in (paused, by_a_person, other):
        let_end(door, sandbox)
    # Whose key is heard: the end of the third is done, and those of the others would have been before.
    assert listed(door, key)
    query = "select 1 from operation where desktop_id = %s and kind = 'desktop.destroy' and state = 'done'"
    observed.until(query, [desktop_id(other.sandbox_id)])
    for sandbox in (paused, by_a_person):
        assert ended(observed, sandbox.sandbox_id) == [BEGUN, PAUSED]
        assert door.connect(key, sandbox.sandbox_id).get_info().state == SandboxState.RUNNING
    by_a_person.set_timeout(0)
    observed.until(query, [desktop_id(by_a_person.sandbox_id)])


@pytest.mark.parametrize(("door", "over"), [("stop", STOPPED), ("destroy", DESTROYED)], indirect=["door"])
def test_what_a_person_lets_go_on_has_its_time_anew_and_ends(
    observed: Lab, door: Served, key: str, owner: httpx.Client, over: str
) -> None:
    sandbox = door.create(key)
    path = f"/api/desktops/{desktop_id(sandbox.sandbox_id)}"
    for verb in ("pause", "resume"):
        assert owner.post(f"{path}/{verb}", headers={"Prefer": "wait=30"}).json()["state"] == "done"
        # Found paused at its end, and then running: both times it has some more, also after a restart of the program.
        let_end(door, sandbox)
        assert listed(door, key)
        assert Deadline(60).wait_for(lambda: is_put_off(door, sandbox), 0.05)
    assert ended(observed, sandbox.sandbox_id) == [BEGUN, PAUSED, RESUMED]
    let_end(door, sandbox)
    assert listed(door, key)
    query = "select 1 from operation where desktop_id = %s and kind = %s and state = 'done'"
    observed.until(query, [desktop_id(sandbox.sandbox_id), over])
    assert ended(observed, sandbox.sandbox_id) == [BEGUN, PAUSED, RESUMED, over]


def test_a_client_says_how_long_what_was_paused_at_its_end_lasts(observed: Lab, door: Served, key: str) -> None:
    sandbox = door.create(key)
    observed.link.execute("update desktop set state = 'paused', state_at = now() where id <> 'lab.persons'")
    let_end(door, sandbox)
    assert listed(door, key)
    assert Deadline(60).wait_for(lambda: is_put_off(door, sandbox), 0.05)
    observed.link.execute("update desktop set state = 'ready', state_at = now() where id <> 'lab.persons'")
    info = door.connect(key, sandbox.sandbox_id, timeout=60).get_info()
    assert (info.end_at - datetime.now(UTC)).total_seconds() <= 60


def test_an_end_pauses_as_its_client_wanted(observed: Lab, door: Served, key: str) -> None:
    whole = door.create(key, lifecycle={"on_timeout": "pause"})
    made = asked(door, key, "sandboxes", templateID="base", autoPause=True, autoPauseMemory=False).json()
    files = door.connect(key, made["sandboxID"])
    for sandbox, state in ((whole, "paused"), (files, "stopped")):
        door.restart()
        door.connect(key, sandbox.sandbox_id).set_timeout(0)
        becomes(observed, sandbox, state)
    assert ended(observed, whole.sandbox_id) == [BEGUN, PAUSED]
    assert ended(observed, files.sandbox_id) == [BEGUN, STOPPED]


def test_an_end_stops_what_cannot_keep_its_memory(observed: Lab, door: Served, key: str) -> None:
    (observed.path / "full").touch()
    sandbox = door.create(key, lifecycle={"on_timeout": "pause"})
    sandbox.set_timeout(0)
    becomes(observed, sandbox, "stopped")


def test_who_connects_while_a_sandbox_is_paused_goes_on_with_it(observed: Lab, door: Served, key: str) -> None:
    observed.declare("lab", "blocks-pause")
    sandbox, joined = door.connect(key, "lab--blocks-pause"), threading.Event()
    gate = observed.gate("blocks-pause")
    pausing = threading.Thread(target=sandbox.pause)
    pausing.start()
    observed.until("select 1 from operation where kind = 'desktop.pause' and state = 'running'", [])

    def join() -> None:
        door.connect(key, sandbox.sandbox_id)
        joined.set()

    joining = threading.Thread(target=join)
    joining.start()
    gate.write_text("go\n")
    pausing.join(60)
    observed.until("select 1 from operation where kind = 'desktop.resume' and state = 'running'", [])
    assert not joined.is_set()
    gate.write_text("go\n")
    joining.join(60)
    assert joined.is_set()
    assert ended(observed, sandbox.sandbox_id) == [PAUSED, RESUMED]


def test_what_was_done_counts_before_it_is_seen(mission: Lab, tmp_path: Path) -> None:
    # Nobody plays the observer here: whatever is done, Mission Control says that the desktop is ready.
    mission.declare("lab", "persons")
    key = mission.key(*MAY)
    with served(tmp_path / "e2b.sqlite", opens_of(mission)) as door:
        sandbox = door.connect(key, "lab--persons")
        assert sandbox.pause()
        assert sandbox.get_info().state == SandboxState.PAUSED
        assert listed(door, key, state=[SandboxState.PAUSED]) == [["lab--persons"]]
        assert not sandbox.pause()
        assert door.connect(key, "lab--persons").get_info().state == SandboxState.RUNNING
        assert ended(mission, "lab--persons") == [PAUSED, RESUMED]
        # What is seen later counts: somebody else paused it.
        mission.link.execute("update desktop set state = 'paused', state_at = now()")
        assert sandbox.get_info().state == SandboxState.PAUSED


def test_the_asynchronous_client_and_javascript_s_do_the_same(
    observed: Lab, door: Served, key: str, e2b_packages: Path
) -> None:
    async def live() -> str:
        sandbox = await AsyncSandbox.create(lifecycle={"on_timeout": "pause"}, **door.with_key(key))
        assert await sandbox.beta_pause()
        assert not await sandbox.pause()
        again = await AsyncSandbox.connect(sandbox.sandbox_id, **door.with_key(key))
        assert (await again.get_info()).state == SandboxState.RUNNING
        assert await again.kill()
        return sandbox.sandbox_id

    assert ended(observed, asyncio.run(live())) == [BEGUN, PAUSED, RESUMED, DESTROYED]
    id = npm.run(e2b_packages, "pause.mjs", {"options": door.for_javascript(key)})
    assert ended(observed, id) == [BEGUN, PAUSED, RESUMED, STOPPED, STARTED, DESTROYED]
