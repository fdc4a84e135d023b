"""Runs Molecule scenarios: each role on real systemd hosts, which are gone afterwards."""

import hashlib
import os
import re
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deskyard.errors import CommandError, ConfigError, HostError
from deskyard.host.command import run
from deskyard.host.places import places, tree
from deskyard.host.progress import say
from deskyard.lab.nspawn import Yard
from deskyard.lab.tree import HYPERVISOR, gateway_roles, scenarios

SCENARIO_SECONDS = 1800.0
PROGRAMS = ("systemd-nspawn", "mmdebstrap", "slirp4netns", "socat", "ip", "nft", "ssh")
# `INFO     [default > converge] Executing` is how Molecule says what it does.
ACTION = re.compile(r"\[(?:\S+) > (\S+)\] Executing$")


@dataclass(frozen=True)
class Outcome:
    """The outcome of a scenario, and how long each of its steps took, in seconds."""

    role: str
    scenario: str
    passed: bool
    steps: dict[str, float] = field(default_factory=dict)
    log: str = ""
    reason: str = ""


def chosen(role: str = "", scenario: str = "") -> list[tuple[str, str]]:
    """The scenarios that are meant; raises `ConfigError` if there is none."""
    every = scenarios()
    found = [pair for pair in every if role in ("", pair[0]) and scenario in ("", pair[1])]
    if not found:
        names = ", ".join(f"{owner}/{name}" for owner, name in every)
        raise ConfigError("scenario", f"{role or '*'}/{scenario or '*'}", "is not there", f"choose from: {names}")
    return found


def why_not() -> str:
    """Why this machine cannot run the scenarios; empty if it can."""
    if os.geteuid() != 0:
        return "needs root: it mounts, makes network namespaces and boots containers"
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    return f"needs {', '.join(missing)} (see host/debian.txt)" if missing else ""


def run_scenario(role: str, scenario: str) -> Outcome:
    """Run one scenario from create to destroy; what it left behind makes it fail, too."""
    folder = _folder(role, scenario)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    log = folder.with_suffix(".log")
    clock = _Clock()
    with log.open("w", buffering=1) as file:

        def note(line: str) -> None:
            file.write(line + "\n")
            clock.see(line)

        reason = ""
        try:
            argv = [sys.executable, "-m", "molecule", *_bases(role), "test", "-s", scenario]
            run(argv, timeout=SCENARIO_SECONDS, cwd=tree() / "ansible", env=_environment(role, folder), on_line=note)
        except CommandError as error:
            reason = error.reason
        finally:
            # Molecule destroys whatever happened, unless it was stopped itself.
            Yard(folder).destroy()
    left = Yard(folder).left_behind()
    if left:
        reason += f"\nleft behind: {', '.join(left)}"
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return Outcome(role, scenario, not reason, clock.steps(), str(log), reason)


def require() -> None:
    """Raise `HostError` if the scenarios cannot run here."""
    reason = why_not()
    if reason:
        raise HostError("molecule", None, reason, "run it as root on a machine that has what it needs")


def table(outcomes: Sequence[Outcome]) -> str:
    """The scenarios and the seconds of their steps, for people."""
    names = list(dict.fromkeys(name for outcome in outcomes for name in outcome.steps))
    width = max(len(f"{outcome.role}/{outcome.scenario}") for outcome in outcomes)
    lines = [f"{'':{width}} " + " ".join(f"{name:>11}" for name in [*names, "all"])]
    for result in outcomes:
        seconds = [*(result.steps.get(name, 0.0) for name in names), sum(result.steps.values())]
        figures = " ".join(f"{value:11.1f}" for value in seconds)
        lines.append(
            f"{result.role + '/' + result.scenario:{width}} {figures}  {'passed' if result.passed else 'FAILED'}"
        )
    return "\n".join(lines)


class _Clock:
    """Reads from Molecule's output when each step began."""

    def __init__(self) -> None:
        self._begun: list[tuple[str, float]] = []

    def see(self, line: str) -> None:
        found = ACTION.search(line)
        if found:
            self._begun.append((found[1], time.monotonic()))
            say(f"    {found[1]}")

    def steps(self) -> dict[str, float]:
        """Seconds per step; the second `destroy` is the one that counts."""
        ends = [*(begun for _, begun in self._begun[1:]), time.monotonic()]
        return {name: round(end - begun, 1) for (name, begun), end in zip(self._begun, ends, strict=False)}


def _folder(role: str, scenario: str) -> Path:
    """Of this checkout and scenario alone; short, because sockets in it have short names."""
    digest = hashlib.sha1(f"{tree()} {role} {scenario}".encode()).hexdigest()[:8]
    return places().state / "molecule" / digest


def _bases(role: str) -> list[str]:
    """The options that name what the role's scenarios share."""
    shared = ["shared"] if role in (*gateway_roles(), HYPERVISOR) else ["shared", "desk"]
    return [option for name in shared for option in ("-c", f"molecule/{name}/base.yml")]


def _environment(role: str, folder: Path) -> dict[str, str]:
    return {
        "MOLECULE_GLOB": f"molecule/{role}/*/molecule.yml",
        "MOLECULE_EPHEMERAL_DIRECTORY": str(folder),
        "DESKYARD_ROLE": role,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONUNBUFFERED": "1",
        "NO_COLOR": "1",
    }
