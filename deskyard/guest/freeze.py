"""Runs as root on a desktop: halts all that the agent runs, lets it go on, or says which it is.

Sent over standard input and run by `python3`, so it knows only the standard library of Python 3.10 and later. It reads
a request (one line of JSON with `action`) and answers one line of JSON.
"""

import subprocess
import urllib.request
from pathlib import Path
from typing import Any

from deskyard.guest.request import serve

SLICE = "agent.slice"
GROUP = Path("/sys/fs/cgroup") / SLICE
# The computer-use service of the desktop: what its hands hold down would stay down while it is halted.
RELEASE = "http://127.0.0.1:6090/v1/drive"
SECONDS = 30


def act(action: str) -> dict[str, Any]:
    """Do what is asked; `frozen` is what the kernel says afterwards."""
    answer: dict[str, Any] = {}
    if action == "freeze":
        # A service that stands still would not answer; it let go of all before.
        answer["released"] = is_frozen() or release()
    if action in ("freeze", "thaw") and is_frozen() != (action == "freeze"):
        subprocess.run(["systemctl", action, SLICE], capture_output=True, text=True, timeout=SECONDS, check=True)
    return {**answer, "frozen": is_frozen()}


def release() -> bool:
    """Let go of all keys and buttons; false if the service does not answer, and then holds none either."""
    request = urllib.request.Request(
        RELEASE, b'{"driver": "person"}', {"Content-Type": "application/json"}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as done:
            return bool(done.status == 200)
    except OSError:
        return False


def is_frozen() -> bool:
    """Whether the kernel says that the agent's processes are frozen, those of all units below the slice."""
    events = GROUP / "cgroup.events"
    return events.exists() and "frozen 1" in events.read_text()


def main() -> None:
    """Answer the request on standard input."""
    serve(lambda request: act(request["action"]))


if __name__ == "__main__":
    main()
