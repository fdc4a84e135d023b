"""A folder of this machine to which files of a backup are brought: nothing is ever written outside of it.

Each step into it is taken by its open parent and follows no link, whoever writes there meanwhile.
"""

import contextlib
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from deskyard.errors import ConfigError, SiteError
from deskyard.guest import home_files

# No file gets rights of its owner or group, or lets others write.
MODE, OWNERS = 0o755, 0o700
_INTO = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
Parts = Sequence[bytes]


class Folder:
    """The folder at `path`; what is made in it belongs to whom it belongs.

    With `force` a file is written in place of one that is there; else that is an error.
    """

    def __init__(self, path: Path, *, force: bool = False) -> None:
        self._path, self._force = path, force
        self._root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        facts = os.fstat(self._root)
        self._owner = facts.st_uid, facts.st_gid

    def __enter__(self) -> "Folder":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of it."""
        os.close(self._root)

    def kind(self, parts: Parts) -> str:
        """The kind of what is at that path: folder, other, or empty for nothing."""
        try:
            with self._at(parts[:-1]) as parent:
                mode = os.stat(parts[-1], dir_fd=parent, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return ""
        except OSError:
            # A link or a file in place of a folder on the way.
            return "other"
        return "folder" if stat.S_ISDIR(mode) else "other"

    def make(self, parts: Parts, mode: int) -> None:
        """Make a folder; one that is there stays as it is."""
        with self._written(parts), self._at(parts[:-1]) as parent, contextlib.suppress(FileExistsError):
            os.mkdir(parts[-1], OWNERS, dir_fd=parent)
            with self._at([parts[-1]], parent) as made:
                os.fchmod(made, mode & MODE | OWNERS)
                os.fchown(made, *self._owner)

    def write(self, parts: Parts, mode: int, changed: int, pieces: Iterable[bytes]) -> None:
        """Write a file whole or not at all."""
        with self._written(parts), self._at(parts[:-1]) as parent, self._passing(parent) as passing:
            with os.fdopen(os.open(passing, _NEW, 0o600, dir_fd=parent), "wb") as file:
                home_files.fill(file, pieces)
                os.fchmod(file.fileno(), mode & MODE)
                os.fchown(file.fileno(), *self._owner)
                file.flush()
                os.utime(file.fileno(), (changed, changed))
            self._show(parent, passing, parts[-1])

    def link(self, parts: Parts, leads_to: bytes) -> None:
        """Make a link."""
        with self._written(parts), self._at(parts[:-1]) as parent, self._passing(parent) as passing:
            os.symlink(leads_to, passing, dir_fd=parent)
            os.chown(passing, *self._owner, dir_fd=parent, follow_symlinks=False)
            self._show(parent, passing, parts[-1])

    def _show(self, parent: int, passing: bytes, name: bytes) -> None:
        if self._force:
            os.replace(passing, name, src_dir_fd=parent, dst_dir_fd=parent)
        else:
            # Unlike a renaming this replaces nothing.
            os.link(passing, name, src_dir_fd=parent, dst_dir_fd=parent, follow_symlinks=False)

    @contextlib.contextmanager
    def _passing(self, parent: int) -> Iterator[bytes]:
        """A name that nothing has, and nothing has afterwards."""
        name = f".deskyard-{secrets.token_hex(8)}".encode()
        try:
            yield name
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=parent)

    @contextlib.contextmanager
    def _at(self, parts: Parts, start: int | None = None) -> Iterator[int]:
        """The folder by that path, opened step by step."""
        now = os.dup(self._root if start is None else start)
        try:
            for part in parts:
                further = os.open(part, _INTO, dir_fd=now)
                os.close(now)
                now = further
            yield now
        finally:
            os.close(now)

    @contextlib.contextmanager
    def _written(self, parts: Parts) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            path = os.fsdecode(b"/".join(parts))
            reason = f"{path!r} cannot be written: {error.strerror}"
            remedy = "make room or way for it there, or take another folder; what was brought so far stays"
            raise SiteError("to", str(self._path), reason, remedy) from error


def opened(path: Path, *, force: bool = False) -> Folder:
    """The folder at a path; raises `ConfigError` if it is none."""
    try:
        return Folder(path, force=force)
    except OSError as error:
        reason = f"is no folder that can be opened: {error.strerror}"
        raise ConfigError("to", str(path), reason, "take another folder") from error


def require(to: str) -> None:
    """Raise `ConfigError` unless a folder is there, or can be made in one that is."""
    path = Path(to)
    if not path.is_absolute():
        raise ConfigError("to", to, "is neither an absolute path nor a desktop", "give it as /srv/FOLDER or NAME/NAME")
    if path.exists():
        opened(path).close()
    elif not path.parent.is_dir():
        raise ConfigError("to", to, f"there is no folder {path.parent}", "make it, or take another")
