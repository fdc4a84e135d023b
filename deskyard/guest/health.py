"""Runs as root on a desktop: says how full, how busy and how whole it is. It changes nothing.

Sent over standard input and run by `python3`, so it knows only the standard library of Python 3.10 and later. It reads
a request (one line of JSON) and answers one line of JSON.
"""

import os
import subprocess
import time
from pathlib import Path
from typing import Any

from deskyard.guest.processes import held
from deskyard.guest.request import serve

SECONDS = 20
# An emulated desktop takes its time to load one.
BROWSER_SECONDS = 50
BROWSERS = ("/usr/bin/google-chrome", "/usr/bin/chromium")
AGENT = "agent"
MOST_UNITS = 20
# A service that was started again so often, the last time so many seconds ago at most, dies again and again.
RESTARTS, LATELY_SECONDS = 3, 300.0
ABOUT = ("Id", "ActiveState", "NRestarts", "Restart", "UnitFileState", "ConditionResult", "Transient")
ENTERED = "ActiveEnterTimestampMonotonic"


def look() -> dict[str, Any]:
    """Look how full and how whole the desktop is; sizes in bytes."""
    disk, home = os.statvfs("/"), os.statvfs("/home")
    memory = {name: int(rest.split()[0]) * 1024 for name, _, rest in _lines(Path("/proc/meminfo"))}
    return {
        "disk": _room(disk),
        "home": _room(home),
        "files": {"most": disk.f_files, "free": disk.f_favail},
        "read_only": any(system.f_flag & os.ST_RDONLY for system in (disk, home)),
        "memory": {"size": memory["MemTotal"], "free": memory["MemAvailable"]},
        "failed_units": failed_units(),
        "unsteady": unsteady(),
        "browser": browser(),
        "processes": held(AGENT),
        "restart_required": Path("/run/reboot-required").exists(),
        "time": time.time(),
    }


def failed_units() -> list[str]:
    """Units of the system that have failed."""
    argv = ["systemctl", "list-units", "--state=failed", "--plain", "--no-legend", "--no-pager"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=True)
    return [line.split()[0] for line in done.stdout.splitlines() if line.strip()][:MOST_UNITS]


def unsteady() -> list[dict[str, Any]]:
    """Services that do not run though they always should, and those that die and are started again and again.

    systemd calls none of these failed: what waits for its next start is activating, what has just come is active.
    """
    # Without --all those that are off would be left out.
    argv = ["systemctl", "--no-pager", "--all", "show", "--property", ",".join((*ABOUT, ENTERED)), "--", "*.service"]
    shown = subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=True).stdout
    services = [dict(line.split("=", 1) for line in text.splitlines() if "=" in line) for text in shown.split("\n\n")]
    now = time.clock_gettime(time.CLOCK_MONOTONIC)
    wrong = [service for service in services if service.keys() >= {*ABOUT, ENTERED} and _is_unsteady(service, now)]
    return [
        {"unit": each["Id"], "state": each["ActiveState"], "restarts": int(each["NRestarts"])}
        for each in wrong[:MOST_UNITS]
    ]


def _is_unsteady(service: dict[str, str], now: float) -> bool:
    """Whether it dies again and again, or is off; what somebody runs for a while is theirs."""
    state, restarts = service["ActiveState"], int(service["NRestarts"])
    if service["Transient"] == "yes":
        return False
    if state == "activating":
        # In a boot of a busy machine many a service comes at its second attempt.
        return restarts >= RESTARTS
    if state == "active":
        return restarts >= RESTARTS and now - int(service[ENTERED]) / 1e6 < LATELY_SECONDS
    # One whose condition does not hold is off by right.
    always = service["Restart"] == "always" and service["UnitFileState"] == "enabled"
    return state == "inactive" and always and service["ConditionResult"] == "yes"


def browser() -> dict[str, Any] | None:
    """Ask the first browser that is there for its version, and whether it starts; None without a browser."""
    path = next((path for path in BROWSERS if Path(path).exists()), None)
    if path is None:
        return None
    argv = ["runuser", "-u", AGENT, "--", path, "--version"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=BROWSER_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {"starts": False, "said": f"no answer within {BROWSER_SECONDS} s"}
    said = (done.stdout + done.stderr).strip().splitlines()
    return {"starts": done.returncode == 0, "said": said[0] if said else f"exit code {done.returncode}"}


def _room(system: os.statvfs_result) -> dict[str, int]:
    return {"size": system.f_blocks * system.f_frsize, "free": system.f_bavail * system.f_frsize}


def _lines(path: Path) -> list[tuple[str, str, str]]:
    return [line.partition(":") for line in path.read_text().splitlines()]


if __name__ == "__main__":
    serve(lambda _: look())
