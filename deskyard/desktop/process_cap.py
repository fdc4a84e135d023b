"""Caps the processes of desktops as their tiers say, and lifts the cap where a tier says nothing of them any more."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from deskyard.desktop import program
from deskyard.errors import CommandError, SiteError
from deskyard.guest import processes as cap_program
from deskyard.host.at_once import at_once
from deskyard.host.places import places
from deskyard.host.progress import say
from deskyard.host.secret_file import leave_mark
from deskyard.plan.account import AGENT
from deskyard.plan.printable import printable
from deskyard.plan.workspace import DesktopPlan, WorkspacePlan

MARKS = "processes-capped"
OUTCOMES = ("unchanged", "changed", "removed")
MOST_SHOWN = 10


def wanted(plan: WorkspacePlan) -> dict[str, int | None]:
    """The cap that each desktop shall have, if any; without those that never had one from this machine."""
    caps = {desktop.name: desktop.caps.processes for desktop in plan.desktops}
    return {name: cap for name, cap in caps.items() if cap is not None or _mark(plan, name).exists()}


def deliver(plan: WorkspacePlan, caps: Mapping[str, int | None]) -> dict[str, str]:
    """Bring every desktop in step: desktop -> unchanged, changed or removed.

    One that fails keeps no other from its cap; the first failure is raised at the end.
    """
    return at_once({desktop: partial(_bring, plan, desktop, cap) for desktop, cap in caps.items()})


def equip(plan: WorkspacePlan, desktop: DesktopPlan) -> None:
    """Cap a desktop whose system is new, and of which there is nothing to lift."""
    if (cap := desktop.caps.processes) is not None:
        deliver(plan, {desktop.name: cap})


def note(plan: WorkspacePlan, desktop: str) -> None:
    """A desktop is capped, or was: it is asked from then on, since an older disk of it may come back."""
    leave_mark(_mark(plan, desktop))


def forget(site: str, workspace: str, desktop: str) -> None:
    """The machine that was capped is gone."""
    (places().workspace(site, workspace) / MARKS / desktop).unlink(missing_ok=True)


def _bring(plan: WorkspacePlan, desktop: str, cap: int | None) -> str:
    if cap is not None:
        note(plan, desktop)
    request = {"do": "bring", "account": AGENT, "processes": cap}
    try:
        answer = program.ask(plan, desktop, cap_program, request)
    except (SiteError, CommandError) as error:
        say(f"    {desktop}: the cap of its processes is not in step: {error.reason.splitlines()[0]}")
        raise
    done, target = str(answer.get("done")), f"{plan.name}/{desktop}"
    if done not in OUTCOMES:
        reason = "did not say whether its processes are capped"
        raise SiteError("desktop", target, reason, f"run ./inv workspace.up {plan.name} again")
    if otherwise := _shown(answer.get("otherwise")):
        reason = f"lets some have more processes than {cap}, which is its tier's: {otherwise}"
        remedy = "see what sets TasksMax there (`systemctl cat`), remove it, then run the same command again"
        raise SiteError("desktop", target, reason, remedy)
    say(f"    {desktop}: {_parts(cap, answer.get('parts'))} ({done})")
    return done


def _parts(cap: int | None, parts: Any) -> str:
    if cap is None:
        return "no cap of its processes"
    return f"{cap} processes at most in each of: {_shown(parts)}".replace(cap_program.EVERY_LOGIN, "any other login")


def _shown(names: Any) -> str:
    """The names as far as they are such: a desktop may answer what it likes."""
    known = sorted(map(str, names)) if isinstance(names, (list, dict)) else []
    more = [f"{len(known) - MOST_SHOWN} more"] if len(known) > MOST_SHOWN else []
    return ", ".join([*(printable(name) for name in known[:MOST_SHOWN]), *more])


def _mark(plan: WorkspacePlan, desktop: str) -> Path:
    """There if the desktop may be capped."""
    return places().workspace(plan.site, plan.name) / MARKS / desktop
