"""Leads a TCP port of this machine to the gateway of a workspace, and says whom each connection is from."""

import socket
import time
from dataclasses import dataclass

from deskyard.errors import SiteError
from deskyard.host.background import Background
from deskyard.host.deadline import Deadline
from deskyard.host.facts import find_program
from deskyard.host.places import places
from deskyard.host.secret_file import write_secret
from deskyard.site.libvirt import daemon

GATEWAY_PORT = 443
SOCKET, CONFIGURATION_FILE = "gateway.sock", "forward.cfg"
START_SECONDS = 10.0
# With one worker and no account of its own: who starts it may be any user. The gateway, to which all clients are one
# address, leaves it to this end to bound each of them, as it bounds others by itself.
CONFIGURATION = """\
# Written by Deskyard for workspace {workspace}.
global
    maxconn {most}
    no strict-limits
defaults
    mode tcp
    option clitcpka
    option srvtcpka
    timeout connect 5s
    # The gateway ends what is silent for too long.
    timeout client 24h
    timeout server 24h
listen door
    bind {listen}:{port}
    stick-table type ipv6 size 20k expire 1m store conn_rate(2s),conn_cur
    tcp-request connection track-sc0 src
    tcp-request connection reject if {{ sc_conn_rate(0) gt 200 }} or {{ sc_conn_cur(0) gt {most_of_one} }}
    server gateway {target} send-proxy-v2
"""
MOST_CONNECTIONS, MOST_OF_ONE = 2_000, 500


@dataclass(frozen=True)
class Forward:
    """From `listen`:`port` of this machine to `target` on the hypervisor's network."""

    site: str
    workspace: str
    listen: str
    port: int
    target: str

    def open(self) -> None:
        """Start what is not running; a changed port or target restarts it."""
        target = f"{self.target}:{GATEWAY_PORT}"
        outer, inner = _processes(self.site, self.workspace)
        inside = daemon.inside()
        if inside:
            # The listener is on this machine, the gateway in the namespace: a socket file joins the two. Its name is
            # relative because socket paths are short.
            folder = outer.folder
            near = f"UNIX-LISTEN:{SOCKET},fork,mode=600,unlink-early,max-children={MOST_CONNECTIONS}"
            inner.start([*inside, "socat", near, f"TCP:{target}"], cwd=folder)
            target = f"unix@{SOCKET}"
        else:
            inner.stop()
        self._listen(outer, self.configuration(target))
        self._wait(outer)

    def configuration(self, target: str) -> str:
        """The configuration of HAProxy: where to listen, and where the gateway is."""
        return CONFIGURATION.format(
            workspace=self.workspace,
            most=MOST_CONNECTIONS,
            most_of_one=MOST_OF_ONE,
            listen=self.listen,
            port=self.port,
            target=target,
        )

    def _listen(self, outer: Background, text: str) -> None:
        """Start the listener, anew if it is to be told otherwise."""
        path = outer.folder / CONFIGURATION_FILE
        if not path.exists() or path.read_text() != text:
            outer.stop()
            write_secret(path, text.encode())
        outer.start([find_program("haproxy") or "haproxy", "-db", "-f", CONFIGURATION_FILE], cwd=outer.folder)

    def _wait(self, outer: Background) -> None:
        deadline = Deadline(START_SECONDS)
        while not takes_connections(self.listen, self.port):
            if deadline.is_over or outer.pid() is None:
                where = f"{self.listen}:{self.port}"
                raise SiteError("forward", where, f"does not listen\n{outer.log_tail()}", f"read {outer.log_file}")
            time.sleep(0.1)


def close(site: str, workspace: str) -> None:
    """End the forward of a workspace."""
    for process in _processes(site, workspace):
        process.stop()
    for name in (SOCKET, CONFIGURATION_FILE):
        (places().workspace(site, workspace) / name).unlink(missing_ok=True)


def is_open(site: str, workspace: str) -> bool:
    """True if the forward of the workspace runs."""
    return _processes(site, workspace)[0].pid() is not None


def takes_connections(address: str, port: int) -> bool:
    """True if something listens there."""
    try:
        with socket.create_connection((address, port), timeout=2):
            return True
    except OSError:
        return False


def _processes(site: str, workspace: str) -> tuple[Background, Background]:
    folder = places().workspace(site, workspace)
    return Background("forward", folder, whole_group=True), Background("forward-inside", folder, whole_group=True)
