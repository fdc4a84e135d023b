"""Removes a workspace for good: last backups of its desktops, its machines, then its declaration, each once."""

import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from deskyard.declaration import declaration, stack_file
from deskyard.errors import DeskyardError
from deskyard.host.places import places
from deskyard.host.progress import say
from deskyard.host.secret_file import write_secret
from deskyard.life import power, snapshot
from deskyard.life.backup import backup, final
from deskyard.plan import names
from deskyard.workspace import seating, workspace

# What was backed up for the end of its workspace: a run that was killed is gone on with by that.
NOTE = "last-backups.json"


def preview(name: str) -> dict[str, Any]:
    """Tell what a removal would take and what stays of it; raises `SiteError` if a last backup could not be proved.

    `desktops` has each that holds something of somebody, those for a task among them.
    """
    going, in_use = final.going(name), _in_use(name)
    return {
        "desktops": sorted({*going, *_declared(name), *in_use}),
        "tasks": in_use,
        "notice": final.notice(name, _to_back_up(name, going, None), _without(name), backup=True),
        "stays": backup.survivors(name),
        "goes_too": workspace.remnants(name),
        "snapshots": {desktop: found for desktop in going if (found := _snapshots(f"{name}/{desktop}"))},
    }


def remove(name: str, only: Collection[str], run: str) -> dict[str, Any]:
    """Remove a workspace if it has no other desktop than these, and put its declaration away.

    Before anything is touched a last backup of each desktop is made and verified, unless it is declared to have none.
    `run` names the removal: begun again, it makes none twice. What fails leaves the declaration where it is.
    """
    workspace.require_only(name, only, [*final.going(name), *_declared(name), *_in_use(name)])
    kept = _keep(name, run)
    workspace.destroy(name, only)
    place = stack_file.put_away(declaration.stack_file(name))
    say(f"    its declaration is put away: {place}")
    return {"last_backups": kept, "declaration": f"{place.parent.name}/{place.name}"}


def _declared(name: str) -> list[str]:
    return [desktop.name for desktop in declaration.read_workspace(name).persistent()]


def _in_use(name: str) -> list[str]:
    """The seats whose desktops somebody has for a task."""
    seats = seating.seats_of(declaration.read(name))
    return [] if seats is None else seats.claimed()


def _snapshots(target: str) -> list[str]:
    """The names of a desktop's snapshots; none where its machine is not there to be asked."""
    with suppress(DeskyardError):
        return [row["name"] for row in snapshot.listing(target)["snapshots"]]
    return []


def _keep(name: str, run: str) -> dict[str, str]:
    """Make and verify the last backups that are still to be made; the ids of all, by desktop."""
    pending = _to_back_up(name, final.going(name), run)
    # Looked at for all before one is made.
    final.notice(name, pending, _without(name), backup=True)
    kept = _noted(name)
    made = dict(kept.get("made", {})) if kept.get("run") == run else {}
    for desktop in pending:
        made |= final.keep(name, [desktop], _without(name))
        write_secret(_note(name), json.dumps({"run": run, "made": made}).encode())
    return made


def _to_back_up(name: str, going: Collection[str], run: str | None) -> list[str]:
    """Those of these desktops of which this run has made no backup.

    Of one whose machine went in a run before, behind its backup, the engine may still know: nothing is there of it.
    """
    noted = _noted(name)
    made = set(noted.get("made", {}))
    if not made:
        return list(going)
    if noted.get("run") != run:
        _, machines = power.look_up(name)
        there = machines.states()
        made = {desktop for desktop in made if names.domain(name, desktop) not in there}
    return [desktop for desktop in going if desktop not in made]


def _noted(name: str) -> Mapping[str, Any]:
    with suppress(FileNotFoundError, ValueError):
        found = json.loads(_note(name).read_text())
        return found if isinstance(found, dict) else {}
    return {}


def _note(name: str) -> Path:
    return places().workspace(declaration.site_of(name).name, name) / NOTE


def _without(name: str) -> str:
    return f"./inv workspace.destroy {name} --no-backup"
