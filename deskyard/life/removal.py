"""Removes a workspace for good: last backups of its desktops, its machines, then its declaration, each once."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from deskyard.declaration import declaration, stack_file
from deskyard.engine.backend import Machines
from deskyard.errors import ConfigError, DeskyardError
from deskyard.host.progress import say
from deskyard.life import power, snapshot
from deskyard.life.backup import backup, final
from deskyard.workspace import last_backups, seating, workspace
from deskyard.workspace.last_backups import LastBackups


def preview(name: str) -> dict[str, Any]:
    """Tell what a removal would take and what stays of it; raises `SiteError` if a last backup could not be proved.

    `desktops` has each that holds something of somebody, those for a task among them.
    """
    (going, alone), in_use = final.held(name), _in_use(name)
    note = _note(name, None)
    final.require_kept(name, alone, note.gone, _without(name))
    return {
        "desktops": sorted({*going, *alone, *_declared(name), *in_use}),
        "tasks": in_use,
        "notice": final.notice(name, _to_back_up([*going, *alone], note), _without(name), backup=True),
        "stays": backup.survivors(name),
        "goes_too": workspace.remnants(name),
        "snapshots": {desktop: found for desktop in going if (found := _snapshots(f"{name}/{desktop}"))},
    }


def remove(name: str, only: Collection[str], run: str) -> dict[str, Any]:
    """Remove a workspace if it has no other desktop than these, and put its declaration away.

    Before anything is touched a last backup of each desktop is made and verified, unless it is declared to have none.
    `run` names the removal: begun again, it makes none twice. What fails leaves the declaration where it is.
    """
    going, alone = final.held(name)
    _require_only(name, only, [*going, *alone, *_declared(name), *_in_use(name)])
    note = _note(name, run)
    final.require_kept(name, alone, [*note.made, *note.gone], _without(name))
    note = _keep(name, _to_back_up(going, note), note)
    put_away: list[Path] = []

    def guard(holding: Collection[str], claimed: Collection[str]) -> None:
        # Looked at again, since nobody else moves its machines now.
        _require_only(name, only, [*holding, *_declared(name), *claimed])
        final.require_kept(name, holding, [*note.made, *note.gone], _without(name))

    def last() -> None:
        # A declaration is edited by whoever likes, meanwhile too.
        _require_only(name, only, _declared(name))
        put_away.append(stack_file.put_away(declaration.stack_file(name)))

    try:
        workspace.destroy(name, guard, last)
    except BaseException:
        with suppress(DeskyardError):
            gone = sorted({*note.gone, *_gone(name, [*note.made])})
            last_backups.write(_site(name), name, replace(note, gone=gone))
        raise
    (place,) = put_away
    say(f"    its declaration is put away: {place}")
    return {"last_backups": dict(note.made), "declaration": f"{place.parent.name}/{place.name}"}


def _require_only(name: str, only: Collection[str], there: Collection[str]) -> None:
    """Raise `ConfigError` if a workspace has another desktop than these, which goes with it."""
    if more := sorted({*there} - {*only}):
        reason = f"are there too, and were not named: {', '.join(more)}"
        raise ConfigError("desktops", name, reason, "look at what it has now, then repeat it")


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


def _keep(name: str, pending: Collection[str], note: LastBackups) -> LastBackups:
    """Make and verify the last backups that are still to be made; the note with them."""
    # Looked at for all before one is made.
    final.notice(name, [*pending], _without(name), backup=True)
    for desktop in pending:
        note = replace(note, made={**note.made, **final.keep(name, [desktop], _without(name))})
        last_backups.write(_site(name), name, note)
    return note


def _to_back_up(going: Collection[str], note: LastBackups) -> list[str]:
    """Those of these desktops of which there is no last backup.

    Of one whose machine went behind its backup the engine may still know: nothing of it is there that could be kept.
    """
    return [desktop for desktop in going if desktop not in note.made and desktop not in note.gone]


def _note(name: str, run: str | None) -> LastBackups:
    """The note of this run; of another's, only what went behind its backup then, and is gone still."""
    found = last_backups.read(_site(name), name)
    if found.run == run:
        return found
    return LastBackups(run or "", gone=_gone(name, found.gone))


def _gone(name: str, desktops: Sequence[str]) -> list[str]:
    if not desktops:
        return []
    _, machines = power.look_up(name)
    return [desktop for desktop in desktops if not _is_there(machines, desktop)]


def _is_there(machines: Machines, desktop: str) -> bool:
    """Whether a desktop has a machine; so does that of which nobody can tell."""
    try:
        return machines.is_there(desktop)
    except DeskyardError:
        return True


def _site(name: str) -> str:
    return declaration.site_name(name)


def _without(name: str) -> str:
    return f"./inv workspace.destroy {name} --no-backup"
