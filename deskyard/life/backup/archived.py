"""Makes backups of desktops that their backend keeps in its own way, as a cluster does."""

import secrets
import time
from dataclasses import asdict, replace
from typing import Any

from deskyard.engine.backend import Archive
from deskyard.errors import ConfigError, DeskyardError
from deskyard.host.progress import say, step
from deskyard.life.backup.proof import judge, provable, prove
from deskyard.life.backup.shown import known_nonce, survivor
from deskyard.life.power import Machine
from deskyard.plan import backup as plan
from deskyard.plan.backup import Backup


def run(machine: Machine, archive: Archive, target: str) -> dict[str, Any]:
    """Make a backup of a desktop, which is listed once its task has ended well and its volume is there."""
    location = archive.location
    with machine.alone(at_once=True):
        present = archive.present(machine.name)
        running, made = archive.runs(machine.name), int(time.time())
        wanted = Backup(plan.free_name(made, present), machine.name, made, running=running)
        if running:
            wanted = replace(wanted, nonce=secrets.token_hex(16))
            archive.give(machine.name, wanted.nonce)
        else:
            wanted = replace(wanted, nonce=known_nonce(present, target))
        with step(f"back up to {location}"):
            done = archive.make(wanted)
    return {"desktop": target, "backup": asdict(done), "location": location}


def verify(archive: Archive, desktop: str, name: str, target: str) -> dict[str, Any]:
    """Restore a backup into a machine without any NIC, boot it, and read back the nonce: then it counts."""
    present = archive.present(desktop)
    found = plan.find(name, present, target)
    expected = provable(found, present, target)

    def attempt() -> None:
        with step("restore and boot it"), archive.booted(found) as guest:
            prove(guest, found, expected)

    return {"desktop": target, "backup": asdict(judge(found, archive.note, attempt))}


def prune(archive: Archive, desktop: str, policy: dict[str, int]) -> tuple[list[Backup], list[Backup], list[Backup]]:
    """The whole backups of a desktop, those of them that a policy does not keep, and those that were not finished.

    What somebody has protected there stays.
    """
    found = archive.survey(desktop)
    doomed = [entry for entry in plan.outdated(found.whole, policy) if entry.manifest not in found.protected]
    if stays := sum(entry.manifest in found.protected for entry in found.whole):
        say(f"    {stays} of them are protected in {archive.location}, and stay")
    return found.whole, plan.spared(doomed, found.whole), found.half


def survivors(archive: Archive, desktops: list[str]) -> list[str]:
    """Of each desktop: its newest backup, which stays, or that there is none."""
    try:
        present = archive.present(None)
    except ConfigError:
        return [f"{desktop}: no backup" for desktop in desktops]
    except DeskyardError as error:
        return [f"its backups cannot be looked at: {error.reason.splitlines()[0]}"]
    newest = {entry.desktop: entry for entry in present}
    proved = {entry.desktop: entry for entry in plan.proved(present)}
    return [survivor(desktop, proved.get(desktop) or newest.get(desktop), archive.location) for desktop in desktops]
