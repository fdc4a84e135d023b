"""The network namespace of the private hypervisor: made, given a way out, entered, removed."""

import os
import shutil
from pathlib import Path

from deskyard.errors import HostError
from deskyard.host.background import Background
from deskyard.host.command import run

NAMESPACE = "deskyard"
NAMESPACE_FILE = Path("/run/netns") / NAMESPACE
# slirp4netns' own network: its resolver answers here.
WAY_OUT_RESOLVER = "10.0.2.3"


def exists() -> bool:
    """True if the namespace is there."""
    return NAMESPACE_FILE.exists()


def create() -> None:
    """Make the namespace with a loopback device; needs root."""
    if os.geteuid() != 0:
        reason = "without systemd the hypervisor is started by Deskyard itself, which needs root"
        raise HostError("user", os.geteuid(), reason, "run the command as root")
    if not exists():
        run(["ip", "netns", "add", NAMESPACE], timeout=10)
    run([*inside(), "ip", "link", "set", "lo", "up"], timeout=10)


def open_way_out(folder: Path) -> Background | None:
    """Connect the namespace to the machine's network in user space, where slirp4netns is installed."""
    if shutil.which("slirp4netns") is None:
        return None
    slirp = Background("slirp4netns", folder)
    options = ["--configure", "--mtu=1500", "--disable-host-loopback", "--netns-type=path"]
    slirp.start(["slirp4netns", *options, str(NAMESPACE_FILE), "tap0"])
    return slirp


def remove() -> None:
    """Remove the namespace."""
    if exists():
        run(["ip", "netns", "delete", NAMESPACE], timeout=10)


def inside() -> list[str]:
    """The start of a command line that runs the rest in the namespace, with this mount namespace as it is."""
    return ["nsenter", f"--net={NAMESPACE_FILE}"]


def holds(pid: int) -> bool:
    """True if this process lives in the namespace."""
    try:
        return Path(f"/proc/{pid}/ns/net").stat().st_ino == NAMESPACE_FILE.stat().st_ino
    except OSError:
        return False
