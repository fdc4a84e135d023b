"""Fetches one pinned file: bounded in time, checked before anybody sees it."""

import hashlib
import urllib.request
from pathlib import Path
from urllib.error import URLError

from deskyard.errors import HostError

CHUNK = 1 << 20


def is_reachable(url: str, seconds: float = 6) -> bool:
    """Whether the server has the file, by a HEAD request."""
    request = urllib.request.Request(url, method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            return 200 <= int(answer.status) < 300
    except (URLError, OSError, ValueError):
        return False


def fetch(url: str, destination: Path, *, algorithm: str, checksum: str) -> None:
    """Download `url`; raises `HostError` if it cannot be had or is another file than the pinned one."""
    part = destination.with_name(destination.name + ".part")
    state = hashlib.new(algorithm)
    try:
        with urllib.request.urlopen(url, timeout=60) as answer, part.open("wb") as file:
            while chunk := answer.read(CHUNK):
                state.update(chunk)
                file.write(chunk)
        if state.hexdigest() != checksum:
            reason = f"has {algorithm} {state.hexdigest()}, pinned is {checksum}"
            raise HostError("download", url, reason, "check the pin in image.yaml and the network in between")
        part.replace(destination)
    except (URLError, OSError) as error:
        raise HostError("download", url, f"cannot be had: {error}", "check the network") from error
    finally:
        part.unlink(missing_ok=True)
