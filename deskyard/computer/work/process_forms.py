"""How processes look on the wire: pieces of output, ends, signals and sizes."""

import base64
import binascii
import signal
from typing import Any

from deskyard.computer.fields import Fields, wrong
from deskyard.computer.work.output import Piece
from deskyard.computer.work.process import SHELL, Process, Size

MOST_ARGUMENTS = 4096


def described(piece: Piece) -> dict[str, Any]:
    """A piece of output as clients read it."""
    if piece.lost:
        return {"stream": "lost", "offset": piece.offset, "bytes": piece.lost}
    data = base64.b64encode(piece.data).decode()
    return {"stream": piece.stream, "offset": piece.offset, "data": data, "untrusted": ["data"]}


def ending(process: Process) -> dict[str, Any]:
    """How a process ended, as clients read it."""
    assert process.end
    return {"exit_code": process.end.code, "signal": process.end.signal, "offset": process.output.end}


def signal_number(name: str) -> int:
    """The number of a signal such as TERM, SIGTERM or 15."""
    try:
        return signal.Signals(int(name)) if name.isdigit() else signal.Signals[f"SIG{name.upper().removeprefix('SIG')}"]
    except (KeyError, ValueError):
        raise wrong("signal", name, "is not a signal", "name one such as TERM, INT, KILL, HUP") from None


def size(fields: Fields) -> Size:
    """A terminal's size from the fields of a request, which has no others."""
    wanted = Size(fields.integer("columns", 1, 1000, 80), fields.integer("rows", 1, 1000, 24))
    fields.done()
    return wanted


def data_of(text: object) -> bytes:
    """Bytes from their base64."""
    try:
        return base64.b64decode(text if isinstance(text, str) else "!", validate=True)
    except (binascii.Error, ValueError):
        raise wrong("data", None, "is not base64") from None


def argv_of(command: Any) -> tuple[str, ...]:
    """A command from a request: text is for a login shell, a list is a program with its arguments."""
    if isinstance(command, str) and command:
        command = [*SHELL, command]
    if not isinstance(command, list) or not command or not all(isinstance(part, str) for part in command):
        raise wrong("command", command, "must be text for a shell, or a list of texts")
    if len(command) > MOST_ARGUMENTS or not command[0] or any("\0" in part for part in command):
        raise wrong("command", None, f"has an empty name, a NUL, or more than {MOST_ARGUMENTS} arguments")
    return tuple(command)
