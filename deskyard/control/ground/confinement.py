"""Takes from a process what it has no need of: the network, other accounts' files, and the way back to root."""

import contextlib
import ctypes
import fcntl
import importlib
import logging
import os
import pkgutil
import resource
import socket
import struct
import sys
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder

from deskyard.control.ground.folder import ids
from deskyard.errors import HostError

CLONE_NEWNET, CLONE_NEWIPC = 0x4000_0000, 0x0800_0000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
BACKLOG = 128
PR_SET_NO_NEW_PRIVS, PR_SET_PDEATHSIG = 38, 1
LATE = "import it before the process is confined"
_libc = ctypes.CDLL(None, use_errno=True)


class LateImports:
    """Logs each module that is first imported when the tree may be closed to the process, and imports nothing.

    Where the tree is open the import goes well, and the same program fails where it lies below a closed folder.
    """

    def find_spec(self, name: str, path: Sequence[str] | None, _: object = None) -> ModuleSpec | None:
        """Leave the search to all others."""
        if PathFinder.find_spec(name, path) is not None:
            logging.getLogger(__name__).warning("%s: %s", name, LATE)
        return None


def preload(libraries: Sequence[str]) -> None:
    """Import all that libraries would import at the first use of something, when no file can be read any more."""
    for name in libraries:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}.", onerror=lambda _: None):
            # Some are for programs that are not here.
            if not module.name.endswith("__main__"):
                with contextlib.suppress(Exception), warnings.catch_warnings(action="ignore"):
                    importlib.import_module(module.name)


@dataclass(frozen=True)
class ClosedNetwork:
    """A network namespace with a loopback alone: who is in it reaches whoever accepts on its listener, and no more."""

    namespace: int
    listener: int


def closed_network(address: str, port: int) -> ClosedNetwork:
    """Make one, as numbers of open files; the process itself stays where it is."""
    # A namespace is the thread's that asks for it.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(_close, address, port).result()


def _close(address: str, port: int) -> ClosedNetwork:
    _call("unshare", CLONE_NEWNET)
    listener = socket.socket()
    fcntl.ioctl(listener, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))
    listener.bind((address, port))
    listener.listen(BACKLOG)
    return ClosedNetwork(os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC), listener.detach())


def confine(account: str, *, network: bool = False, namespace: int | None = None) -> None:
    """Go on as `account`, in a network namespace without any interface; everything needed must be open by now.

    Sockets in the file system still work: they belong to no network. `network` leaves the way out to who needs it,
    `namespace` is that of a closed network, in place of one without anything.
    """
    _call("unshare", CLONE_NEWIPC | (0 if network or namespace is not None else CLONE_NEWNET))
    if namespace is not None:
        _call("setns", namespace, CLONE_NEWNET)
        os.close(namespace)
    user, group = ids(account)
    os.chdir("/")
    os.setgroups([])
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)
    _call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.meta_path.insert(0, LateImports())


def die_with_parent(sign: int) -> None:
    """Get a signal when the process that started this one has ended, however that ended."""
    _call("prctl", PR_SET_PDEATHSIG, sign, 0, 0, 0)


def _call(name: str, *arguments: int) -> None:
    if getattr(_libc, name)(*map(ctypes.c_ulong, arguments)) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise HostError("confinement", name, f"is refused by this machine: {reason}", "run control.up as root")
