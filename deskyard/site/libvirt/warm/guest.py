"""The programs that run in a guest, through its agent: they make a template, and a machine that is itself again."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deskyard.errors import SiteError
from deskyard.guest.identity import from_backup, from_template, homes
from deskyard.plan.warm import assignments
from deskyard.site.guest_program import source
from deskyard.site.libvirt import agent, documents

# Without the folders of others' modules, for which Python would look on the disk.
PYTHON = ("/usr/bin/python3", "-I", "-S", "-c")


def programs() -> tuple[str, str, str]:
    """The texts of the programs: the two that make a template, and what makes a machine itself."""
    return (Path(__file__).parent / "prepare.sh").read_text(), source(homes), source(from_template)


def prepare(machine: Any, name: str, values: Mapping[str, str], seconds: float) -> None:
    """Make a machine of this host name a template; raises `SiteError` with what it said if that fails."""
    prepared, forgetting, _ = programs()
    _run(machine, "prepare", ["/bin/sh", "-c", prepared], assignments(values), seconds)
    # Behind that: its agent is stopped by now.
    _run(machine, "forget", [*PYTHON, forgetting], name, seconds)


def become(machine: Any, values: Mapping[str, str], seconds: float) -> None:
    """Make a machine itself; raises `SiteError` with what it said if that fails."""
    _run(machine, "identity", [*PYTHON, programs()[-1]], _pairs(values), seconds)


def become_another(machine: Any, values: Mapping[str, str], seconds: float) -> None:
    """Make a machine of another one's backup itself; raises `SiteError` with what it said if that fails."""
    _run(machine, "identity", [*PYTHON, source(from_backup)], _pairs(values), seconds)


def _pairs(values: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\0" for name, value in values.items())


def _run(machine: Any, name: str, argv: Sequence[str], stdin: str, seconds: float) -> None:
    code, output = agent.execute(machine, argv, seconds, stdin)
    if code != 0:
        reason = f"{name} failed in the guest ({code}): {output.strip()[-500:]}"
        raise SiteError("machine", machine.name(), reason, f"see {documents.console_log(machine.name())}")
