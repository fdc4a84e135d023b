"""The request that starts a process on a sandbox, as Connect writes it: read, and written anew where it is changed."""

import json
import struct
from dataclasses import dataclass
from typing import Any

ENVELOPE = struct.Struct(">BI")
PLAIN = 0


@dataclass(frozen=True)
class Start:
    """A request that was read: what it asks for, and what came behind it."""

    asked: dict[str, Any]
    rest: bytes

    @property
    def process(self) -> dict[str, Any]:
        """The process that is wanted."""
        found: dict[str, Any] = self.asked["process"]
        return found

    @property
    def command(self) -> str:
        """The command line of E2B's `commands.run`, which is the last argument of a shell."""
        arguments = self.process.get("args")
        return str(arguments[-1]) if isinstance(arguments, list) and arguments else ""

    def written(self) -> bytes:
        """The request once more."""
        content = json.dumps(self.asked, separators=(",", ":")).encode()
        return ENVELOPE.pack(PLAIN, len(content)) + content + self.rest


def read(message: bytes) -> Start | None:
    """Read a request; None for what is not understood, which a desktop refuses by itself."""
    if len(message) < ENVELOPE.size:
        return None
    flags, length = ENVELOPE.unpack_from(message)
    end = ENVELOPE.size + length
    try:
        asked = json.loads(message[ENVELOPE.size : end]) if flags == PLAIN else None
    except ValueError:
        return None
    if not isinstance(asked, dict) or not isinstance(asked.get("process"), dict):
        return None
    return Start(asked, message[end:])
