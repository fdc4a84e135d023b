"""A real ACME server (pebble) on loopback, which looks for answers where the test's door has its port 80."""

import json
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from deskyard.gateway.machine import tls
from deskyard.host.toolchain import find
from tests.gateway.authority import Authority
from tests.gateway.support import HOSTNAME, wait_for
from tests.support.ports import free_ports
from tests.support.requirements import missing

LIFE_SECONDS = 90 * 24 * 3600


@dataclass(frozen=True)
class AcmeServer:
    """A running server: where its directory is, who vouches for it, and who vouches for what it gives."""

    directory: str
    ca: str
    root: str


@contextmanager
def run_acme_server(challenge_port: int) -> Iterator[AcmeServer]:
    """One that finds the test's host name at loopback; leaves the test out where there is no pebble."""
    pebble = find("pebble")
    if pebble is None:
        missing("pebble: ./inv toolchain.get --tool pebble")
    with TemporaryDirectory(prefix="dyacme.") as name:
        folder = Path(name)
        listen, manage, names = free_ports(3)
        authority, key = Authority(), tls.ensure_key(folder / "key.pem")
        (folder / "certificate.pem").write_text(authority.sign(tls.request(key, "localhost")))
        config = {
            "listenAddress": f"127.0.0.1:{listen}",
            "managementListenAddress": f"127.0.0.1:{manage}",
            "certificate": str(folder / "certificate.pem"),
            "privateKey": str(folder / "key.pem"),
            "httpPort": challenge_port,
            "tlsPort": 1,
            "retryAfter": {"authz": 1, "order": 1},
            "keyAlgorithm": "ecdsa",
            "profiles": {"default": {"description": "the only one", "validityPeriod": LIFE_SECONDS}},
        }
        (folder / "pebble.json").write_text(json.dumps({"pebble": config}))
        resolver = ["dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts"]
        resolver += [f"--port={names}", "--listen-address=127.0.0.1", "--bind-interfaces", "--pid-file="]
        server = [str(pebble.path), "-config", str(folder / "pebble.json"), "-dnsserver", f"127.0.0.1:{names}"]
        quick = {"PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "0", "PEBBLE_AUTHZREUSE": "0"}
        trust = ssl.create_default_context(cadata=authority.pem)
        with (folder / "log").open("w") as log:
            running = [
                subprocess.Popen([*resolver, f"--address=/{HOSTNAME}/127.0.0.1"], stdout=log, stderr=log),
                subprocess.Popen(server, stdout=log, stderr=log, env=quick),
            ]
            try:
                roots = f"https://localhost:{manage}/roots/0"
                root = wait_for("pebble", lambda: _fetch(roots, trust))
                yield AcmeServer(f"https://localhost:{listen}/dir", authority.pem, root)
            except BaseException:
                print((folder / "log").read_text())
                raise
            finally:
                for process in running:
                    process.kill()
                    process.wait(10)


def _fetch(url: str, trust: ssl.SSLContext) -> str:
    try:
        with urllib.request.urlopen(url, context=trust, timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""
