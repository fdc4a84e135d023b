"""Leads a TCP port of this machine to the gateway of a workspace."""

import socket
import time
from dataclasses import dataclass

from deskyard.errors import SiteError
from deskyard.run import hypervisor
from deskyard.run.background import Background
from deskyard.run.places import places

GATEWAY_PORT = 443
SOCKET = "gateway.sock"
START_SECONDS = 10.0
MOST_CONNECTIONS = 512


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
        listener = f"TCP-LISTEN:{self.port},bind={self.listen},reuseaddr,fork,max-children={MOST_CONNECTIONS}"
        target = f"TCP:{self.target}:{GATEWAY_PORT}"
        outer, inner = _processes(self.site, self.workspace)
        inside = hypervisor.inside()
        if inside:
            # The listener is on this machine, the gateway in the namespace: a socket file joins the two. Its name is
            # relative because socket paths are short.
            folder = outer.folder
            near = f"UNIX-LISTEN:{SOCKET},fork,mode=600,unlink-early,max-children={MOST_CONNECTIONS}"
            inner.start([*inside, "socat", near, target], cwd=folder)
            outer.start(["socat", listener, f"UNIX-CONNECT:{SOCKET}"], cwd=folder)
        else:
            inner.stop()
            outer.start(["socat", listener, target])
        self._wait(outer)

    def _wait(self, outer: Background) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not takes_connections(self.listen, self.port):
            if time.monotonic() > deadline or outer.pid() is None:
                where = f"{self.listen}:{self.port}"
                raise SiteError("forward", where, f"does not listen\n{outer.log_tail()}", f"read {outer.log_file}")
            time.sleep(0.1)


def close(site: str, workspace: str) -> None:
    """End the forward of a workspace."""
    for process in _processes(site, workspace):
        process.stop()
    (places().workspace(site, workspace) / SOCKET).unlink(missing_ok=True)


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
