"""A QEMU process seen from outside: whether it runs, what its screen shows, how to get in, how it ends."""

import asyncio
import contextlib
import os
import re
import shlex
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from PIL import Image as Picture
from qemu.qmp import QMPClient, QMPError

from deskyard.errors import SiteError
from deskyard.host.deadline import Deadline

SOCKET, PID_FILE = "qmp.sock", "qemu.pid"
FOLDER_DESCRIPTOR = 9
SCREEN_SECONDS, END_SECONDS = 30.0, 10.0
SSH_PORT = re.compile(r"hostfwd=tcp:[^:,]*:(\d+)-:22\b")


@dataclass(frozen=True)
class Machine:
    """The QEMU process that was started by `starting`; it has its socket and its pid file in `folder`."""

    folder: Path

    def starting(self, program: str) -> str:
        """Shell commands that become QEMU, with the arguments of the shell and what is needed to find it again.

        The kernel takes no more than 107 bytes for the name of a socket, and folders may be deeper: so the name goes
        through an open descriptor of the folder.
        """
        socket = f"unix:/proc/self/fd/{FOLDER_DESCRIPTOR}/{SOCKET},server=on,wait=off"
        options = ["-qmp", socket, "-pidfile", str(self.folder / PID_FILE)]
        opened = f"exec {FOLDER_DESCRIPTOR}<{shlex.quote(str(self.folder))}"
        return f'{opened}; exec {shlex.quote(program)} "$@" {shlex.join(options)}'

    def pid(self) -> int | None:
        """The machine's pid; nothing if it has ended (strangers get pids again: they do not name our pid file)."""
        try:
            pid = int((self.folder / PID_FILE).read_text())
        except (OSError, ValueError):
            return None
        return pid if str(self.folder / PID_FILE) in _arguments(pid) else None

    def ssh_port(self) -> int | None:
        """The loopback port that leads to the guest's SSH, if there is one."""
        found = SSH_PORT.search(" ".join(_arguments(self.pid() or 0)))
        return int(found[1]) if found else None

    def screenshot(self, destination: Path) -> None:
        """Save what the screen shows as PNG; raises `SiteError` if QEMU does not tell."""
        # QEMU writes PNG itself from 7.1 on; every version writes this.
        dump = self.folder / "screen.ppm"
        try:
            asyncio.run(asyncio.wait_for(_screendump(self.folder, dump), SCREEN_SECONDS))
            with Picture.open(dump) as picture:
                picture.save(destination, "PNG")
        except (TimeoutError, QMPError, OSError) as error:
            reason = f"QEMU gave no screenshot: {error or 'no answer in time'}"
            raise SiteError("screen", str(self.folder), reason, "read the console instead") from error
        finally:
            dump.unlink(missing_ok=True)

    def end(self) -> None:
        """End it, if it runs."""
        for sign in (signal.SIGTERM, signal.SIGKILL):
            pid = self.pid()
            if pid is None:
                return
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, sign)
            Deadline(END_SECONDS).wait_for(lambda: self.pid() is None, 0.05)


def machines_below(folder: Path) -> Iterator[Machine]:
    """The machines below a folder that still run."""
    for path in sorted(folder.rglob(PID_FILE)):
        machine = Machine(path.parent)
        if machine.pid() is not None:
            yield machine


async def _screendump(folder: Path, picture: Path) -> None:
    client = QMPClient("deskyard")
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        await client.connect(f"/proc/self/fd/{descriptor}/{SOCKET}")
    finally:
        os.close(descriptor)
    try:
        await client.execute("screendump", {"filename": str(picture)})
    finally:
        await client.disconnect()


def _arguments(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []
