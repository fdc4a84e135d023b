"""Replaces files of the gateway: judged before, installed and loaded in order; if one fails, the old ones come back."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deskyard.errors import GatewayError
from deskyard.gateway.config import backends
from deskyard.gateway.machine import files
from deskyard.gateway.machine.layout import Layout
from deskyard.gateway.machine.system import System
from deskyard.wire.gateway_settings import Settings

RELOAD_DOOR = ("systemctl", "reload-or-restart", "haproxy.service")


@dataclass(frozen=True)
class Part:
    """A generated file: its text, and the programs that put it into force."""

    name: str
    path: Path
    text: str
    activate: tuple[tuple[str, ...], ...]
    unit: str | None = None
    mode: int = 0o644


def door_check(staged: Path, settings: Settings, layout: Layout) -> tuple[str, ...]:
    """The command by which HAProxy judges a staged file of the door, beside which its servers are laid."""
    servers = staged.with_name("backends.cfg")
    servers.write_text(backends.text(settings, layout))
    backends.ensure_revoked(layout)
    backends.ensure_shut(settings, layout)
    return ("haproxy", "-c", "-f", str(staged), "-f", str(servers))


def judge(name: str, argv: Sequence[str], system: System, remedy: str) -> None:
    """Let a program judge what is staged; raise `GatewayError` if it refuses."""
    answer = system.run(argv)
    if answer.code != 0:
        raise GatewayError(name, None, f"{argv[0]} refuses the new configuration:\n{answer.output}", remedy)


def replace(parts: Sequence[Part], system: System, remedy: str) -> None:
    """Write and load each part in order; on a failure restore all that was written and raise `GatewayError`."""
    old = {part.name: files.read(part.path) for part in parts}
    for number, part in enumerate(parts, 1):
        files.write(part.path, part.text, part.mode)
        failure = _activate(part, system)
        if failure is not None:
            trouble = _restore(parts[:number], old, system)
            raise GatewayError(part.name, None, f"could not be put into force: {failure}{trouble}", remedy)


def _activate(part: Part, system: System) -> str | None:
    for argv in part.activate:
        answer = system.run(argv)
        if answer.code != 0:
            return f"{' '.join(argv)}: exit code {answer.code}\n{answer.output}"
    return None


def _restore(written: Sequence[Part], old: dict[str, str | None], system: System) -> str:
    """Write the old files and load them, the firewall first; the answer is what went wrong with that, if anything."""
    trouble = ""
    for part in written:
        before = old[part.name]
        if before is None:
            # There was nothing before. A firewall that was loaded stays: it is stricter than none.
            part.path.unlink()
            continue
        files.write(part.path, before, part.mode)
        failure = _activate(part, system)
        if failure is not None:
            trouble += f"\nthe old {part.name} could not be loaded again either: {failure}"
    return trouble
