"""A session that outlives the program which opened it, in a file that is its owner's alone."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deskyard_sdk.errors import DesktopError


class Kept:
    """Where the session of one link is kept; another link's is never taken for it."""

    def __init__(self, path: str | Path, link: str) -> None:
        self._path = Path(path).expanduser()
        # A link's secret stands nowhere: its hash tells which session is whose.
        self._link = hashlib.sha256(link.encode()).hexdigest()

    def read(self) -> dict[str, Any]:
        """The facts of the session; empty where none is kept. Raises `DesktopError` for a file open to others."""
        try:
            mode, text = self._path.stat().st_mode, self._path.read_text()
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError) as error:
            raise self._wrong(f"cannot be read ({error})", "give a file of your own") from error
        if mode & 0o077:
            raise self._wrong("can be read by others", f"chmod 600 {self._path}")
        try:
            kept = json.loads(text)
            facts = kept["facts"] if kept["link"] == self._link else {}
        except (ValueError, KeyError, TypeError) as error:
            raise self._wrong("holds no session", "remove it, or give another file") from error
        return dict(facts)

    def write(self, facts: Mapping[str, Any]) -> None:
        """Keep what is known of the session, whole or not at all."""
        new = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            new.unlink(missing_ok=True)
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                json.dump({"link": self._link, "facts": dict(facts)}, file)
            new.replace(self._path)
        except OSError as error:
            raise self._wrong(f"cannot be written ({error})", "give a file in a folder of your own") from error

    def _wrong(self, reason: str, remedy: str) -> DesktopError:
        return DesktopError("session", str(self._path), reason, remedy)
