"""Runs as root on a desktop: lays the owner's files into the agent's home, and never over what was changed there.

Sent over standard input and run by `python3`, so it knows only the standard library of Python 3.10 and later. It reads
a request (one line of JSON) and answers one line of JSON. Without the whole request it does nothing. In the home it
acts as the agent's account and goes through no link: whatever the agent planted there, root writes nowhere else.
"""

import base64
import contextlib
import ctypes
import errno
import hashlib
import json
import os
import pwd
import shutil
import stat
import subprocess
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deskyard.guest.request import serve
from deskyard.guest.root_file import FOLDER, alone, put, remove, write

MAX_BYTES = 65 << 20
OTHER = "other"
SKELETON = "/etc/skel"
NOREPLACE, EXCHANGE = 1, 2
CHANGED, BEFORE = "it was changed on the desktop", "it was there before"
GONE, IN_THE_WAY = "it was removed on the desktop", "a link, or what is no folder of the account, is on its way"


@dataclass
class Memory:
    """Memory of earlier runs: the mark of each file, marks that a run was about to bring, folders that were made."""

    path: Path
    files: dict[str, str] = field(default_factory=dict)
    coming: dict[str, list[str]] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)

    def load(self) -> "Memory":
        """Read it; nothing is remembered if there is none, and then nothing on the desktop counts as ours."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            kept = json.loads(self.path.read_text())
            self.files, self.coming, self.folders = dict(kept["files"]), dict(kept["coming"]), list(kept["folders"])
        return self

    def ours(self, path: str) -> set[str]:
        """The marks by which a file is known to be as we left it."""
        return {*self.coming.get(path, ()), *([self.files[path]] if path in self.files else ())}

    def save(self) -> None:
        """Write it as a whole."""
        kept = {"files": self.files, "coming": self.coming, "folders": sorted(set(self.folders))}
        put(self.path, json.dumps(kept, sort_keys=True), 0o600)


def renamed(parent: int, old: str, new: str, flag: int) -> None:
    """Rename in one folder so that what is called `new` is not lost: it stays, or changes places with `old`."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(parent, os.fsencode(old), parent, os.fsencode(new), flag) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), new)


def mark(content: bytes, executable: bool) -> str:
    """The mark that tells a file from any other."""
    return ("x" if executable else "-") + hashlib.sha256(content).hexdigest()


def seen(parent: int | None, name: str) -> str | None:
    """The mark of a plain file, `OTHER` for what is none, nothing if there is nothing."""
    try:
        facts = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > MAX_BYTES:
            return OTHER
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=parent)
    except FileNotFoundError:
        return None
    except OSError:
        return OTHER
    with os.fdopen(handle, "rb") as file:
        return mark(file.read(MAX_BYTES), bool(facts.st_mode & stat.S_IXUSR))


class Blocked(Exception):
    """The way to a file leads through something that is no folder that may be entered."""


@contextlib.contextmanager
def way(home: int, path: str, make: list[str] | None = None) -> Iterator[tuple[int, str]]:
    """The folder of a file, entered part by part through no link, and the file's name; `make` notes what it makes."""
    *parts, name = path.split("/")
    handle, private = os.dup(home), parts[:1] in ([".ssh"], [".gnupg"])
    try:
        for number, part in enumerate(parts):
            try:
                if make is not None:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, 0o700 if private else 0o755, dir_fd=handle)
                        make.append("/".join(parts[: number + 1]))
                below = os.open(part, FOLDER, dir_fd=handle)
            except (NotADirectoryError, PermissionError):
                raise Blocked from None
            except OSError as error:
                if error.errno == errno.ELOOP:
                    raise Blocked from None
                raise
            os.close(handle)
            handle = below
        yield handle, name
    finally:
        os.close(handle)


def pristine(path: str) -> str | None:
    """The mark of what every new account gets: nobody has written it, so nobody loses it."""
    return seen(None, f"{SKELETON}/{path}")


def judged(has: str | None, wanted: str, memory: Memory, path: str) -> tuple[str, str]:
    """Judge what becomes of a file that has to be `wanted`, and why it stays if it does."""
    ours = path in memory.files
    if has == wanted:
        return "unchanged", ""
    if has is None:
        return ("kept", GONE) if ours else ("new", "")
    if has in memory.ours(path) or has == pristine(path):
        return "changed", ""
    return "kept", CHANGED if ours else BEFORE


def look(home: int, path: str, wanted: str, memory: Memory, overwrite: bool) -> tuple[str, str]:
    """Judge a file as it lies there; nothing is changed."""
    try:
        with way(home, path) as (parent, name):
            state, reason = judged(seen(parent, name), wanted, memory, path)
    except FileNotFoundError:
        state, reason = judged(None, wanted, memory, path)
    except Blocked:
        return "kept", IN_THE_WAY
    if state == "kept" and overwrite:
        return ("new", "") if reason == GONE else ("overwritten", reason)
    return state, reason


def lay(home: int, path: str, item: dict[str, Any], memory: Memory, overwrite: bool) -> tuple[str, str]:
    """Bring one file, in one step; what was there and is not ours stays, here or beside."""
    wanted = item["mark"]
    state, reason = look(home, path, wanted, memory, overwrite)
    if state not in ("new", "changed", "overwritten"):
        return state, reason
    replaceable = {*memory.ours(path), wanted, pristine(path)}
    try:
        with way(home, path, memory.folders) as (parent, name):
            part, swap = f".{name}.deskyard-part", f".{name}.deskyard-swap"
            remove(parent, part)
            settle(parent, swap, name, replaceable)
            write(parent, part, base64.b64decode(item["content"]), item["mode"])
            renamed(parent, part, swap, NOREPLACE)
            try:
                renamed(parent, swap, name, NOREPLACE)
            except FileExistsError:
                renamed(parent, swap, name, EXCHANGE)
                # What was there a moment ago may be no longer what was looked at.
                if settle(parent, swap, name, replaceable):
                    state, reason = "overwritten", reason or CHANGED
            os.fsync(parent)
    except (Blocked, PermissionError):
        return "kept", IN_THE_WAY
    return state, reason


def settle(parent: int, swap: str, name: str, replaceable: Collection[str | None]) -> bool:
    """Take away what has made room: if it is `replaceable` it is deleted, else it stays beside, and this says so."""
    found = seen(parent, swap)
    if found is None or found in replaceable:
        remove(parent, swap)
        return False
    for number in range(1, 1000):
        with contextlib.suppress(FileExistsError):
            renamed(parent, swap, f"{name}.deskyard-kept{'' if number == 1 else f'-{number}'}", NOREPLACE)
            return True
    raise OSError(errno.EEXIST, "too many kept files", name)


def clear(home: int, path: str, ours: Collection[str], dry: bool) -> tuple[str, str] | None:
    """Remove a file that is wanted no more, if it is still ours; what its owner changed is theirs from now on."""
    try:
        with way(home, path) as (parent, name):
            swap = f".{name}.deskyard-swap"
            if not dry:
                settle(parent, swap, name, ours)
            has = seen(parent, name)
            if has is None:
                return None
            if has not in ours:
                return "kept", CHANGED
            if not dry:
                renamed(parent, name, swap, NOREPLACE)
                if settle(parent, swap, name, ours):
                    return "kept", CHANGED
            return "removed", ""
    except FileNotFoundError:
        return None
    except (Blocked, PermissionError):
        return "kept", IN_THE_WAY


def tidy(home: int, memory: Memory) -> None:
    """Remove the folders that we made and nobody uses."""
    for folder in sorted(set(memory.folders), key=len, reverse=True):
        try:
            with way(home, folder) as (parent, name):
                os.rmdir(name, dir_fd=parent)
        except (OSError, Blocked) as error:
            if not isinstance(error, FileNotFoundError):
                continue
        memory.folders = [other for other in memory.folders if other != folder]


@contextlib.contextmanager
def acting_as(account: pwd.struct_passwd) -> Iterator[None]:
    """Be that account for the kernel; its processes cannot touch this one, whose real account stays root's."""
    if os.geteuid() == account.pw_uid:
        yield
        return
    groups, gid, mask = os.getgroups(), os.getegid(), os.umask(0o022)
    os.setgroups([])
    os.setegid(account.pw_gid)
    os.seteuid(account.pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(gid)
        os.setgroups(groups)
        os.umask(mask)


def begin(home: int, account: pwd.struct_passwd, memory: Memory, request: dict[str, Any]) -> dict[str, Any]:
    """List what to bring. Unless it is dry: what is wanted no more goes, what is there already counts as ours."""
    wanted, dry = request["files"], request["dry"]
    states: dict[str, tuple[str, str]] = {}
    with acting_as(account):
        for path in sorted({*memory.files, *memory.coming} - {*wanted}):
            if done := clear(home, path, memory.ours(path), dry):
                states[path] = done
            if not dry:
                memory.files.pop(path, None)
                memory.coming.pop(path, None)
        if not dry:
            tidy(home, memory)
        for path, wanted_mark in wanted.items():
            states[path] = look(home, path, wanted_mark, memory, request["overwrite"])
            if states[path][0] == "unchanged":
                memory.files[path] = wanted_mark
                memory.coming.pop(path, None)
    environment = settings(request["system"], dry)
    if not dry:
        memory.save()
    shown = {path: state for path, state in states.items() if state[0] != "unchanged"}
    ended = sorted(path.stem for path in (memory.path.parent / "scripts").glob("*.done"))
    return {"files": shown, "environment": environment, "done": ended}


def settings(system: dict[str, str | None], dry: bool) -> str:
    """Bring the files of the environment, and let systemd read them."""
    if dry:
        has = {path: Path(path).read_text() if os.path.lexists(path) else None for path in system}
        found = {path: "changed" if text else "removed" for path, text in system.items() if has[path] != text}
        return next(iter(found.values()), "unchanged")
    done = [state for state in (put(Path(path), text, 0o644) for path, text in system.items()) if state != "unchanged"]
    if done and shutil.which("systemctl"):
        subprocess.run(["systemctl", "daemon-reload"], capture_output=True, timeout=90, check=False)
    return done[0] if done else "unchanged"


def bring(home: int, account: pwd.struct_passwd, memory: Memory, request: dict[str, Any]) -> dict[str, Any]:
    """Lay some files; their marks are noted before they are written: the next run then knows what a killed one did."""
    states: dict[str, tuple[str, str]] = {}
    for path, item in request["files"].items():
        memory.coming.setdefault(path, []).append(item["mark"])
    memory.save()
    try:
        with acting_as(account):
            for path, item in request["files"].items():
                states[path] = lay(home, path, item, memory, request["overwrite"])
                if states[path][0] != "kept":
                    memory.files[path] = item["mark"]
                memory.coming.pop(path)
    finally:
        memory.save()
    return {"files": states}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Do what is asked."""
    try:
        account = pwd.getpwnam(request["account"])
    except KeyError:
        return {"error": f"there is no account {request['account']}"}
    try:
        # A dry run makes no folder either.
        fresh = request["do"] == "begin" and request["dry"] and not os.path.lexists(request["state"])
        with contextlib.nullcontext() if fresh else alone(Path(request["state"])):
            memory = Memory(Path(request["state"]) / "applied.json").load()
            home = os.open(account.pw_dir, FOLDER)
            try:
                return {"begin": begin, "bring": bring}[request["do"]](home, account, memory, request)
            finally:
                os.close(home)
    except OSError as error:
        return {"error": f"{error.filename or request['state']}: {error.strerror}"}


if __name__ == "__main__":
    serve(answer)
