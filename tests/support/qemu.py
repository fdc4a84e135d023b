"""A QEMU process that boots nothing: stopped before its first instruction, so it costs nothing."""

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from deskyard.host.vm.cpu import QEMU
from deskyard.host.vm.qemu import SOCKET, Machine

STOPPED = ("-S", "-nodefaults", "-no-user-config", "-display", "none", "-vga", "std", "-m", "64")
SECONDS = 30.0


@contextmanager
def stopped_machine(folder: Path, options: Sequence[str] = ()) -> Iterator[Machine]:
    """A machine whose QEMU answers; it is ended with the block, whatever the test did to it."""
    machine = Machine(folder)
    process = subprocess.Popen(["sh", "-c", machine.starting(QEMU), QEMU, *STOPPED, *options], stdin=subprocess.DEVNULL)
    try:
        await_machine(machine)
        yield machine
    finally:
        process.kill()
        process.wait(timeout=SECONDS)


def await_machine(machine: Machine) -> None:
    """Wait until the machine has written its pid file and made its socket."""
    until = time.monotonic() + SECONDS
    while machine.pid() is None or not (machine.folder / SOCKET).exists():
        assert time.monotonic() < until, f"no QEMU in {machine.folder}"
        time.sleep(0.05)
