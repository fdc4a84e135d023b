"""Mission Control's unit of systemd, where the role mission_control installed it: then it starts with the machine."""

from dataclasses import dataclass
from pathlib import Path

from deskyard.host import command

NAME = "deskyard-control.service"
FILE = Path("/etc/systemd/system") / NAME
BOOTED = Path("/run/systemd/system")
ASK_SECONDS = 30.0


@dataclass(frozen=True)
class Unit:
    """The supervisor as a unit, which is started and ended as `Background` is."""

    # More than the supervisor takes at worst to end.
    end_seconds: float

    def pid(self) -> int | None:
        """The supervisor's process; None if it does not run."""
        number = self._ask("show", "--property=MainPID", "--value")
        return int(number) or None

    def start(self) -> None:
        """Start it with what is installed now."""
        self._ask("restart")

    def stop(self) -> None:
        """End it; at the next start of the machine it runs again."""
        self._ask("stop")

    def log_tail(self, lines: int = 8) -> str:
        """The end of what it printed."""
        argv = ["journalctl", f"--unit={NAME}", "--output=cat", f"--lines={lines}"]
        return command.run(argv, timeout=ASK_SECONDS, check=False).stdout

    def _ask(self, verb: str, *options: str) -> str:
        return command.run(["systemctl", verb, *options, NAME], timeout=self.end_seconds + ASK_SECONDS).stdout.strip()


def is_installed(folder: Path) -> bool:
    """Whether this machine has a unit for the Mission Control of a folder."""
    return BOOTED.is_dir() and FILE.is_file() and str(folder) in FILE.read_text().split()
