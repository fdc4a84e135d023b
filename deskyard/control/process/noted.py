"""Which processes of Mission Control run, as its supervisor notes them, and the end of those that it left behind.

Each has its start time beside its number: numbers are used again for strangers.
"""

import json
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from deskyard.control.ground.folder import Folder
from deskyard.host.background import start_time
from deskyard.host.deadline import Deadline

DATABASE = "database"
# Noted as the supervisor's own work while it lasts.
TABLES = "tables"
LOOK_SECONDS = 0.05


def note(folder: Folder, numbers: Mapping[str, int]) -> None:
    """Write down who runs."""
    draft = folder.processes.with_suffix(".new")
    draft.write_text(
        json.dumps({name: {"pid": number, "started": start_time(number)} for name, number in numbers.items()})
    )
    draft.replace(folder.processes)


def noted(folder: Folder) -> dict[str, bool]:
    """Whether each process runs that was noted last."""
    # A Deskyard of before noted the number alone.
    return {
        name: start_time(entry) is not None if isinstance(entry, int) else _runs(entry)
        for name, entry in _entries(folder).items()
    }


def end_left(folder: Folder, seconds: float) -> None:
    """Wait until all have ended that a supervisor left behind when it was killed; after `seconds` by force."""
    # Each was sent a signal as the supervisor ended, the database the one after which it keeps what was committed:
    # that is never ended by force here.
    if Deadline(seconds).wait_for(lambda: not _left(folder), LOOK_SECONDS):
        return
    for number in _left(folder, but=DATABASE):
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
    Deadline(seconds).wait_for(lambda: not _left(folder), LOOK_SECONDS)


def _entries(folder: Folder) -> dict[str, Any]:
    try:
        return dict(json.loads(folder.processes.read_text()))
    except FileNotFoundError:
        return {}


def _left(folder: Folder, but: str = "") -> list[int]:
    # By its number alone it may be a stranger.
    entries = {name: entry for name, entry in _entries(folder).items() if isinstance(entry, dict) and name != but}
    return [entry["pid"] for entry in entries.values() if _runs(entry)]


def _runs(entry: Mapping[str, Any]) -> bool:
    return entry["started"] is not None and start_time(entry["pid"]) == entry["started"]
