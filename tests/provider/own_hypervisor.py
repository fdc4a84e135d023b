"""A hypervisor of a test's own: libvirt's folders, processes and pool are its, and gone with it.

What is called in it runs in a process of its own, which may be killed; so may libvirtd, which no other test has.
"""

import contextlib
import os
import pickle
import shutil
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeVar

from deskyard.host.places import places, tree
from deskyard.host.vm.accelerator import accelerator
from deskyard.site.libvirt import daemon
from tests.support.requirements import need_programs, need_root

CALL_SECONDS = 600.0
PROGRAMS = ("libvirtd", "virtlogd", "qemu-img", "unshare", "nsenter")
P = ParamSpec("P")
T = TypeVar("T")

# First process of namespaces of its own for mounts and processes. The product's `daemon.up` starts libvirtd in it. It
# stays, and takes leave of processes that nobody waits for: while one that has ended is there, libvirt waits for it.
START = """
set -e
resolv=$(readlink -f /etc/resolv.conf)
mkdir "$1/etc" "$1/etc/qemu"
cp -r /etc/libvirt/nwfilter /etc/libvirt/*.conf "$1/etc/"
mount --bind "$1/etc" /etc/libvirt
for folder in /run /var/lib/libvirt /var/log/libvirt /var/cache/libvirt; do mount -t tmpfs tmpfs $folder; done
mkdir -p /var/lib/libvirt/images /var/log/libvirt/qemu "${resolv%/*}"
[ -e "$resolv" ] || touch "$resolv"
mount -t tmpfs -o "size=$2" tmpfs /var/lib/libvirt/images
umount --lazy --recursive /sys/fs/cgroup 2>/dev/null || true
shift 2
"$@"
exit
"""


class KilledError(Exception):
    """What was called was killed before it ended."""


class OwnHypervisor:
    """A private hypervisor whose pool lies on a file system of `size`, as mount has it."""

    def __init__(self, size: str) -> None:
        self._size = size

    def __enter__(self) -> Self:
        need_root("makes namespaces and mounts")
        need_programs(*PROGRAMS)
        self._folder = Path(tempfile.mkdtemp(prefix="dyown."))
        # QEMU's account has to pass.
        self._folder.chmod(0o711)
        home = self._folder / "home"
        (home / "cache").mkdir(parents=True)
        (home / "cache/toolchain").symlink_to(places().toolchain)
        mine, its = socket.socketpair()
        apart = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"]
        start = ["sh", "-c", START, "sh", str(self._folder), self._size]
        program = [sys.executable, "-m", __name__, str(its.fileno())]
        env = {**os.environ, "DESKYARD_HOME": str(home), "PYTHONPATH": f"{tree()}:{tree()}/sdk"}
        self._process = subprocess.Popen(
            [*apart, *start, *program], cwd=tree(), env=env, stdin=subprocess.DEVNULL, pass_fds=[its.fileno()]
        )
        its.close()
        self._link = Connection(mine.detach())
        try:
            self.call(start_libvirtd)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def call(self, function: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
        """Call a function of a module in it, in a process of its own; raises `KilledError` if that is killed."""
        self._link.send((function, given, named))
        if not self._link.poll(CALL_SECONDS):
            raise TimeoutError(f"{function.__name__} has not ended within {CALL_SECONDS:.0f} s")
        done, answer = self._link.recv()
        if done is None:
            raise KilledError(answer)
        if not done:
            raise AssertionError(f"in the hypervisor of this test: {answer}")
        found: T = answer
        return found

    def _end(self) -> None:
        """All of its processes end with the first, and its mounts with them."""
        self._link.close()
        self._process.kill()
        self._process.wait(timeout=30)
        shutil.rmtree(self._folder)


def start_libvirtd() -> None:
    """Start it as the product does, if it does not run."""
    daemon.up(accelerator("auto"))


def _serve(link: Connection) -> None:
    """Call what is asked for, one after the other; this process asks libvirt for nothing, so that it can be forked."""
    with contextlib.suppress(EOFError):
        while True:
            link.send(_call(*pickle.loads(link.recv_bytes())))


def _call(function: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any]) -> tuple[bool | None, Any]:
    heard, said = Pipe(duplex=False)
    pid = os.fork()
    if pid == 0:
        try:
            answer = (True, function(*given, **named))
        except BaseException:
            answer = (False, traceback.format_exc())
        said.send(answer)
        sys.stdout.flush()
        os._exit(0)
    said.close()
    try:
        found: tuple[bool | None, Any] = heard.recv()
    except EOFError:
        found = (None, f"{function.__name__} was killed")
    os.waitpid(pid, 0)
    return found


if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])))
