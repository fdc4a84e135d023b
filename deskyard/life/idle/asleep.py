"""Remembers which desktops were stopped because nobody used them; whoever moves one by hand ends that."""

from pathlib import Path

from deskyard.host.places import places
from deskyard.host.secret_file import leave_mark
from deskyard.plan.workspace import WorkspacePlan


def is_asleep(plan: WorkspacePlan, desktop: str) -> bool:
    """Whether it was stopped for want of use, and not moved since."""
    return _mark(plan, desktop).exists()


def since(plan: WorkspacePlan, desktop: str) -> float | None:
    """When it was stopped for want of use, in Unix time; none if it was not, or was moved since."""
    try:
        return _mark(plan, desktop).stat().st_mtime
    except FileNotFoundError:
        return None


def anywhere() -> bool:
    """Whether any desktop of this machine may have been: asked often, and before anything is read."""
    return any(places().sites.glob("*/workspaces/*/asleep/*"))


def note(plan: WorkspacePlan, desktop: str) -> None:
    """Remember that it is stopped for want of use."""
    leave_mark(_mark(plan, desktop))


def forget(plan: WorkspacePlan, desktop: str) -> None:
    """Whatever is done with it now, somebody wants it so."""
    _mark(plan, desktop).unlink(missing_ok=True)


def _mark(plan: WorkspacePlan, desktop: str) -> Path:
    return places().workspace(plan.site, plan.name) / "asleep" / desktop
