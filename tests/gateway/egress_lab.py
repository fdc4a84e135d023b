"""A locked gateway in namespaces: the real program, HAProxy, dnsmasq and rules, a hostile desktop, a world outside."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deskyard.gateway.machine import tls
from deskyard.wire import gateway_settings as gateway_settings
from tests.gateway.nets import Nets
from tests.gateway.support import search_path, wait_for
from tests.support.requirements import need_programs, need_root

TREE = Path(__file__).resolve().parents[2]
USER, GROUP = "nobody", "nogroup"
GATEWAY, HOST, UPLINK, D1 = "10.80.1.1", "10.80.1.249", "10.80.1.250", "10.80.1.10"
PUBLIC, OTHER, SECURE = "198.51.100.7", "198.51.100.8", "198.51.100.9"
PRIVATE, METADATA = "10.99.0.1", "169.254.169.254"
OUTSIDE = (PUBLIC, OTHER, SECURE, PRIVATE, METADATA, "100.100.100.200", "192.168.9.9", "172.16.5.5")
FILES = {"egress": "egress.cfg", "firewall": "firewall.nft", "dns": "dnsmasq.conf"}
PORTS = (22, 80, 853, 8080)
QUEUED = 512

# What systemd does in a gateway, for the three units that the list of names is about.
SYSTEMCTL = """#!/bin/sh
gone() {{ [ ! -e "/proc/$1" ] || grep -q ') Z ' "/proc/$1/stat"; }}
alive() {{ [ -e "{run}/$1.pid" ] && ! gone "$(cat "{run}/$1.pid")"; }}
end() {{
  alive "$1" || return 0
  # It takes its own file away before it lets go of its sockets.
  pid=$(cat "{run}/$1.pid")
  kill "$pid"
  until gone "$pid"; do sleep 0.01; done
}}
case "$1 $2" in
"restart deskyard-dns.service")
  end dns
  sed -e 's/^user=.*/user=root/' -e 's|^dhcp-leasefile=.*|dhcp-leasefile={run}/leases|' \\
    "{root}/etc/deskyard/dnsmasq.conf" >"{run}/dnsmasq.conf"
  exec dnsmasq --conf-file="{run}/dnsmasq.conf" --pid-file="{run}/dns.pid" >>"{run}/dns.log" 2>&1 ;;
"reload-or-restart deskyard-egress.service")
  if alive egress; then
    haproxy -q -c -f "{root}/etc/deskyard/egress.cfg" && exec {python} -m deskyard.gateway egress-reload
    exit 1
  fi
  mkdir -p "{root}/run/deskyard-egress"
  ip -batch "{root}/etc/deskyard/egress-routes"
  exec haproxy -W -D -f "{root}/etc/deskyard/egress.cfg" -p "{run}/egress.pid" \\
    -S "{root}/run/deskyard-egress/master.sock,mode,600,level,admin" >>"{run}/egress.log" 2>&1 ;;
"stop deskyard-egress.service") end egress ;;
esac
exit 0
"""


class EgressLab:
    """One locked workspace; everything it started is gone at the end of the block."""

    def __init__(self, settings: gateway_settings.Settings, records: dict[str, Any]) -> None:
        self.settings = settings
        self.root = Path(tempfile.mkdtemp(prefix="dyegress."))
        self.run_folder = self.root / "lab"
        self.records = records
        self.nets = Nets(settings, OUTSIDE)
        self.processes: list[subprocess.Popen[str]] = []

    def start(self) -> None:
        self.root.chmod(0o755)
        for folder in (self.run_folder / "bin", self.root / "run/deskyard-egress-watch"):
            folder.mkdir(parents=True)
        shim = self.run_folder / "bin/systemctl"
        shim.write_text(SYSTEMCTL.format(run=self.run_folder, root=self.root, python=sys.executable))
        shim.chmod(0o755)
        layout = {"root": str(self.root), "egress_user": USER, "egress_group": GROUP, "trusts_system": False}
        layout |= {"ask_user": USER}
        (self.run_folder / "layout.json").write_text(json.dumps(layout))
        self.nets.__enter__()
        self.nets.run("gw", "sysctl", "-q", "-w", "net.ipv4.ip_forward=0", "net.ipv4.ip_nonlocal_bind=1")
        # As systemd sets it in a gateway: in the kernel's own ten, what a busy watcher has not read yet leaves no room.
        self.nets.run("gw", "sysctl", "-q", "-w", f"net.unix.max_dgram_qlen={QUEUED}")
        # The way back is there: only the gateway stands between a desktop and the world.
        self.nets.run("host", "ip", "route", "add", "10.80.1.0/25", "via", UPLINK)
        self._start_outside()
        watch = [sys.executable, "-m", "deskyard.gateway", "watch"]
        self.watcher = self.popen("gw", *watch, output=self.run_folder / "watch.log")
        wait_for("the watcher", lambda: (self.root / "run/deskyard-egress-watch/events.sock").exists())
        self.apply(self.settings)
        if self.settings.egress_rules.ask:
            self._start_ask()
        self.guest = self.popen("d1", sys.executable, str(TREE / "tests/gateway/egress_guest.py"))
        wait_for("the resolver", lambda: self.try_one(kind="dns", to=GATEWAY, port=53, name="gateway", seconds=1)[0])
        wait_for("the router", lambda: self.outcome("http", "allowed.test", seconds=2) == "answer")

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait(10)
        for name in ("egress", "dns"):
            path = self.run_folder / f"{name}.pid"
            if path.exists():
                for pid in path.read_text().split():
                    with_children = [int(pid), *_children(int(pid))]
                    for child in with_children:
                        _end(child)
        self.nets.__exit__(None, None, None)
        shutil.rmtree(self.root, ignore_errors=True)

    # The gateway's side.

    def cli(self, *arguments: str, stdin: str = "") -> Any:
        """Run the gateway's program; its JSON. An error comes back as {"error": ...}."""
        done = self.run("gw", [sys.executable, "-m", "deskyard.gateway", *arguments], stdin)
        try:
            return json.loads(done.stdout)
        except ValueError:
            raise AssertionError(f"{arguments}: {done.stdout}{done.stderr}") from None

    def apply(self, settings: gateway_settings.Settings) -> Any:
        answer = self.cli("apply", stdin=settings.as_json())
        assert "error" not in answer, answer
        return answer

    def start_program(self, command: str) -> None:
        """Start one of the gateway's programs that go on until they are ended."""
        log = self.run_folder / f"{command}.log"
        self.popen("gw", sys.executable, "-m", "deskyard.gateway", command, output=log)

    def reset(self) -> None:
        """Put the list back as it was declared."""
        grants = self.root / "var/lib/deskyard-egress/grants.json"
        same = (self.root / "etc/deskyard/settings.json").read_text() == self.settings.as_json()
        if same and json.loads(grants.read_text()) == {"granted": [], "withdrawn": [], "closed": []}:
            return
        grants.unlink()
        self.apply(self.settings)

    def events(self) -> list[dict[str, str]]:
        """The refusals that were written down."""
        path = self.root / "var/log/deskyard-egress/refusals.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def asked(self) -> list[str]:
        """The names that the resolver outside was asked for."""
        return self._lines("asked")

    def hits(self) -> list[str]:
        """The servers outside that were reached: address:port."""
        return self._lines("hits")

    def set_records(self, **records: Any) -> None:
        """Change what the resolver outside answers; `_` in a name stands for a dot."""
        self.records.update({name.replace("_", "."): record for name, record in records.items()})
        self._write_plan()

    # The desktop's side.

    def ask(self, jobs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Let the desktop try all of these at once."""
        assert self.guest.stdin is not None
        assert self.guest.stdout is not None
        self.guest.stdin.write(json.dumps(list(jobs)) + "\n")
        self.guest.stdin.flush()
        answers: list[dict[str, Any]] = json.loads(self.guest.stdout.readline())
        return answers

    def try_one(self, **job: Any) -> tuple[str, str]:
        """Outcome and text of one attempt."""
        (answer,) = self.ask([job])
        return answer["outcome"] if answer["outcome"] != "silent" else "", answer["text"]

    def outcome(self, kind: str, name: str | None, to: str = GATEWAY, **more: Any) -> str:
        """What came of a hello with this server name, or of a request with this Host."""
        return str(self.ask([job(kind, name, to, **more)])[0]["outcome"])

    # Inner.

    def _lines(self, name: str) -> list[str]:
        path = self.run_folder / name
        return path.read_text().splitlines() if path.exists() else []

    def _start_ask(self) -> None:
        """What waits for a person, and the session service, which keeps the audit."""
        folder = self.root / "run/deskyard-egress-watch/ask"
        folder.mkdir()
        shutil.chown(folder, USER, GROUP)
        folder.chmod(0o2750)
        for command in ("serve", "ask"):
            self.start_program(command)
        wait_for("what holds connections", (folder / "hold.sock").exists)
        wait_for("the session service", (self.root / "run/deskyard-session/admin.sock").exists)

    def _start_outside(self) -> None:
        key = tls.ensure_key(self.run_folder / "key.pem")
        (self.run_folder / "server.pem").write_text(tls.self_signed(key, "secure.test") + key)
        self._write_plan()
        script = str(TREE / "tests/gateway/egress_outside.py")
        outside = self.popen("host", sys.executable, script, str(self.run_folder / "plan.json"))
        assert outside.stdout is not None
        assert outside.stdout.readline() == "ready\n"

    def _write_plan(self) -> None:
        plan = {
            "dns": HOST,
            "records": self.records,
            "tls": [SECURE, str(self.run_folder / "server.pem")],
            "ports": PORTS,
            "plain": [PUBLIC, OTHER, HOST, *OUTSIDE[3:]],
            "asked": str(self.run_folder / "asked"),
            "hits": str(self.run_folder / "hits"),
        }
        fresh = self.run_folder / "plan.new"
        fresh.write_text(json.dumps(plan))
        fresh.replace(self.run_folder / "plan.json")

    @contextmanager
    def weaker(self, **changes: Callable[[str], str]) -> Iterator[None]:
        """Put weaker files (egress, firewall, dns) into force for the block, by the same programs."""
        good: dict[str, str] = {}
        try:
            for name, change in changes.items():
                good[name] = self._file(name).read_text()
                weak = change(good[name])
                assert weak != good[name], f"nothing to weaken in {name}"
                self._put(name, weak)
            yield
        finally:
            for name, text in good.items():
                self._put(name, text)

    def _file(self, name: str) -> Path:
        return self.root / "etc/deskyard" / FILES[name]

    def _put(self, name: str, text: str) -> None:
        self._file(name).write_text(text)
        if name == "firewall":
            self.nets.run("gw", "nft", "-f", str(self._file(name)))
            return
        unit = "reload-or-restart deskyard-egress" if name == "egress" else "restart deskyard-dns"
        done = self.run("gw", ["systemctl", *f"{unit}.service".split()])
        assert done.returncode == 0, done.stderr + (self.run_folder / "egress.log").read_text()

    def environment(self) -> dict[str, str]:
        path = f"{self.run_folder}/bin:{os.environ['PATH']}"
        layout = str(self.run_folder / "layout.json")
        return {**os.environ, "PATH": path, "DESKYARD_GATEWAY_LAYOUT": layout, "PYTHONPATH": search_path()}

    def run(self, short: str, argv: list[str], stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = ["ip", "netns", "exec", self.nets.name(short), *argv]
        return subprocess.run(
            command, input=stdin, env=self.environment(), capture_output=True, text=True, timeout=120, check=False
        )

    def popen(self, short: str, *argv: str, output: Path | None = None) -> subprocess.Popen[str]:
        command = ["ip", "netns", "exec", self.nets.name(short), *argv]
        stream, errors = (output.open("w"), subprocess.STDOUT) if output else (subprocess.PIPE, None)
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=stream, stderr=errors, env=self.environment(), text=True, cwd=TREE
        )
        self.processes.append(process)
        return process


def job(kind: str, name: str | None, to: str = GATEWAY, **more: Any) -> dict[str, Any]:
    """A hello with a server name (`hello`), or a request with a Host (`http`)."""
    if kind == "hello":
        sni = None if name is None else name.encode("latin-1").hex()
        return {"kind": "hello", "to": to, "port": 443, "sni": sni, **more}
    say = f"GET / HTTP/1.1\r\nHost: {name}\r\n\r\n".encode("latin-1").hex()
    return {"kind": "tcp", "to": to, "port": 80, "say": say, **more}


def _children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(pid) for pid in path.read_text().split()] if path.exists() else []


def _end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    end = time.monotonic() + 10
    while _lives(pid) and time.monotonic() < end:
        time.sleep(0.01)


def _lives(pid: int) -> bool:
    """Whether a process that is not ours to wait for still runs."""
    path = Path(f"/proc/{pid}/stat")
    return path.exists() and path.read_text().rpartition(")")[2].split()[0] != "Z"


@contextmanager
def run_lab(settings: gateway_settings.Settings, records: dict[str, Any]) -> Iterator[EgressLab]:
    """Start it; leave the test out, with the reason, where that cannot be."""
    need_root("makes network namespaces")
    need_programs("haproxy", "nft", "dnsmasq")
    lab = EgressLab(settings, dict(records))
    try:
        lab.start()
        yield lab
    except BaseException:
        for log in ("egress.log", "dns.log", "watch.log", "serve.log", "ask.log"):
            path = lab.run_folder / log
            print(f"--- {log}\n{path.read_text() if path.exists() else 'none'}")
        raise
    finally:
        lab.stop()
