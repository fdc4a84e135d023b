"""A backup of a desktop: what it holds, and how that is written into a restic repository. Pure.

Each disk is a snapshot of restic. A further one, the manifest, is written last and ties them together: its tags say
all there is to know, and only what has one is a backup. So a half one never shows.
"""

import datetime
import itertools
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from deskyard.errors import ConfigError, DeskyardError, SiteError
from deskyard.plan.printable import printable

MANIFEST, DISK = "deskyard-manifest", "deskyard-disk"
# The words of restic, which other tools know too.
KEEP = ("last", "hourly", "daily", "weekly", "monthly", "yearly")
# Where a nonce lies in a desktop, and the command that writes it there from its input.
NONCE = "/var/lib/deskyard/backup-nonce"
WRITE_NONCE = ["/bin/sh", "-c", 'umask 022; mkdir -p "${1%/*}" && cat >"$1.new" && mv "$1.new" "$1"', "sh", NONCE]
READ_NONCE = ["/bin/cat", NONCE]
# Says of a guest's file systems what `faults` reads.
LOOK = """
cd /sys/fs/ext4 && for one in *; do [ ! -f "$one/errors_count" ] || echo "errors $one $(cat "$one/errors_count")"; done
while read -r device path kind options rest; do
  case $device in /dev/*) echo "mount $path $kind $options" ;; esac
done </proc/self/mounts
"""


class NoVerdict(SiteError):
    """A backup that could not be tried out, for a reason that says nothing of it: what is known of it stays."""

    @classmethod
    def because(cls, error: DeskyardError) -> Self:
        """The same error, of which that is known."""
        return cls(error.field, error.value, error.reason, error.remedy)


@dataclass(frozen=True)
class Disk:
    """A disk of a backup: its name in the machine, its bytes and how many of them were in use, its snapshot."""

    target: str
    size: int
    used: int
    snapshot: str


@dataclass(frozen=True)
class Backup:
    """A whole backup; `made` and `verified` are Unix times, `manifest` is the snapshot that ties it together.

    `nonce` was written into the running desktop just before, and is read back when the backup is verified. A desktop
    that was off could not be given a new one: `nonce` is the last that is known of it. A cluster keeps all disks in one
    volume: then `manifest` is its name, `added` its size, and `disks` is empty.
    `damaged`: the server that keeps it has found that some of it is lost, so it counts for nothing.
    """

    id: str
    desktop: str
    made: int
    running: bool
    nonce: str = ""
    disks: tuple[Disk, ...] = ()
    added: int = 0
    verified: int | None = None
    manifest: str = ""
    damaged: bool = False

    @property
    def used(self) -> int:
        """How many bytes of a disk it takes, restored."""
        return sum(disk.used for disk in self.disks)

    @property
    def tags(self) -> list[str]:
        """The tags of the manifest."""
        own = {
            "desktop": self.desktop,
            "backup": self.id,
            "made": self.made,
            "power": "running" if self.running else "off",
            "nonce": self.nonce,
            "added": self.added,
            "verified": self.verified,
        }
        disks = [f"disk={disk.target}:{disk.size}:{disk.used}:{disk.snapshot}" for disk in self.disks]
        return [MANIFEST, *(f"{key}={value}" for key, value in own.items() if value not in ("", None)), *disks]


@dataclass(frozen=True)
class Source:
    """A disk to be read: its name, its bytes and how many are in use, the program that writes it to its output."""

    target: str
    size: int
    used: int
    argv: list[str]


@dataclass(frozen=True)
class Moment:
    """The disks of a machine as of one moment, and for how long its file systems stood still for it."""

    running: bool
    frozen_seconds: float
    sources: list[Source]


def disk_tags(desktop: str, backup: str) -> list[str]:
    """The tags of a disk's snapshot."""
    return [DISK, f"desktop={desktop}", f"backup={backup}"]


def backups(snapshots: Iterable[Mapping[str, Any]], desktop: str | None = None) -> list[Backup]:
    """The whole backups among restic's snapshots, the oldest first; of one desktop if it is named."""
    found: dict[tuple[str, str], Backup] = {}
    present = {str(row["id"]) for row in snapshots}
    for row in snapshots:
        backup = _read(row)
        if backup is None or desktop not in (None, backup.desktop):
            continue
        if not {disk.snapshot for disk in backup.disks} <= present:
            # It was being forgotten, disks first or by hand.
            continue
        key = (backup.desktop, backup.id)
        # A manifest whose tags were being changed may be there twice.
        if key not in found or found[key].verified is None:
            found[key] = backup
    return sorted(found.values(), key=lambda backup: (backup.made, backup.id))


def leftovers(snapshots: Sequence[Mapping[str, Any]], desktop: str) -> list[str]:
    """Snapshots of a desktop that belong to no whole backup: a run was interrupted."""
    whole = backups(snapshots, desktop)
    used = {backup.manifest for backup in whole} | {disk.snapshot for backup in whole for disk in backup.disks}
    mine = f"desktop={desktop}"
    ours = {MANIFEST, DISK}
    return [
        str(row["id"]) for row in snapshots if mine in _tags(row) and ours & set(_tags(row)) and row["id"] not in used
    ]


def find(name: str, present: Sequence[Backup], target: str) -> Backup:
    """The backup of that id, or the newest for `latest`; raises `ConfigError` with those that are there.

    One that is damaged is never taken, least of all in silence for the newest.
    """
    whole = sound(present)
    if name == "latest" and whole:
        return whole[-1]
    for backup in whole:
        if backup.id == name:
            return backup
    names = ", ".join(backup.id for backup in whole[-5:]) or "none"
    if damaged := [backup.id for backup in present if backup.damaged and name in (backup.id, "latest")]:
        reason = f"its Proxmox Backup Server found {', '.join(damaged[-5:])} damaged when it verified its datastore"
        remedy = f"take one of these: {names}; or let the server verify it again, and it counts once it is found whole"
        raise ConfigError("backup", name, reason, remedy)
    raise ConfigError("backup", name, f"{target} has no such backup", f"take one of these: {names}")


def free_name(moment: int, present: Sequence[Backup]) -> str:
    """The id of a backup made at that time: the time itself, or the next that no other has."""
    taken = {backup.id for backup in present}
    times = (time.strftime("%Y%m%d-%H%M%S", time.gmtime(moment + later)) for later in itertools.count())
    return next(name for name in times if name not in taken)


def last_nonce(present: Sequence[Backup]) -> str:
    """The nonce that a desktop which is off has, as far as it is known."""
    return next((backup.nonce for backup in reversed(present) if backup.nonce), "")


def nonces(backup: Backup, present: Sequence[Backup]) -> set[str]:
    """The nonces that a restored desktop may say: of a backup made while it was off, any that it was given before."""
    if backup.running:
        return {backup.nonce}
    return {earlier.nonce for earlier in present if earlier.made <= backup.made and earlier.nonce}


def kept(policy: Mapping[str, int]) -> list[str]:
    """The options of restic for a policy such as {daily: 7}; raises `ConfigError` for one that keeps nothing."""
    for word, count in policy.items():
        if word not in KEEP or count < 0:
            words = ", ".join(f"keep-{period}" for period in KEEP)
            raise ConfigError(f"keep-{word}", count, "is no number of backups to keep", f"give some of: {words}")
    if not any(policy.values()):
        raise ConfigError("keep", None, "nothing would be kept", "say what to keep, as --keep-last 3 --keep-daily 7")
    return [f"--keep-{word}={count}" for word, count in policy.items() if count]


@dataclass(frozen=True)
class Survey:
    """The backups of a desktop at a backend that keeps them itself: whole ones, those that were not finished, and more.

    `protected` are the manifests of those that somebody there has protected from being deleted.
    """

    whole: list[Backup]
    half: list[Backup]
    protected: set[str]


def outdated(present: Sequence[Backup], policy: Mapping[str, int]) -> list[Backup]:
    """Choose the backups that a policy does not keep, the oldest first, as restic chooses among its snapshots.

    Of each period the newest is kept, until there are as many as the policy says; where it asks for more periods than
    there are, the oldest of all is kept, too (restic, `ApplyPolicy`).
    """
    kept(policy)
    left, before = dict(policy), dict[str, Any]()
    newest_first = sorted(present, key=lambda backup: (backup.made, backup.id), reverse=True)
    doomed = []
    for number, backup in enumerate(newest_first):
        stays = False
        for word in KEEP:
            period = _period(word, backup.made, number)
            if left.get(word, 0) and (period != before.get(word) or number == len(newest_first) - 1):
                stays, before[word] = True, period
                left[word] -= 1
        if not stays:
            doomed.append(backup)
    return doomed[::-1]


def proved(present: Sequence[Backup]) -> list[Backup]:
    """Choose the backups that are proved: they were booted."""
    return [backup for backup in present if backup.verified is not None]


def sound(present: Sequence[Backup]) -> list[Backup]:
    """Choose the backups of which nothing is lost, as far as those know who keep them."""
    return [backup for backup in present if not backup.damaged]


def superseded(present: Sequence[Backup]) -> list[Backup]:
    """Choose the damaged backups that nobody will miss: a newer one is proved."""
    newest = max(((backup.made, backup.id) for backup in proved(sound(present))), default=(0, ""))
    return [backup for backup in present if backup.damaged and (backup.made, backup.id) < newest]


def spared(doomed: Sequence[Backup], present: Sequence[Backup]) -> list[Backup]:
    """Choose what may go of what a policy does not keep: never the last that is proved by its verification."""
    last = proved(present)[-1:]
    return [backup for backup in doomed if backup not in last]


def with_verdict(backup: Backup, verified: int | None) -> Backup:
    """The same, proved at that time or not at all."""
    return replace(backup, verified=verified)


def faults(output: str) -> list[str]:
    """Faults of file systems, from lines `errors DEVICE COUNT` and `mount PATH KIND OPTIONS` of a guest."""
    rows = [line.split() for line in output.splitlines()]
    mounts = [row for row in rows if len(row) == 4 and row[0] == "mount"]
    wrong = [f"{row[1]} has met errors" for row in rows if len(row) == 3 and row[0] == "errors" and row[2] != "0"]
    wrong += [f"{row[1]} is read-only" for row in mounts if "ro" in row[3].split(",") and row[2] == "ext4"]
    if not any(row[1] == "/" for row in mounts):
        wrong.append("nothing is mounted on /")
    return [printable(finding) for finding in wrong]


def _period(word: str, made: int, number: int) -> tuple[int, ...]:
    moment = time.localtime(made)
    if word == "last":
        return (number,)
    if word == "weekly":
        return datetime.datetime.fromtimestamp(made).isocalendar()[:2]
    return moment[: {"hourly": 4, "daily": 3, "monthly": 2, "yearly": 1}[word]]


def _read(row: Mapping[str, Any]) -> Backup | None:
    tags = _tags(row)
    if MANIFEST not in tags:
        return None
    pairs = [tag.partition("=") for tag in tags]
    values = {key: value for key, _, value in pairs}
    try:
        disks = tuple(_disk(value) for key, _, value in pairs if key == "disk")
        return Backup(
            id=values["backup"],
            desktop=values["desktop"],
            made=int(values["made"]),
            running=values["power"] == "running",
            nonce=values.get("nonce", ""),
            disks=disks,
            added=int(values.get("added", 0)),
            verified=int(values["verified"]) if "verified" in values else None,
            manifest=str(row["id"]),
        )
    except (KeyError, ValueError):
        # Tagged by somebody else.
        return None


def _disk(text: str) -> Disk:
    target, size, used, snapshot = text.split(":")
    return Disk(target, int(size), int(used), snapshot)


def _tags(row: Mapping[str, Any]) -> list[str]:
    return [str(tag) for tag in row.get("tags") or ()]
