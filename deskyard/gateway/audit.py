"""One JSON line per decision; never a ticket, a cookie or a key."""

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path


class Audit:
    """Appends to one file; each line goes out in one write."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path

    def note(self, event: str, **facts: object) -> None:
        """Write down what happened."""
        moment = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": moment, "event": event, **facts}, sort_keys=False) + "\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)
