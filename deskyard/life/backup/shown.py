"""Says of backups what a person reads, wherever they are kept."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from deskyard.host.progress import say
from deskyard.life.moment import minute
from deskyard.plan import backup as plan
from deskyard.plan.backup import Backup


@dataclass(frozen=True)
class Outdated:
    """The backups of a desktop, those that are not kept, and how much is half; `drop` deletes both."""

    present: Sequence[Backup]
    doomed: Sequence[Backup]
    half: int
    drop: Callable[[], None]


def line(row: dict[str, Any]) -> str:
    """A backup in a line."""
    size, added = sum(disk["size"] for disk in row["disks"]) >> 30, row["added"] / (1 << 20)
    verdict = "not verified" if row["verified"] is None else f"verified {minute(row['verified'])}"
    verdict = "DAMAGED, says its server: it counts no more" if row["damaged"] else verdict
    # A cluster keeps a machine in one volume.
    what = f"{len(row['disks'])} disk(s), {size} GiB, {added:.1f} MiB new" if row["disks"] else f"{added:.1f} MiB"
    return f"{row['id']}  {minute(row['made'])}  {'running' if row['running'] else 'off'}  {what}  {verdict}"


def would_text(found: dict[str, Any]) -> str:
    """The outcome of a restore that was not done, in two lines for people."""
    row, snapshots = found["machines"][0], " ".join(found["snapshots"])
    after = "run" if found["would_run"] else "be off"
    lost = "what changed since" + (f", and on libvirt its snapshots: {snapshots}" if snapshots else "")
    return f"{row['name']} would go back to this backup, and {after}; lost is {lost}\n{line(found['backup'])}"


def would_copy_text(found: dict[str, Any]) -> str:
    """The desktop that would be made of another one's backup, what of it is its own, and what is not."""
    made = found["made"]
    size = f"tier {made['tier']}, image {made['image']}, {made['address']}, machine-id {made['machine_id']}"
    how = "as it is declared" if found["declared"] else f"declared as {found['desktop']} is"
    begun = "; an earlier run of this broke off, and is gone on with" if found["goes_on"] else ""
    renewed = [f"its own: {what}" for what in found["renewed"]]
    same = "as in the backup: all else of its system and of /home, logins and keys of its programs included"
    stays = f"{found['desktop']} stays as it is"
    first = f"{found['to']} would be made, {how}{begun}: {size}"
    besides = ", ".join(found["changed_besides"])
    pending = [f"changed with it, as declared since the last up: {besides}"] if besides else []
    return "\n".join([first, line(found["backup"]), *renewed, same, stays, *pending])


def survivor(desktop: str, newest: Backup | None, location: str) -> str:
    """The backup that stays of a desktop, in a line."""
    if newest is None:
        return f"{desktop}: no backup"
    if newest.verified is not None:
        return f"{desktop}: a verified backup of {minute(newest.made)} stays, in {location}"
    return f"{desktop}: a backup of {minute(newest.made)} stays, in {location}; it was not verified"


def known_nonce(present: Sequence[Backup], target: str) -> str:
    """The nonce that a desktop which is off holds, as far as it is known; says so."""
    nonce = plan.last_nonce(present)
    known = "the last that is known is noted" if nonce else "and none is known: this backup cannot be verified"
    say(f"    {target} is off, so no new nonce can be written into it: {known}")
    return nonce
