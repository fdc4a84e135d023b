"""Runs as root for a connection: halts all that the agent runs, lets it go on, and answers whether it stands still.

Apart from the service, which stands still with the agent. systemd starts it for each connection, which is its standard
input and output; what is not of the gateway gets no answer.
"""

import json
import socket
import subprocess
import sys
import urllib.request
from ipaddress import IPv4Address
from pathlib import Path

from deskyard.wire.computer import GO, STOP
from deskyard.wire.routes import COMPUTER

SLICE = "agent.slice"
EVENTS = Path("/sys/fs/cgroup") / SLICE / "cgroup.events"
ROUTES = Path("/proc/net/route")
HEAR_SECONDS = 5.0
MOST_REQUEST = 1024
# A service that is busy must not keep what it does from being stopped.
RELEASE_SECONDS = 3.0
SYSTEMD_SECONDS = 20.0
DEFAULT, GATEWAY_FLAG = "00000000", 0x2


def main() -> None:
    """Answer one request."""
    with socket.socket(fileno=sys.stdin.fileno()) as line:
        line.settimeout(HEAR_SECONDS)
        if line.getpeername()[0].removeprefix("::ffff:") not in gateways(ROUTES.read_text()):
            return
        word = heard(line)
        if word is not None:
            line.sendall(json.dumps({"still": act(word)}).encode() + b"\n")


def gateways(routes: str) -> set[str]:
    """The addresses of the default routes, of the kernel's table: there is the gateway, and nobody else."""
    found = set[str]()
    for line in routes.splitlines()[1:]:
        _, destination, gateway, flags, *_ = line.split()
        if destination == DEFAULT and int(flags, 16) & GATEWAY_FLAG:
            found.add(str(IPv4Address(int.from_bytes(bytes.fromhex(gateway), sys.byteorder))))
    return found


def heard(line: socket.socket) -> str | None:
    """The word of a request, a line of JSON; None for what is none."""
    with line.makefile("rb") as stream:
        try:
            request = json.loads(stream.readline(MOST_REQUEST))
        except (OSError, ValueError, RecursionError):
            return None
    word = request.get("agent") if isinstance(request, dict) else None
    return word if word in (STOP, GO) else None


def act(word: str) -> bool:
    """Do what is asked, unless it is so already; whether the agent stands still then."""
    if is_still() != (word == STOP):
        if word == STOP:
            say(stopped=True)
        action = "freeze" if word == STOP else "thaw"
        subprocess.run(["systemctl", action, SLICE], stdout=subprocess.DEVNULL, timeout=SYSTEMD_SECONDS, check=False)
    if word == GO:
        # Also where nothing stood still: a service that was told and could not be frozen refuses until it hears this.
        say(stopped=False)
    return is_still()


def is_still() -> bool:
    """Whether the kernel says that no process of the slice runs."""
    return EVENTS.exists() and "frozen 1" in EVENTS.read_text().splitlines()


def say(stopped: bool) -> None:
    """Have the service refuse the agent and let go of its keys and buttons, or take it again.

    One that does not answer holds up nothing.
    """
    url = f"http://127.0.0.1:{COMPUTER.port}/v1/drive"
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps({"stopped": stopped}).encode(), headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=RELEASE_SECONDS):
            pass
    except OSError:
        return


if __name__ == "__main__":
    main()
