"""The programs that run in a guest, through its agent: they make a template, and a machine that is itself again."""

from pathlib import Path
from typing import Any

from deskyard.errors import SiteError
from deskyard.site.libvirt import agent, documents

PROGRAMS = ("prepare", "identity")


def program(name: str) -> str:
    """The text of a program."""
    return (Path(__file__).parent / f"{name}.sh").read_text()


def run_in(machine: Any, name: str, values: str, seconds: float) -> None:
    """Run one of the programs for guests; raises `SiteError` with what it said if it fails."""
    code, output = agent.execute(machine, ["/bin/sh", "-c", program(name)], seconds, values)
    if code != 0:
        reason = f"{name} failed in the guest ({code}): {output.strip()[-500:]}"
        raise SiteError("machine", machine.name(), reason, f"see {documents.console_log(machine.name())}")
