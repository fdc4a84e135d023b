"""The file of sandboxes: it keeps what E2B's clients know of them and Mission Control does not, for its owner alone.

No key stands here, and no access token: of both there are hashes, which lead back to neither.
"""

import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deskyard_sdk import DesktopError

TABLES = """
create table if not exists sandbox (
    id text primary key, owner blob not null, nonce blob not null, made integer not null, template text not null,
    metadata text not null, started real not null, ends real, ended integer not null default 0,
    pauses integer not null, killed integer not null default 0, environment integer not null default 0,
    memory integer not null default 1, rests integer not null default 0
) strict;
create table if not exists token (
    hash blob primary key, owner blob not null,
    sandbox text not null references sandbox (id) on delete cascade
) strict, without rowid;
"""
FLAGS = ("made", "ended", "pauses", "killed", "environment", "memory", "rests")
# The columns that hold a value as it is.
PLAIN = ("id", "owner", "nonce", "template", "started", "ends", *FLAGS)


@dataclass(frozen=True)
class Kept:
    """A sandbox: `made` here, or a desktop that a client connected to; a hash of the key that did either.

    One that `rests` was paused already when its time was over; one that never was there yet has not `started`.
    """

    id: str
    owner: bytes
    nonce: bytes
    made: bool
    template: str
    metadata: dict[str, str]
    started: float
    ends: float | None
    ended: bool = False
    pauses: bool = False
    killed: bool = False
    environment: bool = False
    memory: bool = True
    rests: bool = False


class Keeping:
    """The file; one program at a time has it open."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = self._locked()
        try:
            # Before anything is written into it: SQLite itself would let others read it.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            if path.stat().st_mode & 0o077:
                raise self._wrong("can be read by others", f"chmod 600 {path}")
            self._link = sqlite3.connect(path, isolation_level=None)
            self._link.row_factory = sqlite3.Row
            self._link.execute("pragma foreign_keys = on")
            self._link.executescript(TABLES)
            self._add_what_is_newer()
            # One that was being killed when the program ended: whether it is gone, Mission Control knows.
            self._link.execute("update sandbox set killed = 0")
        except (OSError, sqlite3.Error) as error:
            os.close(self._lock)
            raise self._wrong(f"cannot be used ({error})", "give a file of your own, or remove this one") from error
        except DesktopError:
            os.close(self._lock)
            raise

    def close(self) -> None:
        """Close it, for the next program."""
        self._link.close()
        os.close(self._lock)

    def add(self, sandbox: Kept) -> None:
        """Note a sandbox; one of that name that was noted before is forgotten with its tokens."""
        with self._transaction():
            self._do("delete from sandbox where id = ?", [sandbox.id])
            values = [*(getattr(sandbox, name) for name in PLAIN), json.dumps(sandbox.metadata)]
            names, marks = ", ".join((*PLAIN, "metadata")), ", ".join("?" * len(values))
            self._do(f"insert into sandbox ({names}) values ({marks})", values)

    def find(self, id: str) -> Kept | None:
        """A sandbox by its name."""
        return next(self._read("where id = ?", [id]), None)

    def all(self) -> dict[str, Kept]:
        """All of them, by name."""
        return {sandbox.id: sandbox for sandbox in self._read("", [])}

    def ending(self) -> list[Kept]:
        """Those whose time ends, the first first."""
        condition = "where made and not ended and not killed and ends is not null order by ends"
        return list(self._read(condition, []))

    def forget(self, id: str) -> None:
        """Forget a sandbox with its tokens."""
        self._do("delete from sandbox where id = ?", [id])

    def kill(self, id: str, killed: bool = True) -> None:
        """Note that a sandbox is gone, or is not after all."""
        self._do("update sandbox set killed = ? where id = ?", [killed, id])

    def last_until(self, id: str, ends: float) -> None:
        """Note when a sandbox ends, which is ahead of it from now on."""
        self._do("update sandbox set ends = ?, ended = 0, rests = 0 where id = ?", [ends, id])

    def put_off(self, id: str, ends: float, *, rests: bool) -> None:
        """Note that the end of a sandbox was not yet to be, since it `rests` or did until now."""
        self._do("update sandbox set ends = ?, rests = ? where id = ?", [ends, rests, id])

    def start(self, id: str, started: float, ends: float) -> None:
        """Note that a sandbox is there, from now on."""
        self._do("update sandbox set started = ?, ends = ?, ended = 0 where id = ?", [started, ends, id])

    def end(self, id: str) -> None:
        """Note that what was due at a sandbox's end is done."""
        self._do("update sandbox set ended = 1 where id = ?", [id])

    def give(self, sandbox: str, token: str, owner: bytes) -> None:
        """Note a token, which a key's owner was given for a sandbox."""
        values = [token_hash(token), owner, sandbox]
        self._do("insert or ignore into token (hash, owner, sandbox) values (?, ?, ?)", values)

    def owner_of(self, sandbox: str, token: str) -> bytes | None:
        """Whose token this is, if it is for this sandbox."""
        given, found = token_hash(token), None
        for row in self._do("select hash, owner from token where sandbox = ?", [sandbox]):
            if hmac.compare_digest(row["hash"], given):
                found = bytes(row["owner"])
        return found

    def owners(self, sandbox: str) -> list[bytes]:
        """Whose keys were given a token for a sandbox."""
        rows = self._do("select distinct owner from token where sandbox = ?", [sandbox])
        return [bytes(row["owner"]) for row in rows]

    def _read(self, condition: str, values: Sequence[Any]) -> Iterator[Kept]:
        for row in self._do(f"select * from sandbox {condition}", values).fetchall():
            fields = dict(row)
            flags = {name: bool(fields[name]) for name in FLAGS}
            yield Kept(**{**fields, **flags, "metadata": json.loads(fields["metadata"])})

    def _add_what_is_newer(self) -> None:
        """A file of an earlier release has not all columns."""
        columns = [row["name"] for row in self._link.execute("pragma table_info(sandbox)")]
        for name, default in (("memory", 1), ("rests", 0)):
            if name not in columns:
                self._link.execute(f"alter table sandbox add column {name} integer not null default {default}")

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._do("begin immediate")
        try:
            yield
            self._do("commit")
        except BaseException:
            # A disk that is full may have ended it already.
            if self._link.in_transaction:
                self._do("rollback")
            raise

    def _do(self, query: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        try:
            return self._link.execute(query, values)
        except sqlite3.Error as error:
            # Clients hear of it, to whom its place says nothing.
            raise DesktopError("--state", "", f"cannot be used ({error})", "make room on its disk", 503) from error

    def _locked(self) -> int:
        """A lock that ends with the process: two programs would both end a sandbox."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._wrong(f"cannot be used ({error})", "give a file in a folder of your own") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise self._wrong("is in use by another program", "end that, or give another file") from None
        return lock

    def _wrong(self, reason: str, remedy: str) -> DesktopError:
        return DesktopError("--state", str(self._path), reason, remedy)


def owner_of(key: str) -> bytes:
    """The hash that stands for a key where it is not to be read; a key is 256 random bits, which need no slow hash."""
    return hashlib.sha256(b"deskyard e2b, whose\0" + key.encode()).digest()


def fresh_nonce() -> bytes:
    """A nonce that makes the tokens of a sandbox unlike those of another of the same name."""
    return secrets.token_bytes(16)


def token_for(key: str, sandbox: Kept) -> str:
    """A key's token for a sandbox: the same whenever it is asked for, though it is kept nowhere."""
    text = f"deskyard e2b, access\0{sandbox.id}\0".encode() + sandbox.nonce
    return f"dye_{hmac.new(key.encode(), text, hashlib.sha256).hexdigest()}"


def token_hash(token: str) -> bytes:
    """The hash of a token, which is kept in its place."""
    return hashlib.sha256(b"deskyard e2b, token\0" + token.encode()).digest()
