"""Runs as root on a desktop: installs updates of the distribution, frees its disk, and says whether somebody works.

Sent over standard input and run by `python3`, so it knows only the standard library of Python 3.10 and later. It reads
a request (one line of JSON) and answers one line of JSON. It never touches /home.
"""

import json
import os
import pwd
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from deskyard.guest.request import serve_action

SECONDS = 120
UPDATE_SECONDS = 1500
# `Inst NAME [OLD] (NEW ORIGIN:RELEASE [ARCHITECTURE])`, as apt simulates it.
PLANNED = re.compile(r"^Inst (\S+) (?:\[\S+\] )?\((\S+) ([^)\[]*)")
SECURITY = re.compile(r"security", re.IGNORECASE)
JOURNAL = "200M"
APT = ["apt-get", "--quiet", "--yes", "-o", "DPkg::Lock::Timeout=120", "-o", "Dpkg::Options::=--force-confold"]


def look(mark: str, account: str) -> dict[str, Any]:
    """How full the system disk is in percent, whether a restart is due, and who works."""
    disk = os.statvfs("/")
    used = 100 * (disk.f_blocks - disk.f_bfree) / disk.f_blocks
    return {"used": used, "restart": Path("/run/reboot-required").exists(), "busy": sorted(set(_busy(mark, account)))}


def update(which: str) -> dict[str, Any]:
    """Install what the distribution has newer: its security updates, or all."""
    _run([*APT, "update"], UPDATE_SECONDS)
    planned = _run([*APT, "--simulate", "--with-new-pkgs", "upgrade"])
    found = [match for line in planned.splitlines() if (match := PLANNED.match(line))]
    names = [
        name for name, _, origin in (match.groups() for match in found) if which == "all" or SECURITY.search(origin)
    ]
    if names:
        _run([*APT, "install", "--only-upgrade", "--", *names], UPDATE_SECONDS)
    return {"updated": names, "restart": Path("/run/reboot-required").exists()}


def clean() -> dict[str, Any]:
    """Delete what comes again by itself: packages of the cache, old journals, kernels and packages nothing needs."""
    before = _free()
    _run([*APT, "clean"])
    _run(["journalctl", "--rotate", f"--vacuum-size={JOURNAL}"])
    _run([*APT, "autoremove", "--purge"], UPDATE_SECONDS)
    _run(["systemd-tmpfiles", "--clean"])
    subprocess.run(["fstrim", "/"], capture_output=True, timeout=UPDATE_SECONDS, check=False)
    return {"freed": max(0, _free() - before)}


def _free() -> int:
    disk = os.statvfs("/")
    return disk.f_bfree * disk.f_frsize


def _busy(mark: str, account: str) -> Iterator[str]:
    """Tasks of the agent, by what starts their programs, and whoever asked systemd to hold off a restart."""
    uid = pwd.getpwnam(account).pw_uid
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if process.stat().st_uid == uid and mark.encode() in (process / "cmdline").read_bytes():
                yield "a task of the agent"
        except OSError:
            continue
    listing = _run(["busctl", "--json=short", "call", "org.freedesktop.login1", *INHIBITORS])
    for what, who, _why, mode, *_ in json.loads(listing)["data"][0]:
        if mode == "block" and "shutdown" in what.split(":"):
            yield str(who)


INHIBITORS = ("/org/freedesktop/login1", "org.freedesktop.login1.Manager", "ListInhibitors")


def _run(argv: list[str], seconds: float = SECONDS) -> str:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=seconds, check=True, env=environment)
    return done.stdout


ACTIONS: dict[str, Callable[..., dict[str, Any]]] = {"look": look, "update": update, "clean": clean}


if __name__ == "__main__":
    serve_action(ACTIONS)
