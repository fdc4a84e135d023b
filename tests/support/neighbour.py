"""A machine next to a desktop: a network namespace on a port of the workspace's bridge, as a neighbour's would be."""

import json
import subprocess
from types import TracebackType
from typing import Self

from deskyard.site.libvirt import daemon
from tests.support.probe import SCRIPT, SECONDS

NAMESPACE = "dy-neighbour"
PORT = "dy-neighbour"
LISTENING = 9877


class Neighbour:
    """Has `address` on `bridge` and listens on port 9877, for the length of a `with` block."""

    def __init__(self, bridge: str, address: str, prefix: int, isolated: bool) -> None:
        self.address = address
        self._bridge = bridge
        self._prefix = prefix
        self._isolated = isolated

    def __enter__(self) -> Self:
        """Plug it in and start its service."""
        site = daemon.inside()
        _run("ip", "netns", "add", NAMESPACE)
        try:
            _run(*site, "ip", "link", "add", PORT, "type", "veth", "peer", "name", "eth0", "netns", NAMESPACE)
            _run(*site, "ip", "link", "set", PORT, "master", self._bridge, "up")
            flag = "on" if self._isolated else "off"
            _run(*site, "ip", "link", "set", PORT, "type", "bridge_slave", "isolated", flag)
            for command in (
                f"ip address add {self.address}/{self._prefix} dev eth0",
                "ip link set eth0 up",
                "ip link set lo up",
            ):
                self._inside(*command.split())
            listen = f"import socket, time; s = socket.create_server(('0.0.0.0', {LISTENING})); time.sleep(600)"
            argv = ["ip", "netns", "exec", NAMESPACE, "python3", "-c", listen]
            self._service = subprocess.Popen(argv)
        except BaseException:
            _run("ip", "netns", "delete", NAMESPACE)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Unplug it."""
        self._service.terminate()
        self._service.wait(10)
        # A namespace takes its time to go, and with it its end of the cable.
        _run(*daemon.inside(), "ip", "link", "delete", PORT)
        _run("ip", "netns", "delete", NAMESPACE)

    def connect(self, address: str, ports: tuple[int, ...]) -> dict[int, str]:
        """Try TCP connections from here: port -> open, refused, timeout or unreachable."""
        targets = json.dumps([(address, port, "") for port in ports])
        answers = json.loads(self._inside("python3", "-c", SCRIPT % SECONDS, targets))
        return dict(zip(ports, answers, strict=True))

    def _inside(self, *argv: str) -> str:
        return _run("ip", "netns", "exec", NAMESPACE, *argv)


def _run(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr}"
    return done.stdout
