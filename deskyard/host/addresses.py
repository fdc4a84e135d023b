"""The IPv4 addresses of this machine, and the ports that its programs listen on beyond loopback."""

import json
from collections.abc import Sequence
from ipaddress import IPv4Address

from deskyard.host.command import run

SECONDS = 20.0


def addresses(inside: Sequence[str] = ()) -> tuple[IPv4Address, ...]:
    """Every address but loopback's, in order; `inside` is the start of a command line that runs elsewhere."""
    shown = json.loads(run([*inside, "ip", "-json", "-4", "address", "show"], timeout=SECONDS).stdout or "[]")
    found = {IPv4Address(info["local"]) for link in shown for info in link.get("addr_info", [])}
    return tuple(sorted(address for address in found if not address.is_loopback))


def ports(inside: Sequence[str] = ()) -> tuple[int, ...]:
    """The TCP ports that something listens on, save those of loopback alone."""
    lines = run([*inside, "ss", "-Hltn"], timeout=SECONDS).stdout.splitlines()
    listening = [line.split()[3].rpartition(":") for line in lines if len(line.split()) > 3]
    return tuple(sorted({int(port) for address, _, port in listening if not address.startswith(("127.", "[::1]"))}))
