"""The program that stays for questions about the status: started as systemd does, asked on the socket it was handed."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deskyard.access import gateway_program
from deskyard.errors import GatewayError
from deskyard.gateway import status_service
from deskyard.gateway.machine.layout import Layout
from deskyard.gateway.machine.system import Machine
from deskyard.site.ssh_link import SshLink
from deskyard.workspace import readiness
from tests.unit.gateway.support import planned

TREE = Path(__file__).resolve().parents[3]
# As systemd hands a socket over: as the third file, to the process of this number.
HANDED = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execv(sys.executable, [sys.executable, "-m", "deskyard.gateway", "serve-status"])
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The root of a gateway without settings."""
    (tmp_path / "etc/deskyard").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def service(root: Path) -> Iterator[Path]:
    """The socket of a running program."""
    path, layout = root / "status.sock", root / "layout.json"
    layout.write_text(json.dumps({"root": str(root), "trusts_system": False}))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        argv = [sys.executable, "-c", HANDED, str(listener.fileno())]
        environment = os.environ | {"DESKYARD_GATEWAY_LAYOUT": str(layout)}
        process = subprocess.Popen(argv, cwd=TREE, env=environment, pass_fds=[listener.fileno()])
    try:
        yield path
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture
def server(root: Path) -> Iterator[status_service.StatusServer]:
    """The server in this process: asked by its methods, since what it looks at is the tests' own."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "status.sock"))
        listener.listen()
        with status_service.StatusServer(listener, Layout(root=root), Machine()) as server:
            yield server


def ask(path: Path, text: bytes) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(60)
        line.connect(str(path))
        line.sendall(text)
        with line.makefile("rb") as stream:
            answer: dict[str, Any] = json.loads(stream.read())
        return answer


def asked(**more: Any) -> bytes:
    return json.dumps({**status_service.ASKED, **more}).encode() + b"\n"


def test_each_question_is_answered_by_what_is_in_force_then(service: Path, root: Path) -> None:
    first = ask(service, asked())["result"]
    assert (first["ready"], first["workspace"], first["desktops"]) == (False, None, {})
    settings = planned()
    Layout(root=root).settings_file.write_text(settings.as_json())
    found = ask(service, asked())["result"]
    assert (found["workspace"], found["digest"]) == ("demo", settings.digest)
    assert set(found["desktops"]) == {desktop.name for desktop in settings.desktops}
    Layout(root=root).settings_file.write_text("{}")
    assert ask(service, asked())["error"]["field"] == "settings"


def test_of_named_desktops_alone_it_is_said_how_they_are(service: Path, root: Path) -> None:
    settings = planned()
    Layout(root=root).settings_file.write_text(settings.as_json())
    first = settings.desktops[0].name
    for names, answered in (([first], {first}), ([first, "stranger"], {first}), ([], set())):
        found = ask(service, asked(desktops=names))["result"]
        assert set(found["desktops"]) == answered and found["digest"] == settings.digest
        assert not found["ready"]


def test_those_who_ask_at_once_have_each_other_looked_at_and_hear_of_their_own(
    server: status_service.StatusServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Any] = []

    def look(*arguments: Any) -> dict[str, Any]:
        looked.append(arguments[-1])
        return {"gateway_ready": True, "ready": False, "desktops": {name: {} for name in "abc"}}

    monkeypatch.setattr(status_service, "status_in_force", look)
    a, b = frozenset("a"), frozenset("b")
    for questions in ([a], [a, b], [a, None, b], [frozenset[str]()]):
        server._look(questions)
    assert looked == [a, a | b, None, frozenset()]
    whole, some = server.answer(status_service.ASKED), server.answer({**status_service.ASKED, "desktops": ["b"]})
    assert (list(whole["result"]["desktops"]), list(some["result"]["desktops"])) == (["a", "b", "c"], ["b"])


class Looks:
    """A gateway's looks in order, of which the last is that of ever after; each is the routes of `d1` that answer."""

    def __init__(self, *looks: str) -> None:
        self._looks = list(looks)
        self.count = 0

    def __call__(self, *_: Any) -> dict[str, Any]:
        """The next one."""
        look = self._looks[min(self.count, len(self._looks) - 1)]
        self.count += 1
        routes = {route: {"ready": route in look.split()} for route in ("desktop", "terminal", "computer")}
        return {"gateway_ready": "gateway" in look, "ready": False, "desktops": {"d1": routes}}


@pytest.fixture
def waiting(
    server: status_service.StatusServer, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Looks, float], dict[str, Any]]:
    """What asks a server for `d1` and waits for so many seconds."""
    monkeypatch.setattr(status_service, "PAUSE_SECONDS", 0.01)

    def wait(looks: Looks, seconds: float) -> dict[str, Any]:
        monkeypatch.setattr(status_service, "status_in_force", looks)
        found: dict[str, Any] = server.answer({**status_service.ASKED, "desktops": ["d1"], "wait": seconds})
        return dict(found["result"])

    return wait


EVERY = "gateway desktop terminal computer"


@pytest.mark.parametrize(
    ("looks", "count", "waited", "ready"),
    [
        ([EVERY], 1, False, True),
        (["gateway", "gateway", EVERY], 3, True, True),
        # More answer, or fewer.
        (["gateway", "gateway", "gateway terminal"], 3, True, False),
        (["gateway terminal", "gateway desktop"], 2, True, False),
        (["gateway terminal", "gateway"], 2, True, False),
        # The routes answer already: the gateway itself is waited for.
        (["desktop terminal computer", "desktop terminal computer", EVERY], 3, True, True),
    ],
)
def test_who_waits_is_answered_when_there_is_news(
    waiting: Callable[[Looks, float], dict[str, Any]], looks: list[str], count: int, waited: bool, ready: bool
) -> None:
    seen = Looks(*looks)
    found = waiting(seen, 60)
    assert (seen.count, found["waited"], found["ready"]) == (count, waited, ready)


def test_who_waits_in_vain_is_answered_when_the_time_is_over(
    waiting: Callable[[Looks, float], dict[str, Any]],
) -> None:
    seen = Looks("gateway")
    found = waiting(seen, 0.1)
    assert seen.count > 1 and (found["waited"], found["ready"]) == (True, False)


def test_nobody_waits_for_a_program_that_ends(
    server: status_service.StatusServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, began = Looks("gateway"), threading.Event()

    def look(*arguments: Any) -> dict[str, Any]:
        began.set()
        return looks(*arguments)

    monkeypatch.setattr(status_service, "status_in_force", look)
    with ThreadPoolExecutor(1) as askers:
        asking = askers.submit(server.answer, {**status_service.ASKED, "desktops": ["d1"], "wait": 60})
        assert began.wait(60)
        server.server_close()
        assert asking.result(30)["result"]["ready"] is False


def test_questions_at_once_are_all_answered(service: Path) -> None:
    with ThreadPoolExecutor(12) as askers:
        answers = list(askers.map(lambda _: ask(service, asked()), range(12)))
    assert all(answer["result"]["gateway_ready"] is False for answer in answers)


@pytest.mark.parametrize(
    "text",
    [
        b"\n",
        b"{}\n",
        b"nothing\n",
        b'{"command": "stop"}\n',
        b"x" * 4000 + b"\n",
        asked(desktops="dev1"),
        asked(desktops=None),
        asked(desktops=["dev1", 2]),
        asked(desktops=["dev1"], more=1),
        asked(desktops=["dev1"], wait=0),
        asked(desktops=["dev1"], wait=-1),
        asked(desktops=["dev1"], wait=True),
        asked(desktops=["dev1"], wait="1"),
        asked(desktops=["dev1"], wait=61),
        asked(wait=1),
        asked(more=1),
    ],
)
def test_what_is_no_question_is_refused_and_the_next_is_answered(service: Path, text: bytes) -> None:
    assert ask(service, text)["error"]["field"] == "request"
    assert "result" in ask(service, asked())


def test_without_a_handed_socket_it_says_who_starts_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Of the process that was started before this one.
    monkeypatch.setenv("LISTEN_PID", str(os.getppid()))
    monkeypatch.setenv("LISTEN_FDS", "1")
    with pytest.raises(GatewayError, match=r"deskyard-status\.socket"):
        status_service.serve(Layout(root=root))


def test_it_is_asked_where_its_unit_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = (TREE / "ansible/roles/session_service/files/deskyard-status.socket").read_text()
    assert f"ListenStream=/{readiness.STATUS_SOCKET}\n" in unit
    asked: list[Any] = []
    monkeypatch.setattr(SshLink, "pinned", lambda *_: True)
    monkeypatch.setattr(
        gateway_program, "ask_socket", lambda _, path, request, otherwise: asked.extend((path, request))
    )
    readiness.ask(SimpleNamespace(site="local", name="lab"))  # type: ignore[arg-type]
    assert asked == [readiness.STATUS_SOCKET, status_service.ASKED]
