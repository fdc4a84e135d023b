"""Takes from a process what it has no need of: the network, other accounts' files, and the way back to root."""

import contextlib
import ctypes
import importlib
import logging
import os
import pkgutil
import resource
import sys
import warnings
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder

from deskyard.control.folder import ids
from deskyard.errors import HostError

CLONE_NEWNET, CLONE_NEWIPC = 0x4000_0000, 0x0800_0000
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


def confine(account: str, *, network: bool = False) -> None:
    """Go on as `account`, in a network namespace without any interface; everything needed must be open by now.

    Sockets in the file system still work: they belong to no network. `network` leaves the way out to who needs it.
    """
    _call("unshare", CLONE_NEWIPC | (0 if network else CLONE_NEWNET))
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
