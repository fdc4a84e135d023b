"""A machine whose kernel panicked ends at once, and the error says so."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from deskyard.errors import BuildError
from deskyard.host.vm import panic

BOOTED = "[    0.000000] Linux version 6.12\n[    9.1] systemd[1]: Reached target\n"
# As an emulated gateway said it.
PANICKED = "[  243.730445] Kernel panic - not syncing: Fatal exception in interrupt\n[  243.7] Kernel Offset: 0x1b4\n"
ENDS_SECONDS = 60


@pytest.fixture
def machine() -> Iterator[subprocess.Popen[bytes]]:
    """A process that goes on for ever, as QEMU does with a kernel that stands still."""
    with subprocess.Popen(["sleep", "infinity"]) as process:
        yield process
        process.kill()


def test_panic_ends_the_machine_and_is_the_error(machine: subprocess.Popen[bytes], tmp_path: Path) -> None:
    console = tmp_path / "console.log"
    console.write_text(BOOTED)
    with (
        pytest.raises(BuildError, match=r"panicked: Fatal exception in interrupt\b") as caught,
        panic.ended_by_panic(machine, console),
    ):
        console.write_text(BOOTED + PANICKED)
        machine.wait(timeout=ENDS_SECONDS)
        raise OSError("connection refused")
    assert str(console) in caught.value.remedy
    assert isinstance(caught.value.__cause__, OSError)


def test_failure_without_a_panic_is_its_own(machine: subprocess.Popen[bytes], tmp_path: Path) -> None:
    console = tmp_path / "console.log"
    with pytest.raises(OSError, match="refused"), panic.ended_by_panic(machine, console):
        console.write_text(BOOTED)
        raise OSError("refused")
    assert machine.poll() is None


def test_console_that_is_not_there_yet_tells_nothing(tmp_path: Path) -> None:
    assert panic.reason(tmp_path / "console.log") == ""
