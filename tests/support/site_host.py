"""The host of the virtual machines, given a service to be attacked and one address of the wide internet."""

import contextlib
import json
import subprocess
from types import TracebackType
from typing import Self

from deskyard.plan.isolation.beyond import LAN, METADATA
from deskyard.plan.isolation.forgeries import PUBLIC
from deskyard.site.libvirt import daemon

# Stands for the internet, and is the verification's address of it: what is sent there stays here.
INTERNET_ADDRESS = PUBLIC
# What a weakened gateway would let out ends here as well.
NOWHERE = (*LAN, *METADATA)
SERVER = """
import socket, sys
listener = socket.create_server(("0.0.0.0", int(sys.argv[1])))
print("listening", flush=True)
while True:
    wire, _ = listener.accept()
    wire.close()
"""


class SiteHost:
    """Listens on every address of the host of the virtual machines for the length of a `with` block."""

    port = 9876
    internet_address = INTERNET_ADDRESS

    def __enter__(self) -> Self:
        """Add the address and start the service, where the hypervisor's bridges are."""
        self._inside = daemon.inside()
        self._ip("address", "add", f"{INTERNET_ADDRESS}/32", "dev", "lo")
        for address in NOWHERE:
            self._ip("route", "replace", "blackhole", f"{address}/32")
        argv = [*self._inside, "python3", "-u", "-c", SERVER, str(self.port)]
        self._server = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        assert self._server.stdout is not None
        assert self._server.stdout.readline() == "listening\n"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave nothing behind."""
        self._server.terminate()
        self._server.wait(10)
        self._ip("address", "delete", f"{INTERNET_ADDRESS}/32", "dev", "lo")
        for address in NOWHERE:
            with contextlib.suppress(subprocess.CalledProcessError):
                self._ip("route", "delete", "blackhole", f"{address}/32")

    def private_addresses(self) -> list[str]:
        """Every IPv4 address of the host but loopback and the one that stands for the internet."""
        shown = json.loads(self._ip("-json", "-4", "address", "show"))
        addresses = [info["local"] for link in shown for info in link.get("addr_info", [])]
        return [address for address in addresses if address not in ("127.0.0.1", INTERNET_ADDRESS)]

    def _ip(self, *arguments: str) -> str:
        argv = [*self._inside, "ip", *arguments]
        return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=30).stdout
