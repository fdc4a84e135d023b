"""Runs as root on a desktop: notes what was changed of its system and brings it again, takes /home to its volume.

Sent over standard input and run by `python3`, so it knows only the standard library of Python 3.10 and later. It reads
a request (one line of JSON) and answers one line of JSON.
"""

import grp
import os
import pwd
import subprocess
import tarfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from deskyard.guest.request import serve_action
from deskyard.guest.root_file import FOLDER, put, remove, write

SECONDS = 120
INSTALL_SECONDS = 1500
IDENTITY = Path("/home/.deskyard/identity")
NOTES = Path("/home/.deskyard/before")
ONCE = Path("/var/lib/cloud/instance/sem")
# The machine's own, or a secret that comes again by its own way.
LEFT_OUT = ("/etc/deskyard/", "/etc/ssh/ssh_host_", "/etc/machine-id", "/etc/resolv.conf", "/etc/ld.so.cache")
MOST_BYTES = 16 << 20
BROUGHT = "brought.txt"


def look() -> dict[str, Any]:
    """Whether /home is on its volume, and the machine's id."""
    on_volume = os.path.ismount("/home") and IDENTITY.is_dir()
    return {"home": on_volume, "machine_id": Path("/etc/machine-id").read_text().strip()}


def note(packages: list[str], keep: Sequence[str] = ()) -> dict[str, Any]:
    """Keep in home what was added to an image with these packages: names of packages, and changed files of /etc.

    The files are those that changed after the first boot had ended, and those that were brought by an exchange, as far
    as they fit: first what is below the paths to keep. What of that does not fit is named.
    """
    NOTES.mkdir(mode=0o700, exist_ok=True)
    added = sorted(set(_run(["apt-mark", "showmanual"]).split()) - set(packages))
    (NOTES / "packages.txt").write_text("".join(f"{name}\n" for name in added))
    changed = sorted({*_changed(), *_brought()}, key=lambda path: (not _is_below(path, keep), path))
    archive, left, files, too_large = NOTES / "etc.tar.gz", MOST_BYTES, [], []
    with archive.open("wb") as stream, tarfile.open(fileobj=stream, mode="w:gz") as tar:
        archive.chmod(0o600)
        for path in changed:
            size = path.lstat().st_size
            if size <= left:
                tar.add(path, recursive=False)
                files.append(str(path))
                left -= size
            elif _is_below(path, keep):
                too_large.append(str(path))
    os.sync()
    kept = [file for file in files if _is_below(Path(file), keep)]
    return {"packages": added, "files": files, "kept": kept, "too_large": too_large}


def bring(keep: Sequence[str]) -> dict[str, Any]:
    """Put noted files below these paths where they were, with their modes and their owners by name."""
    files = []
    with tarfile.open(NOTES / "etc.tar.gz") as tar:
        for member in tar:
            path = Path("/", os.path.normpath(f"/{member.name}"))
            source = tar.extractfile(member) if member.isreg() else None
            if source is not None and _is_below(path, keep) and not str(path).startswith(LEFT_OUT):
                _place(path, source.read(), member)
                files.append(str(path))
    (NOTES / BROUGHT).write_text("".join(f"{file}\n" for file in files))
    if any(file.startswith("/etc/systemd/") for file in files):
        _run(["systemctl", "daemon-reload"])
    os.sync()
    return {"files": files}


def install(packages: list[str]) -> dict[str, Any]:
    """Install packages of the distribution; those that cannot be had are named."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    apt = ["apt-get", "--yes", "-o", "DPkg::Lock::Timeout=120"]
    subprocess.run([*apt, "update"], env=environment, capture_output=True, timeout=INSTALL_SECONDS, check=False)
    failed = []
    for name in packages:
        argv = [*apt, "install", "--no-install-recommends", "--", name]
        done = subprocess.run(argv, env=environment, capture_output=True, timeout=INSTALL_SECONDS, check=False)
        if done.returncode != 0:
            failed.append(name)
    return {"failed": failed}


def move_home(files: list[dict[str, Any]]) -> dict[str, Any]:
    """Install what takes /home to its volume at the next start."""
    for file in files:
        put(Path(file["path"]), file["text"], int(file["mode"]))
    _run(["systemctl", "daemon-reload"])
    _run(["systemctl", "enable", "home-volume.service"])
    os.sync()
    return {"installed": len(files)}


def measure_home() -> dict[str, Any]:
    """The bytes and files that /home holds itself, without what is mounted below it; what has several names is one."""
    device, size, files = os.lstat("/home").st_dev, 0, set[int]()
    for folder, folders, names in os.walk("/home"):
        inner = []
        for name in [*folders, *names]:
            # It may be gone by now, or be a user's own mount, into which root does not see.
            with suppress(OSError):
                found = Path(folder, name).lstat()
                if found.st_dev != device:
                    continue
                inner.append(name)
                size += 0 if found.st_ino in files else found.st_blocks * 512
                files.add(found.st_ino)
        folders[:] = [name for name in folders if name in inner]
    return {"bytes": size, "files": len(files)}


def _place(path: Path, content: bytes, member: tarfile.TarInfo) -> None:
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    folder, draft = os.open(path.parent, FOLDER), f".{path.name}.new"
    owner, group = member.uid, member.gid
    # The next image may number its accounts otherwise.
    with suppress(KeyError):
        owner = pwd.getpwnam(member.uname).pw_uid
    with suppress(KeyError):
        group = grp.getgrnam(member.gname).gr_gid
    try:
        remove(folder, draft)
        write(folder, draft, content, 0o600)
        os.chown(draft, owner, group, dir_fd=folder, follow_symlinks=False)
        # After the owner, whose change takes bits away.
        os.chmod(draft, member.mode & 0o7777, dir_fd=folder)
        os.rename(draft, path.name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        remove(folder, draft)
        os.close(folder)


def _is_below(path: Path, keep: Sequence[str]) -> bool:
    return any(str(path) == kept or str(path).startswith(f"{kept}/") for kept in keep)


def _brought() -> list[Path]:
    """The files that an exchange brought and are still there: they may have changed before the first boot had ended."""
    listed = NOTES / BROUGHT
    lines = listed.read_text().splitlines() if listed.is_file() else []
    found = [Path(line) for line in lines if line.startswith("/etc/") and not line.startswith(LEFT_OUT)]
    return [path for path in found if path.is_file() and not path.is_symlink()]


def _changed() -> list[Path]:
    """Plain files of /etc that changed after the first boot had ended."""
    since = max((mark.stat().st_mtime for mark in ONCE.iterdir()), default=0.0)
    found = []
    for folder, _, names in os.walk("/etc"):
        for name in names:
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink() and path.stat().st_ctime > since:
                found.append(path)
    return sorted(path for path in found if not str(path).startswith(LEFT_OUT))


def _run(argv: list[str]) -> str:
    return subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=True).stdout


ACTIONS: dict[str, Callable[..., dict[str, Any]]] = {
    "look": look,
    "note": note,
    "bring": bring,
    "install": install,
    "measure_home": measure_home,
    "move_home": move_home,
}


if __name__ == "__main__":
    serve_action(ACTIONS)
