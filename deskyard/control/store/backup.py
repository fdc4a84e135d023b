"""Mission Control's backup: one file with all that it knows, checked when it is made, restored where there is nothing.

Left out are what is shown once (links), what is over soon (challenges) and the stream of events, whose places mean
nothing in another database.
"""

import hashlib
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

from deskyard.control.ground.folder import Folder
from deskyard.control.ground.settings import Settings, parsed
from deskyard.control.store import cluster, migration
from deskyard.control.store.cluster import DATABASE, OWNER
from deskyard.control.store.connection import Link, unbounded
from deskyard.control.store.database import Database, database_at
from deskyard.control.store.elsewhere import Elsewhere
from deskyard.errors import ConfigError, HostError

FORMAT = 1
SUFFIX, DRAFT = ".mission", ".backup-"
MANIFEST, DUMP = "manifest.json", "database.dump"
LEFT_OUT = ("operation_secret", "challenge", "event", "worker")
COUNTED = ("workspace", "desktop", "person", "api_key", "operation", "conversation", "message", "audit_entry")
PROGRAM_SECONDS = 4 * 3600  # of large tables
MOST_MANIFEST = 1 << 20
CHUNK = 1 << 20
# The machines were never touched by what was under way in another database.
BROKEN_OFF = {
    "field": "operation",
    "value": "",
    "reason": "was under way when the backup was made",
    "remedy": "look how far it came, then ask for it again",
}


@dataclass(frozen=True)
class Manifest:
    """The manifest of a backup: its tables' version, its time, the rows of each table, and the hash of its dump."""

    format: int
    schema: str
    made_at: str
    settings: dict[str, Any]
    counts: dict[str, int]
    sha256: str


def make(folder: Folder, settings: Settings, target: Path) -> dict[str, Any]:
    """Write a backup of the database that runs to a file, or into a folder; it appears whole, for its owner alone."""
    if target.is_dir():
        target = target / f"{_stamp()}{SUFFIX}"
    if target.exists():
        raise ConfigError("target", str(target), "is there already", "name another file, or a folder")
    if not target.parent.is_dir():
        raise ConfigError("target", str(target), "is in a folder that is not there", f"make {target.parent}")
    url = database_at(folder, settings.database).url(OWNER)
    # Beside the target, so that the last step is a rename; only its owner enters.
    with tempfile.TemporaryDirectory(prefix=DRAFT, dir=target.parent) as name:
        dump, draft = Path(name) / DUMP, Path(name) / "draft"
        left_out = [f"--exclude-table-data={table}" for table in LEFT_OUT]
        _program("pg_dump", "--format=custom", "--no-password", *left_out, f"--file={dump}", f"--dbname={url}")
        counts = _counts(url)
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        schema = migration.version(url) or ""
        # Where its database is says nothing to whoever restores it elsewhere.
        kept = {name: value for name, value in asdict(settings).items() if name != "database"}
        manifest = Manifest(FORMAT, schema, moment, kept, counts, _hash_of(dump.open("rb")))
        (Path(name) / MANIFEST).write_text(json.dumps(asdict(manifest), indent=1))
        with draft.open("xb") as file:
            os.fchmod(file.fileno(), 0o600)
            with tarfile.open(fileobj=file, mode="w") as tar:
                for part in (MANIFEST, DUMP):
                    tar.add(Path(name) / part, part)
            file.flush()
            os.fsync(file.fileno())
        read(draft)
        draft.rename(target)
        _sync(target.parent)
    return {"file": str(target), "bytes": target.stat().st_size, **_shown(manifest)}


def keep(folder: Folder, settings: Settings) -> Path:
    """The backup of before the tables change; a change that is tried again has the one of its first try.

    Else each try would write another, until the disk is full.
    """
    folder.backups.mkdir(mode=0o700, exist_ok=True)
    for draft in folder.backups.glob(f"{DRAFT}*"):
        # Of a run that was killed.
        shutil.rmtree(draft)
    head = migration.versions()[0]
    for path in folder.backups.glob(f"before-{head}-*{SUFFIX}"):
        if _holds_all(path, database_at(folder, settings.database).url(OWNER)):
            return path
    return Path(make(folder, settings, folder.backups / f"before-{head}-{_stamp()}{SUFFIX}")["file"])


def _holds_all(path: Path, url: str) -> bool:
    """Whether a backup is whole, and of the rows that there are: the audit grows by whatever is done."""
    try:
        manifest = read(path)
    except ConfigError:
        return False
    return manifest.schema == migration.version(url) and manifest.counts == _counts(url)


def read(path: Path) -> Manifest:
    """The manifest of a backup; raises `ConfigError` unless it is whole, and its list can be read."""
    with tempfile.TemporaryDirectory(prefix="deskyard-backup.") as name:
        return _unpack(path, Path(name))


def restore(place: Database, path: Path, *, dry_run: bool) -> dict[str, Any]:
    """Bring a backup into a database in which there is nothing; machines are neither asked nor moved.

    What was under way is ended as failed, and people sign in anew.
    """
    folder = place.folder
    remedy = "restore where Mission Control was never up; or run control.down, and move that folder away"
    if folder.has_cluster():
        raise HostError("control", str(folder.cluster), "holds a database", remedy)
    if isinstance(place, Elsewhere) and place.check() is not None:
        raise HostError("control", str(place.address), "holds a database", "drop it there, or name another server")
    with tempfile.TemporaryDirectory(prefix="deskyard-backup.") as name:
        manifest = _unpack(path, Path(name))
        if manifest.schema not in migration.versions():
            remedy = "restore it with the Deskyard that made it, or a newer one"
            raise HostError("backup", manifest.schema, "was made by a newer Deskyard", remedy)
        if dry_run:
            return {"restored": False, **_shown(manifest)}
        address = str(place.address) if isinstance(place, Elsewhere) else None
        settings = replace(parsed(manifest.settings), database=address)
        folder.accounts.make()
        folder.lay_out()
        try:
            _fill(place, Path(name) / DUMP)
        except BaseException:
            # A half is worse than nothing: the next run would take it for a whole.
            place.empty()
            raise
        # What gateways hold of the chain goes on from other lines than the backup's last.
        folder.source.unlink(missing_ok=True)
        settings.save(folder)
    return {"restored": True, **_shown(manifest)}


def _fill(place: Database, dump: Path) -> None:
    with place.answering():
        url = place.url(OWNER)
        options = ["--exit-on-error", "--single-transaction", "--no-password", f"--dbname={url}"]
        _program("pg_restore", *options, str(dump))
        with unbounded(url) as link:
            query = """update operation set state = 'failed', ended_at = now(), lease_until = null, problem = %s
                where state in ('queued', 'running', 'waiting')"""
            link.execute(query, [json.dumps(BROKEN_OFF)])
            link.execute("update session set ended_at = now() where ended_at is null")
            link.execute("delete from event")


def _unpack(path: Path, folder: Path) -> Manifest:
    remedy = "take another backup"
    try:
        with tarfile.open(path, mode="r:") as tar:
            stored = tar.extractfile(MANIFEST)
            dump = tar.extractfile(DUMP)
            assert stored is not None and dump is not None
            manifest = Manifest(**json.loads(stored.read(MOST_MANIFEST)))
            with (folder / DUMP).open("wb") as file:
                shutil.copyfileobj(dump, file, CHUNK)
    except (OSError, tarfile.TarError, KeyError, ValueError, TypeError, AssertionError) as error:
        raise ConfigError("backup", str(path), f"cannot be read: {error}", remedy) from error
    if manifest.format != FORMAT:
        raise ConfigError("backup", manifest.format, "has a format of a newer Deskyard", "restore it with that")
    if _hash_of((folder / DUMP).open("rb")) != manifest.sha256:
        raise ConfigError("backup", str(path), "was changed, or cut short, after it was made", remedy)
    _program("pg_restore", "--list", str(folder / DUMP))
    return manifest


def _program(name: str, *arguments: str) -> None:
    """Run one of the server's programs; raises `HostError` if it fails."""
    argv = [str(cluster.programs(name) / name), *arguments]
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        reason = f"{name} did not end within {PROGRAM_SECONDS // 3600} hours"
        remedy = "see what it waits for (./inv control.status), or give the database a faster disk, then run it again"
        raise HostError("database", DATABASE, reason, remedy) from error
    if done.returncode != 0:
        reason = f"{name} ended with {done.returncode}: {done.stderr.strip()[-500:]}"
        raise HostError("database", DATABASE, reason, "mend the cause, then run it again")


def _hash_of(file: IO[bytes]) -> str:
    with file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def _stamp() -> str:
    return time.strftime("%Y%m%d-%H%M%S", time.gmtime())


def _counts(url: str) -> dict[str, int]:
    with unbounded(url) as link:
        return {table: _count(link, table) for table in COUNTED}


def _count(link: Link, table: str) -> int:
    found = link.execute(f"select count(*) as count from {table}".encode()).fetchone()
    return int(found["count"]) if found else 0


def _shown(manifest: Manifest) -> dict[str, Any]:
    return {"made_at": manifest.made_at, "schema": manifest.schema, "holds": manifest.counts}


def _sync(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
