"""The network namespace of the private hypervisor: made, given a way out, entered, removed."""

import ctypes
import os
import shutil
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from deskyard.errors import HostError
from deskyard.host.background import Background
from deskyard.host.command import run

NAMESPACE = "deskyard"
NAMESPACE_FILE = Path("/run/netns") / NAMESPACE
# slirp4netns' own network: its resolver answers here.
WAY_OUT_RESOLVER = "10.0.2.3"
CLONE_NEWNET = 0x4000_0000
_libc = ctypes.CDLL(None, use_errno=True)


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


def connect(place: tuple[str, int], seconds: float) -> socket.socket:
    """A connection that begins in the namespace; this process stays where it is."""
    # A namespace is the thread's that asks for it.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(_connect, place, seconds).result()


def _connect(place: tuple[str, int], seconds: float) -> socket.socket:
    with NAMESPACE_FILE.open("rb") as file:
        if _libc.setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"{NAMESPACE_FILE}: {os.strerror(ctypes.get_errno())}")
    return socket.create_connection(place, seconds)


def holds(pid: int) -> bool:
    """True if this process lives in the namespace."""
    try:
        return Path(f"/proc/{pid}/ns/net").stat().st_ino == NAMESPACE_FILE.stat().st_ino
    except OSError:
        return False
