"""Runs as root on a desktop: notes what was changed of its system, brings packages again, takes /home to its volume.

Sent over standard input and run by `python3`, so it knows only the standard library of Python 3.10 and later. It reads
a request (one line of JSON) and answers one line of JSON.
"""

import os
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deskyard.guest.request import serve_action
from deskyard.guest.root_file import put

SECONDS = 120
INSTALL_SECONDS = 1500
IDENTITY = Path("/home/.deskyard/identity")
NOTES = Path("/home/.deskyard/before")
ONCE = Path("/var/lib/cloud/instance/sem")
# The machine's own, or a secret that comes again by its own way.
LEFT_OUT = ("/etc/deskyard/", "/etc/ssh/ssh_host_", "/etc/machine-id", "/etc/resolv.conf", "/etc/ld.so.cache")
MOST_BYTES = 16 << 20


def look() -> dict[str, Any]:
    """Whether /home is on its volume, and the machine's id."""
    on_volume = os.path.ismount("/home") and IDENTITY.is_dir()
    return {"home": on_volume, "machine_id": Path("/etc/machine-id").read_text().strip()}


def note(packages: list[str]) -> dict[str, Any]:
    """Keep in home what was added to an image with these packages: names of packages, and changed files of /etc.

    The files are those that changed after the first boot had ended, as far as they fit.
    """
    NOTES.mkdir(mode=0o700, exist_ok=True)
    added = sorted(set(_run(["apt-mark", "showmanual"]).split()) - set(packages))
    (NOTES / "packages.txt").write_text("".join(f"{name}\n" for name in added))
    archive, left, files = NOTES / "etc.tar.gz", MOST_BYTES, []
    with archive.open("wb") as stream, tarfile.open(fileobj=stream, mode="w:gz") as tar:
        archive.chmod(0o600)
        for path in _changed():
            size = path.lstat().st_size
            if size <= left:
                tar.add(path, recursive=False)
                files.append(str(path))
                left -= size
    os.sync()
    return {"packages": added, "files": files}


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
    "install": install,
    "move_home": move_home,
}


if __name__ == "__main__":
    serve_action(ACTIONS)
