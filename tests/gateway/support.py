"""A whole gateway on loopback: real HAProxy, real session service, and desktops played by a small WebSocket server."""

import base64
import http.client
import json
import os
import resource
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from deskyard.gateway.config import backends
from deskyard.gateway.config.apply import apply
from deskyard.gateway.config.certificate import install
from deskyard.gateway.machine import tls
from deskyard.gateway.machine.layout import Layout
from deskyard.gateway.machine.system import Answer, Machine, System
from deskyard.gateway.session import line
from deskyard.gateway.view.websocket import PING, frame
from deskyard.wire import gateway_settings
from deskyard.wire.egress_rules import EgressRules
from tests.gateway.authority import Authority
from tests.gateway.desktops import FakeDesktops
from tests.support.ports import free_ports

TREE = Path(__file__).resolve().parents[2]
HOSTNAME = "demo.desk.test"
WAIT_SECONDS = 60.0


def search_path() -> str:
    """Where a program of the gateway finds this tree, before what the caller searches."""
    return os.pathsep.join(filter(None, (str(TREE), os.environ.get("PYTHONPATH"))))


def wait_for(what: str, ready: Callable[[], Any], seconds: float = WAIT_SECONDS, pause: float = 0.02) -> Any:
    """The first true answer of `ready`, asked again after each `pause`; fails with `what` if there is none in time."""
    end = time.monotonic() + seconds
    while True:
        answer = ready()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds:.0f} s: {what}")
        time.sleep(pause)


def most_sockets() -> int:
    """How many sockets a door can hold here: HAProxy wants two open files for each, and does not start without."""
    return min(Layout.door_sockets, (resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 200) // 2)


class Checks:
    """Runs the checking programs for real, and only notes what would touch this machine."""

    def __init__(self, failing: str = "") -> None:
        self.ran: list[tuple[str, ...]] = []
        self.failing = failing
        self._machine = Machine()

    def run(self, argv: Sequence[str]) -> Answer:
        self.ran.append(tuple(argv))
        if self.failing and self.failing in " ".join(argv):
            return Answer(1, "made to fail")
        checking = "-c" in argv or "--test" in argv or argv[0] == "setpriv"
        return self._machine.run(argv) if checking else Answer(0, "active")

    def mac(self, interface: str) -> str | None:
        return None


class Reloading(Checks):
    """Reloads for real."""

    def __init__(self, gateway: "Gateway") -> None:
        super().__init__()
        self._gateway = gateway

    def run(self, argv: Sequence[str]) -> Answer:
        if argv[-1] == "haproxy.service":
            self._gateway.reload()
        return super().run(argv)


@dataclass
class Opened:
    """What the gateway answered to an upgrade."""

    status: int
    head: str
    line: ssl.SSLSocket
    rest: bytes = b""

    def read_until(self, end: bytes) -> bytes:
        while end not in self.rest:
            part = self.line.recv(4096)
            if not part:
                raise ConnectionError("closed")
            self.rest += part
        found, _, self.rest = self.rest.partition(end)
        return found

    def echo(self, text: str) -> str:
        """Send a ping and read it back: the socket is alive."""
        self.line.sendall(frame(PING, text.encode()))
        return self.read_until(b"|").decode()

    def closes(self, seconds: float = WAIT_SECONDS) -> bool:
        """Whether the far side ends the connection."""
        self.line.settimeout(seconds)
        try:
            return self.line.recv(4096) == b""
        except TimeoutError:
            return False
        except OSError:
            return True


@dataclass
class Gateway:
    """One running gateway; `stop` ends all of it."""

    root: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="dygw.")))
    weaken: Callable[[str], str] = str
    false_tickets_per_minute: int = 10000
    forwarder: str | None = None
    changes: dict[str, Any] = field(default_factory=dict)  # of the layout's numbers
    viewer: Path | None = None  # the built viewer; three words stand for it else
    talk: Callable[[socket.socket], None] | None = None
    names: dict[str, str] = field(default_factory=lambda: {"d1": "127.0.1.10", "d2": "127.0.1.11"})
    recorded: tuple[str, ...] = ("d2",)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self) -> None:
        self.root.chmod(0o755)
        door, service, view, vnc, tty, computer = free_ports(6)
        self.layout = Layout(
            root=self.root,
            program=self.root / "program",
            listen_address="127.0.0.1",
            listen_port=door,
            service_port=service,
            view_port=view,
            refusals_port=view + 1,
            actions_port=door + 1,
            trusts_system=False,
            false_tickets_per_minute=self.false_tickets_per_minute,
            **{"door_sockets": most_sockets(), **self.changes},
        )
        self.ports = {"desktop": vnc, "terminal": tty, "computer": computer}
        self.authority = f"{HOSTNAME}:{door}"
        self.origin = f"https://{self.authority}"
        self.desktops = self.play_desktops()
        self._write_assets()
        self.settings = gateway_settings.parse(json.dumps(self.document()))
        apply(self.settings, self.layout, Checks())
        self._certify()
        self.layout.proxy_file.write_text(self.weaken(self.layout.proxy_file.read_text()))
        self.start_service()
        self.start_view()
        self._start_proxy()

    def play_desktops(self) -> FakeDesktops:
        """Something that listens where the desktops would."""
        ports = self.ports.values()
        return FakeDesktops([(address, port) for address in self.names.values() for port in ports], self.talk)

    def document(self) -> dict[str, Any]:
        """The settings of a workspace whose network is loopback."""
        return {
            "workspace": "demo",
            "origin": self.origin,
            "hostname": HOSTNAME,
            "uplink_mac": "52:54:00:00:00:01",
            "uplink_address": "192.0.2.250",
            "uplink_prefix": 29,
            "host_address": "192.0.2.249",
            "resolvers": ["192.0.2.249"],
            "operators": ["192.0.2.249/32"],
            "forwarder": self.forwarder,
            "workspace_mac": "52:54:00:00:00:02",
            "workspace_address": "127.0.0.1",
            "workspace_prefix": 8,
            "egress": "open",
            "denied_networks": ["10.0.0.0/8", "169.254.0.0/16"],
            "egress_rules": asdict(EgressRules((), (), (), (), {})),
            "acme": None,
            "desktops": [
                {
                    "name": name,
                    "mac": f"52:54:00:00:01:{n:02x}",
                    "address": address,
                    "routes": self.ports,
                    "recorded": name in self.recorded,
                }
                for n, (name, address) in enumerate(self.names.items())
            ],
        }

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)
        if hasattr(self, "desktops"):  # it may have failed to start
            self.desktops.close()
        shutil.rmtree(self.root, ignore_errors=True)

    # What a person or the host does.

    def grant(self, desktop: str = "d1", **options: Any) -> dict[str, Any]:
        request = {"routes": None, "mode": "drive", "ttl": 600, "actor": "tester", **options}
        answer: dict[str, Any] = line.ask(self.layout.admin_socket, {"command": "grant", "desktop": desktop, **request})
        return answer

    def revoke(self, id: str | None = None, **options: Any) -> Any:
        request = {"command": "revoke", "id": id, "desktop": None, "all": False, "actor": "tester", **options}
        return line.ask(self.layout.admin_socket, request)

    def listing(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = line.ask(self.layout.admin_socket, {"command": "list"})
        return found

    def sessions(self, listed: Sequence[dict[str, Any]] | None = None) -> list[dict[str, Any]]:
        """The sessions of a listing, without the seconds that pass between it and the next."""
        return [{**row, "idle": None} for row in (self.listing() if listed is None else listed)]

    def redeem(self, ticket: str, **headers: str) -> tuple[int, dict[str, Any], str]:
        """Status, body and the cookie (`name=value`) that came with it."""
        body = json.dumps({"ticket": ticket})
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        given = {"Origin": self.origin, "Content-Type": "application/json", **named}
        answer, data = self.request("POST", "/redeem", body, given)
        cookie = (answer.getheader("Set-Cookie") or "").partition(";")[0]
        facts = json.loads(data) if data.startswith(b"{") else {}
        return answer.status, facts, cookie

    def session(self, desktop: str = "d1", **options: Any) -> tuple[str, str]:
        """Id and cookie of a fresh session."""
        granted = self.grant(desktop, **options)
        status, facts, cookie = self.redeem(granted["ticket"])
        assert status == 200, facts
        return granted["id"], cookie

    def program(self, desktop: str = "d1", **options: Any) -> tuple[str, dict[str, str]]:
        """Id of a fresh session of a program, and the header that it sends."""
        granted = self.grant(desktop, mode="agent", **options)
        status, facts, cookie = self.redeem(granted["ticket"])
        assert (status, cookie) == (200, ""), facts
        return granted["id"], {"Authorization": f"Bearer {facts['token']}"}

    def request(
        self, method: str, path: str, body: str | None = None, headers: dict[str, str] | None = None
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """One request over TLS, verified against the test's authority."""
        connection = http.client.HTTPConnection(HOSTNAME)
        connection.sock = self.connect()
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        given = {"Host": self.authority, **(headers or {})}
        if body is not None:
            given["Content-Length"] = str(len(body))
        for name, value in given.items():
            connection.putheader(name, value)
        connection.endheaders(body.encode() if body is not None else None)
        answer = connection.getresponse()
        return answer, answer.read()

    def upgrade(self, path: str = "/d/d1/vnc", cookie: str | None = None, **headers: str | None) -> Opened:
        """Ask for a WebSocket; a header given as None is left out."""
        fields: dict[str, str | None] = {
            "Host": self.authority,
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
            "Origin": self.origin,
            "Cookie": cookie,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        lines = [f"{name}: {value}" for name, value in fields.items() if value is not None]
        return self.raw("\r\n".join([f"GET {path} HTTP/1.1", *lines, "", ""]))

    def raw(self, text: str) -> Opened:
        """Send a request as it is and read the head of the answer."""
        line = self.connect()
        line.sendall(text.encode("latin-1"))
        head = b""
        while b"\r\n\r\n" not in head:
            part = line.recv(4096)
            if not part:
                raise ConnectionError(f"closed after {head!r}")
            head += part
        text_head, _, rest = head.partition(b"\r\n\r\n")
        return Opened(int(text_head.split(b" ")[1]), text_head.decode(), line, rest)

    def reload(self) -> None:
        """As the unit does it: backends anew, then a new worker."""
        before = self.workers()
        backends.write(self.settings, self.layout)
        self.ask_master("reload")
        wait_for("a new worker", lambda: set(self.workers()) - set(before) and self._answers())

    def workers(self) -> list[int]:
        """Process ids; none while the master replaces itself."""
        try:
            listing = self.ask_master("show proc")
        except OSError:
            return []
        lines = (line.split() for line in listing.splitlines())
        return [int(words[0]) for words in lines if len(words) > 1 and words[1] == "worker"]

    def system(self) -> System:
        """A system in which a reload of HAProxy is one of this gateway's HAProxy."""
        return Reloading(self)

    def audit(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.layout.audit_file.read_text().splitlines()]

    # Parts.

    def start_service(self) -> subprocess.Popen[bytes]:
        process = self._program("serve", "service.log")
        wait_for("the session service", self._service_answers)
        return process

    def start_view(self) -> subprocess.Popen[bytes]:
        process = self._program("view", "view.log")
        wait_for("the filter", lambda: line.ask(self.layout.admin_socket, {"command": "ping"})["view"])
        return process

    def program_says(self, *arguments: str) -> str:
        """What `deskyard-gateway` prints, here."""
        argv = [sys.executable, "-m", "deskyard.gateway", *arguments]
        done = subprocess.run(argv, env=self._environment(), capture_output=True, timeout=WAIT_SECONDS, check=False)
        return done.stdout.decode()

    def _program(self, command: str, log: str) -> subprocess.Popen[bytes]:
        """Start one of the gateway's own programs, here."""
        return self._spawn([sys.executable, "-m", "deskyard.gateway", command], log, self._environment())

    def _environment(self) -> dict[str, str]:
        override = self.root / "layout.json"
        override.write_text(json.dumps(asdict(self.layout), default=str))
        return {**os.environ, "DESKYARD_GATEWAY_LAYOUT": str(override), "PYTHONPATH": search_path()}

    def _start_proxy(self) -> None:
        backends.write(self.settings, self.layout)
        files = ["-f", str(self.layout.proxy_file), "-f", str(self.layout.backends_file)]
        self._spawn(
            ["haproxy", "-W", *files, "-S", f"unix@{self.layout.master_socket},mode,600,level,admin"], "haproxy.log"
        )
        wait_for("HAProxy", lambda: self.layout.master_socket.exists() and self._answers())

    def _spawn(self, argv: list[str], log: str, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        with (self.root / log).open("ab") as stream:
            process = subprocess.Popen(argv, stdout=stream, stderr=stream, env=env)
        self.processes.append(process)
        return process

    def _answers(self) -> bool:
        try:
            return self.request("GET", "/healthz")[0].status == 200
        except OSError:
            return False

    def _service_answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.layout.service_port), 1):
                return bool(line.ask(self.layout.admin_socket, {"command": "ping"}))
        except Exception:
            return False

    def ask_master(self, command: str) -> str:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(10)
            line.connect(str(self.layout.master_socket))
            line.sendall(f"{command}\n".encode())
            line.shutdown(socket.SHUT_WR)
            return line.makefile("r").read()

    def connect(self) -> ssl.SSLSocket:
        line = socket.create_connection(("127.0.0.1", self.layout.listen_port), 10)
        # As the libraries of clients do: a body that follows its head waits for no acknowledgement.
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.trust.wrap_socket(line, server_hostname=HOSTNAME)

    def _certify(self) -> None:
        self.issuer = Authority()
        self.install_certificate(Checks())
        self.trust = ssl.create_default_context(cadata=self.issuer.pem)

    def install_certificate(self, system: System) -> None:
        """A fresh one, as the site's authority gives them out."""
        key = tls.ensure_key(self.layout.tls / "key.pem")
        install(self.issuer.sign(tls.request(key, HOSTNAME)), self.settings, self.layout, system)

    def _write_assets(self) -> None:
        assets = self.layout.assets
        if self.viewer is not None:
            shutil.copytree(self.viewer, assets)
            return
        assets.mkdir(parents=True)
        for name in ("index.html", "viewer.html", "viewer.js"):
            (assets / name).write_text(name)
