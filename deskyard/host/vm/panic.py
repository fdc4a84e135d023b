"""Ends a virtual machine whose kernel has panicked, so that whoever waits for it does not wait for nothing."""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deskyard.errors import BuildError

# How the kernel begins its last line (kernel/panic.c), whatever the reason behind it.
PANIC = "Kernel panic - not syncing: "
LOOK_SECONDS = 2.0


@contextmanager
def ended_by_panic(process: subprocess.Popen[bytes], console: Path) -> Iterator[None]:
    """End `process`, QEMU's, as soon as its `console` tells of a panic.

    Raises `BuildError` in place of what such an end makes fail in the block.
    """
    over = threading.Event()

    def watch() -> None:
        while not over.wait(LOOK_SECONDS):
            if reason(console):
                process.kill()
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    except Exception as error:
        if said := reason(console):
            remedy = f"run it again; if that panics, too, read the console: {console}"
            raise BuildError("boot", console.parent.name, f"the machine's kernel panicked: {said}", remedy) from error
        raise
    finally:
        over.set()
        watcher.join()


def reason(console: Path) -> str:
    """The reason of a panic as the kernel said it; empty if it did not."""
    try:
        _, found, rest = console.read_bytes().decode(errors="replace").partition(PANIC)
    except FileNotFoundError:
        return ""
    # The line may be half written yet.
    return (rest.partition("\n")[0].strip() or "no reason given") if found else ""
