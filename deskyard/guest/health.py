"""Runs as root on a desktop: says how full, how busy and how whole it is. It changes nothing.

Sent over standard input and run by `python3`, so it knows only the standard library of Python 3.10 and later. It reads
a request (one line of JSON) and answers one line of JSON.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SECONDS = 20
MOST_UNITS = 20


def look() -> dict[str, Any]:
    """What there is to know; sizes in bytes."""
    disk, home = os.statvfs("/"), os.statvfs("/home")
    memory = {name: int(rest.split()[0]) * 1024 for name, _, rest in _lines(Path("/proc/meminfo"))}
    return {
        "disk": _room(disk),
        "home": _room(home),
        "files": {"most": disk.f_files, "free": disk.f_favail},
        "read_only": any(system.f_flag & os.ST_RDONLY for system in (disk, home)),
        "memory": {"size": memory["MemTotal"], "free": memory["MemAvailable"]},
        "failed_units": failed_units(),
        "restart_required": Path("/run/reboot-required").exists(),
        "time": time.time(),
    }


def failed_units() -> list[str]:
    """Units of the system that have failed."""
    argv = ["systemctl", "list-units", "--state=failed", "--plain", "--no-legend", "--no-pager"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=True)
    return [line.split()[0] for line in done.stdout.splitlines() if line.strip()][:MOST_UNITS]


def _room(system: os.statvfs_result) -> dict[str, int]:
    return {"size": system.f_blocks * system.f_frsize, "free": system.f_bavail * system.f_frsize}


def _lines(path: Path) -> list[tuple[str, str, str]]:
    return [line.partition(":") for line in path.read_text().splitlines()]


def main() -> None:
    """Answer the request on standard input."""
    json.loads(sys.stdin.readline())
    try:
        answer = look()
    except (OSError, KeyError, ValueError, IndexError, subprocess.SubprocessError) as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
