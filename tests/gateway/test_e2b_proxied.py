"""E2B's unmodified client on a desktop through the proxy of Mission Control: what streams is passed on as it comes."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from deskyard_sdk.mission import AsyncMissionControl

from deskyard.control.e2b.declared import Declared
from deskyard.control.ground.folder import Accounts, Folder
from deskyard.control.ground.settings import Settings
from deskyard.control.process import proxy
from deskyard.host.deadline import Deadline
from tests.gateway.authority import Authority
from tests.gateway.support import Gateway
from tests.gateway.test_e2b import KEY, Played
from tests.gateway.test_e2b_domain import ANY_KEY, DOMAIN, certificate_for
from tests.support.connect_proxy import ConnectProxy
from tests.support.e2b_door import served
from tests.support.ports import free_ports
from tests.support.requirements import need_programs

SECONDS = 60
# Each waits for what the other side says: nothing of it would come, if somebody kept it to its end.
USE = """
import threading
from e2b import Sandbox

sandbox = Sandbox.connect("demo--d1", request_timeout=60)
content = bytes(range(256)) * 16384
sandbox.files.write("large", content)
assert sandbox.files.read("large", format="bytes") == content
command = sandbox.commands.run("while read line; do echo got $line; done", background=True, stdin=True)
heard = {word: threading.Event() for word in ("first", "second")}

def listen(text):
    heard["first" if "first" in text else "second"].set()

def speak():
    yield "first\\n"
    assert heard["first"].wait(40)
    yield "second\\n"
    assert heard["second"].wait(40)

waiting = threading.Thread(target=command.wait, kwargs={"on_stdout": listen})
waiting.start()
sandbox.commands.stream_input(command.pid, speak())
sandbox.commands.close_stdin(command.pid)
waiting.join(60)
left = sandbox.commands.run("read", background=True, stdin=True)
left.disconnect()
print(sandbox.commands.kill(left.pid), sandbox.pause(), Sandbox.connect("demo--d1").is_running())
"""


@pytest.fixture
def behind(lived: Gateway, authority: str, tmp_path: Path) -> Iterator[tuple[int, str]]:
    """The port of a proxy before the program, and the file of its authority."""
    need_programs("haproxy")
    first, second = free_ports(2)
    settings = Settings("local", "example.test", "127.0.0.1", first)
    wanted, issuer = Declared(DOMAIN, second), Authority()
    folder = Folder(tmp_path, Accounts(e2b="nobody"))
    for made in (folder.sockets, folder.certificate.parent):
        made.mkdir()
    chain, key = (Path(name).read_text() for name in certificate_for(issuer, tmp_path, *wanted.names))
    for path in (folder.certificate, folder.e2b_certificate):
        path.write_text(chain + key)
    (tmp_path / "issuer.pem").write_text(issuer.pem)

    async def opens(_: str) -> AsyncMissionControl:
        return Played(lived, {"demo.d1": "ready"}, authority)

    with served(tmp_path / "e2b.sqlite", opens, domain=wanted.authority) as door:
        text = proxy.configuration(settings, folder, wanted)
        assert text.count(f"unix@{folder.e2b_socket} ") == 1
        file = tmp_path / "haproxy.cfg"
        file.write_text(text.replace(f"unix@{folder.e2b_socket} ", f"127.0.0.1:{door.port} "))
        with subprocess.Popen([shutil.which("haproxy") or "haproxy", "-db", "-f", file]) as process:
            try:
                assert Deadline(SECONDS).wait_for(lambda: _listens(wanted.port) or process.poll() is not None, 0.1)
                assert process.poll() is None
                yield wanted.port, str(tmp_path / "issuer.pem")
            finally:
                process.terminate()


def _listens(port: int) -> bool:
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == 0


def test_commands_files_and_input_stream_through_the_proxy(behind: tuple[int, str]) -> None:
    port, trusted = behind
    names = ConnectProxy(port)
    left = ("SSL_CERT_DIR", "NO_PROXY", "no_proxy", "https_proxy")
    own = {
        name: value
        for name, value in os.environ.items()
        if name not in left and (not name.startswith("E2B_") or name == ANY_KEY)
    }
    with names.running():
        named = {
            "HTTPS_PROXY": names.url,
            "E2B_DOMAIN": f"{DOMAIN}:{port}",
            "E2B_API_KEY": KEY,
            "SSL_CERT_FILE": trusted,
        }
        done = subprocess.run(
            [sys.executable, "-c", USE], env={**own, **named}, capture_output=True, text=True, timeout=180, check=False
        )
    assert (done.returncode, done.stdout) == (0, "True True True\n"), done.stderr[-3000:]
    assert names.asked == {f"api.{DOMAIN}", f"49983-demo--d1.{DOMAIN}"}
