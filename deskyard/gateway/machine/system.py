"""Starts the programs of the gateway and hands back what they said."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

SECONDS = 330.0
# More than systemd gives a unit (`TimeoutStartSec`, anew for each of its commands) to start or reload: who gives up
# earlier takes a slow one for a failure, and undoes it beside what goes on.
COMMANDS = 3  # of the unit that has most
UNIT_SECONDS = COMMANDS * SECONDS


@dataclass(frozen=True)
class Answer:
    """Exit code and the end of the output."""

    code: int
    output: str


class System(Protocol):
    """The part of a machine that `apply` needs; tests give their own."""

    def run(self, argv: Sequence[str]) -> Answer:
        """Run a program to its end."""

    def mac(self, interface: str) -> str | None:
        """The MAC address of a NIC, or nothing if it is absent."""


class Machine:
    """The machine this runs on."""

    def run(self, argv: Sequence[str]) -> Answer:
        """Run a program to its end, at most for `SECONDS`; of `systemctl` to that of its unit."""
        seconds = UNIT_SECONDS if argv[0] == "systemctl" else SECONDS
        try:
            done = subprocess.run(
                list(argv), capture_output=True, text=True, errors="replace", timeout=seconds, check=False
            )
        except FileNotFoundError:
            return Answer(127, f"{argv[0]} is not installed")
        except subprocess.TimeoutExpired:
            return Answer(124, f"{argv[0]} did not end within {seconds:.0f} seconds")
        return Answer(done.returncode, (done.stdout + done.stderr).strip()[-3000:])

    def mac(self, interface: str) -> str | None:
        """The MAC address of a NIC, or nothing if it is absent."""
        path = Path("/sys/class/net") / interface / "address"
        return path.read_text().strip() if path.exists() else None
