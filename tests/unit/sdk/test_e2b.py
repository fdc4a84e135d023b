"""What the door for E2B's clients reads, keeps and refuses before anybody asks it."""

import asyncio
import contextlib
import functools
import json
import os
import re
import sqlite3
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import e2b
import pytest
from deskyard_e2b import __main__ as program
from deskyard_e2b import answers, doors, ending, environment, naming, web, wishes
from deskyard_e2b.control import ControlPlane, _nowhere
from deskyard_e2b.doors import Ways
from deskyard_e2b.keeping import Keeping, Kept, owner_of, token_for
from deskyard_e2b.keyring import Caller, Keyring
from deskyard_e2b.naming import Choice
from deskyard_e2b.passing import DataPlane
from deskyard_e2b.sandboxes import LAST_BACKUP, Sandboxes
from deskyard_sdk import DesktopError
from deskyard_sdk.mission import AsyncMissionControl
from starlette.routing import Match, Route

from deskyard.computer.envd.part import ENVD_VERSION
from deskyard.control.e2b import declared, serving
from deskyard.errors import DeskyardError, HostError
from deskyard.gateway.machine.layout import Layout
from deskyard.life.backup import final

# How the client that E2B generates from its document names what it asks.
ASKS = re.compile(r'"method": "(\w+)",\s+"url": f?"([^"]+)"')
STATE = {"url": "https://mission.localhost:9443", "folder": "/x", "certificate_authority": "/ca.pem"}


@pytest.mark.parametrize("workspace", ["lab", "a", "my--place", "w" * 32])
@pytest.mark.parametrize("desktop", ["reader", "e2b-0123456789abcdef", "a--b", "x"])
def test_each_desktop_is_a_sandbox_and_leads_back(workspace: str, desktop: str) -> None:
    sandbox = naming.sandbox_id(workspace, desktop)
    assert naming.desktop_id(sandbox) == f"{workspace}.{desktop}"
    assert set(sandbox) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") and sandbox[0] != "-"
    assert naming.sandbox_of(f"{workspace}.{desktop}") == sandbox


@pytest.mark.parametrize("workspace", ["lab", "my--place"])
def test_each_machine_of_a_seat_is_a_sandbox_of_its_own_and_leads_back(workspace: str) -> None:
    sandbox = naming.sandbox_of(f"{workspace}.task1", "0a1b2c3d4e5f6071")
    assert naming.desktop_id(sandbox) == f"{workspace}.task1"
    assert naming.machine_of(sandbox) == "0a1b2c3d4e5f6071"
    assert naming.machine_of(naming.sandbox_of(f"{workspace}.task1")) is None


@pytest.mark.parametrize("numbered", ["0a1b-", "0-lab--x", "0A1B-lab--x", "00-00-lab--x"])
def test_what_is_no_name_of_a_machine_leads_nowhere(numbered: str) -> None:
    assert naming.desktop_id(numbered) is None


@pytest.mark.parametrize(
    "wrong", ["", "lab", "lab.reader", "lab--", "--x", "Lab--x", "3-lab-x", "9-a--b-c", "lab--x/../y"]
)
def test_what_is_no_name_of_a_sandbox_leads_nowhere(wrong: str) -> None:
    assert naming.desktop_id(wrong) is None


def test_a_template_says_workspace_and_tier() -> None:
    default = Choice("lab", "pro")
    assert naming.chosen("base", default, ["lab", "other"]) == ("lab", "pro")
    assert naming.chosen("other", default, ["lab", "other"]) == ("other", "pro")
    assert naming.chosen("other/max", default, ["lab", "other"]) == ("other", "max")
    assert naming.chosen("desktop", Choice(), ["only"]) == ("only", "free")
    for template, choice, seen in (
        ("base", Choice(), ["a", "b"]),
        ("python", default, ["lab"]),
        ("base", default, ["b"]),
    ):
        with pytest.raises(DesktopError) as refused:
            naming.chosen(template, choice, seen)
        assert all(name in str(refused.value) for name in seen)


def test_what_is_written_twice_is_the_same() -> None:
    assert answers.ENVD_VERSION == ENVD_VERSION
    assert Layout.streams_per_session == doors.AT_ONCE
    assert Layout.streams_per_desktop == doors.AT_ONCE * doors.MOST_DOORS
    with pytest.raises(DeskyardError) as refused, final._or_without("lab/a", "--no-backup"):
        raise HostError("machine", "lab-a", "is paused", "let it go on")
    assert refused.value.field == LAST_BACKUP
    assert (declared.ENDINGS, declared.MOST_TASK_SECONDS) == (ending.ENDINGS, program.MOST_TASK_SECONDS)


def test_a_file_that_others_read_or_that_is_in_use_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "new" / "e2b.sqlite"
    keeping = Keeping(path)
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(DesktopError, match="is in use"):
        Keeping(path)
    keeping.close()
    path.chmod(0o644)
    with pytest.raises(DesktopError, match="chmod 600"):
        Keeping(path)
    other = tmp_path / "text"
    other.write_text("no database, but a text that is long enough to be none" * 20)
    other.chmod(0o600)
    with pytest.raises(DesktopError, match="cannot be used"):
        Keeping(other)


def test_a_token_is_of_its_key_and_sandbox_and_is_forgotten_with_it(tmp_path: Path) -> None:
    keeping = Keeping(tmp_path / "e2b.sqlite")
    first = Kept("lab--a", b"o", b"nonce", True, "base", {}, 1.0, 2.0)
    again = Kept("lab--a", b"o", b"other", True, "base", {}, 1.0, 2.0)
    keeping.add(first)
    token = token_for("key", first)
    keeping.give("lab--a", token, b"o")
    assert keeping.owner_of("lab--a", token) == b"o"
    assert keeping.owner_of("lab--b", token) is None
    assert len({token, token_for("other", first), token_for("key", again)}) == 3
    keeping.add(again)
    assert keeping.owner_of("lab--a", token) is None, "another desktop of the same name"
    keeping.kill("lab--a")
    keeping.close()
    keeping = Keeping(tmp_path / "e2b.sqlite")
    found = keeping.find("lab--a")
    assert found is not None and not found.killed, "whether it is gone, Mission Control knows"
    keeping.close()


def test_a_file_of_an_earlier_release_is_read_and_keeps_what_is_newer(tmp_path: Path) -> None:
    path = tmp_path / "e2b.sqlite"
    kept = Kept("lab--a", b"o", b"nonce", True, "base", {"a": "b"}, 1.0, 2.0, pauses=True)
    keeping = Keeping(path)
    keeping.add(kept)
    keeping.close()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as link:
        for column in ("memory", "rests"):
            link.execute(f"alter table sandbox drop column {column}")
    keeping = Keeping(path)
    assert keeping.find("lab--a") == kept, "its pause keeps the memory, as E2B's own does"
    files = replace(kept, id="lab--b", memory=False, rests=True)
    keeping.add(files)
    keeping.close()
    keeping = Keeping(path)
    assert keeping.all() == {"lab--a": kept, "lab--b": files}
    keeping.close()


def test_variables_of_a_sandbox_are_read_once_and_forgotten_when_it_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeping, reads = Keeping(tmp_path / "e2b.sqlite"), list[Any]()

    async def read(door: Any) -> dict[str, str]:
        reads.append(door)
        return {"TOKEN": str(door)}

    monkeypatch.setattr(environment, "read", read)
    plane = DataPlane(keeping, cast(Any, None), cast(Any, None))

    def variables(sandbox: Kept) -> dict[str, str]:
        return asyncio.run(plane._variables(sandbox, cast(Any, sandbox.id)))

    sandboxes = [Kept(f"lab--{name}", b"o", name.encode(), True, "base", {}, 1.0, 2.0) for name in "abc"]
    for sandbox in sandboxes:
        keeping.add(sandbox)
        assert variables(sandbox) == variables(sandbox) == {"TOKEN": sandbox.id}
    assert reads == ["lab--a", "lab--b", "lab--c"]
    keeping.kill("lab--a")
    keeping.forget("lab--b")
    # Another desktop of the same name is another sandbox, and one that ended while it was read leaves nothing.
    again = replace(sandboxes[2], nonce=b"other")
    keeping.add(again)
    variables(again)
    assert list(plane._environments) == [("lab--c", b"other")]
    variables(sandboxes[0])
    assert list(plane._environments) == [("lab--c", b"other")]
    keeping.close()


def test_variables_are_added_where_a_process_has_no_others() -> None:
    def message(flags: int, content: bytes) -> bytes:
        return struct.pack(">BI", flags, len(content)) + content

    asked = message(0, json.dumps({"process": {"cmd": "x", "envs": {"A": "own"}}, "tag": "t"}).encode())
    changed = environment.added(asked + b"rest", {"A": "1", "B": "2"})
    length = struct.unpack_from(">BI", changed)[1]
    assert json.loads(changed[5 : 5 + length]) == {"process": {"cmd": "x", "envs": {"A": "own", "B": "2"}}, "tag": "t"}
    assert changed[5 + length :] == b"rest"
    for strange in (
        b"",
        b"\0\0",
        message(0, b"{"),
        message(0, b"[]"),
        message(1, b"packed"),
        message(0, b'{"process":1}'),
    ):
        assert environment.added(strange, {"A": "1"}) == strange


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "--mission-control"),
        (["--mission-control=x", "--task-seconds=0"], "--task-seconds"),
        (["--mission-control=x", "--certificate=a"], "private key"),
        *(
            (["--mission-control=x", f"--domain={wrong}"], "is no domain")
            for wrong in ("local", "a..b", "a.b:0", "a.b/c")
        ),
    ],
)
def test_a_command_line_that_is_not_whole_is_refused(argv: list[str], said: str) -> None:
    with pytest.raises(DesktopError, match=said):
        program.read(argv, {})


def test_domain_stands_for_the_addresses_in_what_is_printed() -> None:
    settings = program.read(["--mission-control=x", "--domain=E2B.Example.com:8443"], {})
    assert settings.domain == "e2b.example.com:8443"
    printed = program.exports("https://0.0.0.0:8443", settings.domain)
    assert printed.splitlines()[0] == "export E2B_DOMAIN=e2b.example.com:8443"
    assert "E2B_API_URL" not in printed and "E2B_SANDBOX_URL" not in printed
    without = program.read(["--mission-control=x"], {})
    assert program.exports("http://127.0.0.1:3000", without.domain) == program.exports("http://127.0.0.1:3000")


@pytest.mark.parametrize(
    ("host", "means"),
    [
        ("49983-lab--reader.e2b.example.com", ("49983", "lab--reader")),
        ("49983-LAB--reader.E2B.example.com:8443", ("49983", "lab--reader")),
        ("8000-0a1b-lab--task1.e2b.example.com", ("8000", "0a1b-lab--task1")),
        ("api.e2b.example.com", None),
        ("e2b.example.com", None),
        ("49983-lab--reader.example.com", None),
        ("49983-lab--reader.xe2b.example.com", None),
        ("-lab.e2b.example.com", None),
        ("49983-.e2b.example.com", None),
        ("", None),
    ],
)
def test_host_below_the_domain_means_a_port_of_a_sandbox(host: str, means: tuple[str, str] | None) -> None:
    for domain in ("e2b.example.com", "e2b.example.com:8443"):
        assert naming.port_and_sandbox(host, domain) == means


def test_it_listens_where_others_reach_it_with_a_certificate_alone(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1"):
        with pytest.raises(DesktopError, match="is reached by others"):
            web.Listening(host).open()
    for host in ("127.0.0.1", "localhost"):
        web.Listening(host).open().close()
    (tmp_path / "wrong.pem").write_text("no certificate")
    with pytest.raises(DesktopError, match="cannot be used"):
        web.Listening("0.0.0.0", 0, str(tmp_path / "wrong.pem"), str(tmp_path / "wrong.pem")).require_certificate()


def test_the_task_tells_the_program_where_mission_control_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    started: list[Any] = []
    monkeypatch.setattr(os, "execve", lambda *call: started.append(call))
    serving.serve({"port": "0", "tier": "", "at-timeout": "destroy"}, STATE, True)
    _, argv, environ = started[0]
    assert argv[1:3] == ["-m", "deskyard_e2b"]
    settings = program.read(argv[3:], {})
    assert (settings.url, settings.ca, settings.listening.port) == (STATE["url"], "/ca.pem", 0)
    assert (settings.at_timeout, settings.as_json, settings.choice) == ("destroy", True, Choice())
    assert settings.state == tmp_path / "state" / "e2b.sqlite"
    assert environ["PYTHONPATH"].split(os.pathsep)[0].endswith("/sdk")
    with pytest.raises(HostError, match=r"control\.up"):
        serving.arguments({}, {**STATE, "url": None})


def test_it_prints_what_clients_need_and_no_key(tmp_path: Path) -> None:
    options = ["--mission-control=https://mission.localhost:1", "--port=0", f"--state={tmp_path / 'e2b.sqlite'}"]
    path = os.pathsep.join(sys.path)
    running = subprocess.Popen(
        [sys.executable, "-m", "deskyard_e2b", *options],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    try:
        assert running.stdout is not None
        lines = [running.stdout.readline() for _ in range(3)]
    finally:
        running.terminate()
        running.wait(20)
        if running.stdout:
            running.stdout.close()
    url = lines[0].rpartition("=")[2].strip()
    assert url.startswith("http://127.0.0.1:")
    assert lines[:2] == [f"export E2B_API_URL={url}\n", f"export E2B_SANDBOX_URL={url}\n"]
    assert lines[2].startswith("export E2B_API_KEY=dyk_...")


def test_each_path_that_e2bs_client_knows_is_served_or_said_not_to_be_had() -> None:
    folder = Path(e2b.__file__).parent / "api/client/api"
    asked = {found for file in folder.rglob("*.py") for found in ASKS.findall(file.read_text())}
    assert len(asked) > 40
    routes = [route for route in ControlPlane(cast(Any, None), cast(Any, None)).routes() if isinstance(route, Route)]
    for method, path in sorted(asked):
        scope = {"type": "http", "method": method.upper(), "path": re.sub(r"{\w+}", "x", path)}
        served = next(route for route in routes if route.matches(scope)[0] is Match.FULL)
        assert served.endpoint is not _nowhere, f"{method} {path} is answered as an address that nobody has"


class Mission:
    """A Mission Control whose answers a test gives: of a create, of its wait, and what was asked meanwhile."""

    def __init__(self, created: DesktopError | None = None, waited: DesktopError | None = None) -> None:
        self._created, self._waited = created, waited
        self.asked: list[str] = []

    async def create(self, *_: object) -> dict[str, Any]:
        if self._created:
            raise self._created
        return {"id": "op_1"}

    async def wait(self, _: object) -> dict[str, Any]:
        if self._waited:
            raise self._waited
        return {}

    async def desktop(self, id: str) -> Any:
        self.asked.append(id)
        raise DesktopError("desktop", id, "was not found", "see GET /api/desktops", 404)

    async def operations(self, **_: object) -> AsyncIterator[Any]:
        for state in self.making:
            yield {"id": "op_1", "state": state}

    making: Sequence[str] = ()


class Declared(Mission):
    """One that has the desktop, which is off."""

    def __init__(self, created: DesktopError) -> None:
        super().__init__(created)
        self.started: list[str] = []

    async def desktop(self, id: str) -> Any:
        return {"id": id, "state": "stopped", "operation": None}

    async def start(self, id: str) -> dict[str, Any]:
        self.started.append(id)
        return {"id": "op_2"}


def caller_of(mission: Mission) -> Caller:
    return Caller("dyk_1", owner_of("dyk_1"), cast(AsyncMissionControl, mission))


@pytest.fixture
def keeping(tmp_path: Path) -> Iterator[Keeping]:
    found = Keeping(tmp_path / "e2b.sqlite")
    yield found
    found.close()


def error_of(status: int, field: str = "url") -> DesktopError:
    return DesktopError(field, "", "was answered so", "see", status)


@pytest.mark.parametrize(
    ("mission", "is_kept"),
    [
        (Mission(), True),
        (Mission(created=error_of(403, "scope")), False),
        (Mission(created=error_of(409, "quota")), False),
        # Whether it arrived is not known.
        (Mission(created=error_of(0)), True),
        (Mission(created=error_of(503)), True),
        (Mission(waited=error_of(0)), True),
        (Mission(waited=error_of(0, "operation")), True),
        # What failed half-way is declared all the same.
        (Mission(waited=error_of(0, "machine")), True),
    ],
)
def test_a_sandbox_is_forgotten_only_where_its_making_was_refused(
    keeping: Keeping, mission: Mission, is_kept: bool
) -> None:
    sandboxes, wanted = Sandboxes(keeping, Ways()), wishes.read({"templateID": "base"}, 300)

    async def make() -> None:
        with contextlib.suppress(DesktopError):
            await sandboxes._maker.to_keep(caller_of(mission), "lab--a", "free", wanted, False)

    asyncio.run(make())
    assert [sandbox.id for sandbox in keeping.ending()] == (["lab--a"] if is_kept else [])


def test_the_same_wish_brings_up_what_was_noted_and_never_came_up(keeping: Keeping) -> None:
    now = [100.0]
    sandboxes, wanted = Sandboxes(keeping, Ways(), clock=lambda: now[0]), wishes.read({"templateID": "base"}, 300)
    again = Declared(created=error_of(409, "name"))

    async def make() -> Kept:
        with pytest.raises(DesktopError):
            await sandboxes._maker.to_keep(
                caller_of(Mission(waited=error_of(0, "machine"))), "lab--a", "x", wanted, True
            )
        now[0] = 900.0
        return await sandboxes._maker.to_keep(caller_of(again), "lab--a", "x", wanted, True)

    made = asyncio.run(make())
    assert (made.started, made.ends, again.started) == (900.0, 1200.0, ["lab.a"])
    assert keeping.find("lab--a") == made


@pytest.mark.parametrize(("making", "is_gone"), [((), True), (("done", "running"), True), (("running",), False)])
def test_a_sandbox_that_is_still_being_made_is_not_gone(keeping: Keeping, making: Sequence[str], is_gone: bool) -> None:
    mission = Mission()
    mission.making = making
    sandboxes = Sandboxes(keeping, Ways())
    keeping.add(Kept("lab--a", owner_of("dyk_1"), b"nonce", True, "base", {}, 1.0, 2.0))

    async def look() -> bool:
        with pytest.raises(DesktopError, match="was not found"):
            await sandboxes.detail(caller_of(mission), "lab--a")
        return keeping.find("lab--a") is None

    assert asyncio.run(look()) == is_gone


def full(keeping: Keeping) -> None:
    """As on a disk that is full: what is there is read, and nothing more is written."""
    keeping._link.execute("pragma query_only = on")


def test_a_file_that_cannot_be_written_says_so_with_its_remedy(keeping: Keeping) -> None:
    sandbox = Kept("lab--a", b"o", b"nonce", True, "base", {}, 1.0, 2.0)
    keeping.add(sandbox)
    full(keeping)
    writes: Sequence[Callable[[], None]] = (
        functools.partial(keeping.add, sandbox),
        functools.partial(keeping.end, "lab--a"),
        functools.partial(keeping.forget, "lab--a"),
    )
    for write in writes:
        with pytest.raises(DesktopError, match="readonly") as refused:
            write()
        assert (refused.value.field, refused.value.status) == ("--state", 503)
    assert keeping.find("lab--a") == sandbox
    keeping._link.execute("pragma query_only = off")
    keeping.end("lab--a")
    assert keeping.ending() == []


@pytest.mark.parametrize("error", [KeyError("state"), error_of(503), sqlite3.OperationalError("disk is full")])
def test_an_end_that_fails_is_tried_again_a_minute_later(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    now = [100.0]
    sandboxes = Sandboxes(keeping, Ways(), clock=lambda: now[0])
    keeping.add(Kept("lab--a", owner_of("dyk_1"), b"nonce", True, "base", {}, 1.0, 2.0))
    tries: list[float] = []

    async def rest(*_: object) -> None:
        tries.append(now[0])
        raise error

    monkeypatch.setattr(sandboxes, "rest", rest)

    async def use() -> None:
        keyring = Keyring(opens_of(Mission()))
        await keyring.caller("dyk_1")
        ends = ending.Ending(sandboxes, keyring)
        for moment in (100.0, 159.0, 160.0):
            now[0] = moment
            ends._begin()
            await asyncio.gather(*ends._working.values(), return_exceptions=True)
            # Its end is heard of in the next round of the loop.
            await asyncio.sleep(0)

    asyncio.run(use())
    assert tries == [100.0, 160.0]


def opens_of(mission: Mission) -> Any:
    async def opens(_: str) -> AsyncMissionControl:
        return cast(AsyncMissionControl, mission)

    return opens


def test_what_is_open_to_a_sandbox_that_ended_elsewhere_is_closed(keeping: Keeping) -> None:
    closed: list[str] = []

    class Opened:
        is_over = False

        async def close(self) -> None:
            closed.append("door")

    async def opens(*_: object) -> Any:
        return Opened()

    async def use() -> Sandboxes:
        sandboxes, caller = Sandboxes(keeping, Ways(opens)), caller_of(Mission())
        keeping.add(Kept("lab--a", caller.owner, b"nonce", True, "base", {}, 1.0, 2.0))
        async with sandboxes.ways.door("lab--a", "lab.a", caller):
            pass
        sandboxes.streams._stored["lab--a", caller.owner] = b"hash"
        sandboxes.power._brought["lab.a"] = ("before", "stopped")
        with pytest.raises(DesktopError, match="was not found"):
            await sandboxes.detail(caller, "lab--a")
        return sandboxes

    sandboxes = asyncio.run(use())
    assert closed == ["door"]
    assert (sandboxes.ways._ways, sandboxes.streams._stored, sandboxes.power._brought) == ({}, {}, {})
