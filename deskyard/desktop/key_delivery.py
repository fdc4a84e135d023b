"""Brings the owner's keys to the desktops that they name, and takes back what a desktop shall not have any more."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from deskyard.declaration.declaration import Declared
from deskyard.desktop import program
from deskyard.engine import stack_secrets
from deskyard.errors import CommandError, SiteError
from deskyard.guest import keys as key_program
from deskyard.host.at_once import at_once
from deskyard.host.places import places
from deskyard.host.progress import say
from deskyard.host.secret_file import leave_mark
from deskyard.plan import key_file
from deskyard.plan.workspace import WorkspacePlan

if TYPE_CHECKING:
    # Who hands over a stack has the engine's library: to import it takes others a fifth of a second.
    from deskyard.engine.stack import WorkspaceStack

MARK = "keys-delivered"
OUTCOMES = ("unchanged", "changed", "removed")

# Desktop -> name of a key -> its value.
Keys = Mapping[str, Mapping[str, str]]


def wanted(declared: Declared, stack: "WorkspaceStack") -> Keys | None:
    """The keys that each desktop shall have, none being none; None if no desktop needs to be asked at all.

    That is a workspace without `keys` whose desktops never got any from this machine.
    """
    workspace = declared.workspace
    if workspace.keys is None and not _mark(declared.plan).exists():
        return None
    names = {desktop.name: workspace.keys_of(desktop) for desktop in workspace.desktops}
    values = stack_secrets.read_keys(stack, sorted({name for some in names.values() for name in some}))
    return {desktop: {name: values[name] for name in some} for desktop, some in names.items()}


def deliver(plan: WorkspacePlan, keys: Keys) -> dict[str, str]:
    """Bring every desktop in step: desktop -> unchanged, changed or removed.

    One that fails keeps no other from its keys; the first failure is raised at the end.
    """
    if any(keys.values()):
        note(plan)
    done = at_once({desktop: partial(_bring, plan, desktop, values) for desktop, values in keys.items()})
    if not any(keys.values()):
        _mark(plan).unlink(missing_ok=True)
    return done


def note(plan: WorkspacePlan) -> None:
    """A desktop of the workspace may hold a key: all are asked from then on."""
    leave_mark(_mark(plan))


def request(**what: str | None) -> dict[str, str | None]:
    """The request to the program on a desktop."""
    return {"path": key_file.PATH, "group": key_file.GROUP, **what}


def _bring(plan: WorkspacePlan, desktop: str, values: Mapping[str, str]) -> str:
    text = key_file.text(values)
    try:
        answer = program.ask(plan, desktop, key_program, request(text=text), hidden=set(values.values()))
    except (SiteError, CommandError) as error:
        say(f"    {desktop}: its keys are not in step: {error.reason.splitlines()[0]}")
        raise
    done = str(answer.get("done"))
    if done not in OUTCOMES:
        raise SiteError("desktop", f"{plan.name}/{desktop}", "did not say whether it has its keys", "run it again")
    say(f"    {desktop}: {', '.join(sorted(values)) or 'no keys'} ({done})")
    return done


def _mark(plan: WorkspacePlan) -> Path:
    """There if a desktop of the workspace may hold a key."""
    return places().workspace(plan.site, plan.name) / MARK
