"""The restic repository of a workspace: what is in it is encrypted with a key of its own."""

import json
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deskyard.errors import CommandError, ConfigError, DeskyardError, SiteError
from deskyard.host.command import Result, run
from deskyard.host.lock import alone
from deskyard.host.places import places
from deskyard.host.progress import say
from deskyard.host.secret_file import write_secret
from deskyard.host.toolchain import locate
from deskyard.life.backup import bucket_reach, reach
from deskyard.life.backup.bucket import Bucket
from deskyard.model.site import ObjectStore
from deskyard.plan import backup as plan
from deskyard.plan.backup import Backup, Disk, NoVerdict, Source
from deskyard.site.files import read_site

SHORT_SECONDS, LONG_SECONDS = 600.0, 24 * 3600.0
# A backup of another desktop keeps the repository from being changed otherwise: so long it is waited for.
LOCK_SECONDS = 3600.0
# What takes no lock, and waits for nobody's.
LOCKLESS = {"--no-lock", "init", "unlock"}
ABSENT, LOCKED, WRONG_KEY, INTERRUPTED = 10, 11, 12, 130
TAIL_LINES = 25
# What is said of the way to a backup, or of the disk that it is restored to, and of no backup; in small letters.
ON_THE_WAY = (
    "no space left on device",
    "connection refused",
    "connection reset",
    "connection lost",
    "broken pipe",
    "i/o timeout",
    "no such host",
    "network is unreachable",
    "no route to host",
)
SAY_EVERY_PERCENT = 10
# What a further backup may well add, with its index and restic's own files.
LEAST_FREE = 1 << 30


@dataclass(frozen=True)
class Repository:
    """A repository and the file that holds its key.

    The key is a file of the site, not a secret of the stack: backups have to open when the state of the engine is
    lost, and be made by a timer that knows no passphrase.
    """

    workspace: str
    location: str
    key: Path
    bucket: Bucket | None = None

    def snapshots(self) -> list[dict[str, Any]]:
        """All of restic's snapshots; none if nothing was ever kept."""
        if not self.key.exists():
            return []
        if self.bucket is not None:
            bucket_reach.require(self.bucket)
        found: list[dict[str, Any]] = json.loads(self._restic("snapshots", "--json", "--no-lock").stdout)
        return found

    def prepare(self) -> bool:
        """Make key and repository at first use, whether it did; lift locks of processes that have died."""
        if self.bucket is not None:
            bucket_reach.require(self.bucket, write=True)
        with alone(f"backup-key-{self.key.parent.parent.name}-{self.workspace}"):
            made = not self.key.exists()
            if made:
                write_secret(self.key, secrets.token_urlsafe(32).encode())
            answer = self._restic("cat", "config", "--no-lock", check=False)
            try:
                if answer.code == ABSENT:
                    self._init()
                elif answer.code != 0:
                    raise self._closed(answer)
            except DeskyardError:
                if made:
                    self.key.unlink()
                raise
        self._restic("unlock")
        return made

    def require_room(self, used: int) -> None:
        """Raise `SiteError` if the disk of a repository is too full for a backup of so many bytes that are used.

        Where it is not a folder of this machine nobody can be asked. Most of a disk is there from the backups before;
        of the first one all of it is new.
        """
        if not self.location.startswith("/"):
            return
        there = next(path for path in (Path(self.location), *Path(self.location).parents) if path.exists())
        free, needed = shutil.disk_usage(there).free, LEAST_FREE + (0 if self._holds_some() else used)
        if free < needed:
            reason = f"{free >> 20} MiB are free on its disk, and a backup may take {needed >> 20}"
            remedy = "make room there: ./inv backup.prune, a larger disk, or another place (backups in the site's file)"
            raise SiteError("backups", self.location, reason, remedy)

    def _holds_some(self) -> bool:
        return any(Path(self.location, "snapshots").glob("*"))

    def keep(self, source: Source, desktop: str, backup: str) -> tuple[Disk, int]:
        """Read a disk into the repository; returns it, and how many bytes it added.

        The exit code of what reads it and the count of its bytes decide: raises `SiteError` for a disk that is not
        whole.
        """
        tags = [part for tag in plan.disk_tags(desktop, backup) for part in ("--tag", tag)]
        options = ["--stdin-from-command", "--stdin-filename", file_of(source.target), *self._made_by, *tags]
        follow = _Progress(source)
        self._restic("backup", "--json", *options, "--", *source.argv, timeout=LONG_SECONDS, on_line=follow)
        done = follow.summary
        if done.get("total_bytes_processed") != source.size or not done.get("snapshot_id"):
            reason = f"{done.get('total_bytes_processed')} bytes came of {source.size}"
            raise SiteError("disk", source.target, reason, "run it again: what was kept of it is no backup")
        disk = Disk(source.target, source.size, source.used, str(done["snapshot_id"]))
        return disk, int(done.get("data_added_packed", 0))

    def finish(self, backup: Backup) -> None:
        """Write the manifest: from now on it is a backup."""
        tags = [part for tag in backup.tags for part in ("--tag", tag)]
        options = ["--stdin", "--stdin-filename", "manifest.txt", *self._made_by, *tags]
        self._restic("backup", "--json", *options, stdin="\n".join(backup.tags))

    def tag(self, backup: Backup) -> None:
        """Write anew what is said of a backup."""
        tags = [part for tag in backup.tags for part in ("--set", tag)]
        self._restic("tag", *tags, backup.manifest, on_line=_say_that_it_waits)

    def restore(self, disk: Disk, folder: Path) -> Path:
        """Restore a disk into a folder, with holes where it is empty; each piece is checked against its hash.

        Raises an error if a piece is damaged or missing, and `NoVerdict` or `ConfigError` if it cannot be read now.
        """
        name = file_of(disk.target)
        options = ["--target", str(folder), "--sparse", "--include", f"/{name}"]
        try:
            answer = self._restic("restore", disk.snapshot, *options, timeout=LONG_SECONDS, check=False)
        except CommandError as error:
            raise NoVerdict.because(error) from error
        if answer.code != 0:
            raise self._unread(disk, answer)
        path = folder / name
        if not path.exists() or path.stat().st_size != disk.size:
            raise SiteError("disk", disk.target, f"is not {disk.size} bytes long once restored", "take another backup")
        return path

    def outdated(self, desktop: str, policy: Mapping[str, int]) -> list[str]:
        """The manifests of a desktop that a policy does not keep."""
        mine = ["--tag", f"{plan.MANIFEST},desktop={desktop}", "--group-by", ""]
        answer = self._restic("forget", "--dry-run", "--no-lock", "--json", *mine, *plan.kept(policy))
        groups = json.loads(answer.stdout or "[]")
        return [str(row["id"]) for group in groups for row in group.get("remove") or ()]

    def forget(self, snapshots: Sequence[str]) -> None:
        """Drop snapshots; what only they held stays until `prune`."""
        if snapshots:
            self._restic("forget", *snapshots, on_line=_say_that_it_waits)

    def prune(self) -> None:
        """Delete what no snapshot holds."""
        self._restic("prune", timeout=LONG_SECONDS, on_line=_say_that_it_waits)

    @property
    def _made_by(self) -> list[str]:
        return ["--host", f"deskyard-{self.workspace}"]

    def _init(self) -> None:
        folder = Path(self.location).parent
        if self.location.startswith("/") and not folder.is_dir() and not folder.is_relative_to(places().sites):
            # A disk that is not mounted would be taken for an empty one.
            raise ConfigError("backups", str(folder), "is not there", "mount it, or make the folder")
        self._restic("init")
        say(f"    a new repository of backups: {self.location}")

    def _closed(self, answer: Result) -> ConfigError:
        if answer.code == WRONG_KEY:
            remedy = f"put its key into {self.key} (mode 0600)"
            return ConfigError("backups", self.location, "its key is another than this machine has", remedy)
        if unreached := reach.fault(self.location, answer.stderr):
            return unreached
        return ConfigError("backups", self.location, f"does not open: {answer.stderr.strip()[-500:]}", "mend the cause")

    def _unread(self, disk: Disk, answer: Result) -> DeskyardError:
        """Why a disk could not be restored: because of itself, or of something that says nothing of it."""
        said = answer.stderr.strip() or answer.stdout.strip()
        if unreached := reach.fault(self.location, said):
            return unreached
        tail = "\n".join(said.splitlines()[-TAIL_LINES:])
        error = CommandError("disk", disk.target, f"restic: exit code {answer.code}\n{tail}", "take another backup")
        of_the_way = answer.code in (ABSENT, LOCKED, WRONG_KEY, INTERRUPTED) or answer.code < 0
        of_the_way = of_the_way or any(words in said.lower() for words in ON_THE_WAY)
        if of_the_way or not self._opens():
            return NoVerdict(error.field, error.value, error.reason, "mend the cause above, then run it again")
        return error

    def _opens(self) -> bool:
        """Whether the repository can be reached now."""
        try:
            if self.bucket is not None:
                bucket_reach.require(self.bucket)
            return self._restic("cat", "config", "--no-lock", check=False).code == 0
        except DeskyardError:
            return False

    def _restic(
        self,
        *arguments: str,
        timeout: float = SHORT_SECONDS,
        stdin: str | None = None,
        check: bool = True,
        on_line: Callable[[str], None] | None = None,
    ) -> Result:
        if LOCKLESS.isdisjoint(arguments):
            timeout += LOCK_SECONDS
        # Machines that somebody works on come first.
        start = ["nice", "-n", "10", str(locate("restic")), "--repo", self.location]
        start += ["--retry-lock", f"{LOCK_SECONDS:.0f}s"]
        start += reach.options(self.location) if self.bucket is None else self.bucket.options()
        env = {
            "RESTIC_PASSWORD_FILE": str(self.key),
            "RESTIC_CACHE_DIR": str(places().cache / "restic"),
            "RESTIC_PROGRESS_FPS": "0.5",
            **({} if self.bucket is None else self.bucket.environment()),
        }
        try:
            return run([*start, *arguments], timeout=timeout, stdin=stdin, env=env, check=check, on_line=on_line)
        except CommandError as error:
            if unreached := reach.fault(self.location, error.reason):
                raise unreached from error
            raise


def repository_of(site: str, workspace: str) -> Repository:
    """The repository of a workspace, there or not."""
    folder = places().sites / site
    declared = read_site(site)
    location = f"{(declared.backups or str(folder / 'backups')).rstrip('/')}/{workspace}"
    bucket = Bucket(location, declared.backups_s3 or ObjectStore()) if location.startswith("s3:") else None
    return Repository(workspace, location, folder / "backup-keys" / workspace, bucket)


def file_of(target: str) -> str:
    """The file that a disk is in a snapshot of restic."""
    return f"{target}.raw"


def _say_that_it_waits(line: str) -> None:
    """Say what restic says while another has the repository."""
    if "already locked" in line:
        say(f"    backups: {line.strip()}")


class _Progress:
    """Follows what restic says of its work."""

    def __init__(self, source: Source) -> None:
        self._source, self._percent, self.summary = source, 0, dict[str, Any]()

    def __call__(self, line: str) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            return
        if not isinstance(message, dict):
            return
        if message.get("message_type") == "summary":
            self.summary = message
        percent = 100 * int(message.get("bytes_done") or 0) // self._source.size
        if percent >= self._percent + SAY_EVERY_PERCENT:
            self._percent = percent
            say(f"    {self._source.target}: {percent} % of {self._source.size >> 20} MiB")
