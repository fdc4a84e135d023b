"""The fields of a request's body, read one by one; what is wrong is named with its path, value and remedy."""

import json
import math
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from starlette.requests import Request

from deskyard.computer.problem import Problem

MOST_BODY = 4 << 20
REQUIRED = object()


def wrong(field: str, value: object, reason: str, remedy: str) -> Problem:
    """A field that cannot be taken (400)."""
    shown = value if not isinstance(value, str | list | dict) else _short(value)
    return Problem(HTTPStatus.BAD_REQUEST, field, shown, reason, remedy)


def _short(value: str | list[Any] | dict[str, Any]) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= 80 else text[:77] + "..."


async def body(request: Request) -> "Fields":
    """The request's body as an object; raises `Problem` for one that is too large or no JSON object."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > MOST_BODY:
            reason = f"is larger than {MOST_BODY} bytes"
            raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body", None, reason, "send it in several requests")
        chunks.append(chunk)
    try:
        value = json.loads(b"".join(chunks))
    except (ValueError, RecursionError) as error:
        raise wrong("body", None, "is no JSON", "send one JSON object") from error
    return Fields(value, "")


class Fields:
    """An object of a request; each field is taken once, and `done` refuses those that nobody took."""

    def __init__(self, value: object, path: str) -> None:
        if not isinstance(value, dict):
            raise wrong(path or "body", value, "is no object", "send an object such as {}")
        self._left: dict[str, Any] = dict(value)
        self.path = path
        self._known: list[str] = []

    def at(self, name: str) -> str:
        """The path of a field of this object."""
        return f"{self.path}.{name}" if self.path else name

    def has(self, name: str) -> bool:
        """Whether the field is there and not yet taken."""
        return name in self._left

    def peek(self, name: str) -> Any:
        """The field as it is, left to be taken; None if it is not there."""
        return self._left.get(name)

    def take(self, name: str, default: Any = REQUIRED) -> Any:
        """The field as it is; raises `Problem` if it is required and missing."""
        self._known.append(name)
        if name not in self._left:
            if default is REQUIRED:
                raise wrong(self.at(name), None, "is missing", f"give {name}")
            return default
        return self._left.pop(name)

    def text(self, name: str, default: Any = REQUIRED, most: int = 200) -> str:
        """A text of at most `most` characters."""
        value = self.take(name, default)
        if not isinstance(value, str):
            raise wrong(self.at(name), value, "is no text", "give a string")
        if len(value) > most:
            raise wrong(self.at(name), value, f"has {len(value)} characters, more than {most}", "send it in parts")
        return value

    def choice(self, name: str, choices: Sequence[str], default: Any = REQUIRED) -> str:
        """One of these words."""
        value = self.take(name, default)
        if value not in choices or not isinstance(value, str):
            raise wrong(self.at(name), value, "is not known", f"give one of: {', '.join(choices)}")
        return value

    def flag(self, name: str, default: Any = REQUIRED) -> bool:
        """True or false."""
        value = self.take(name, default)
        if not isinstance(value, bool):
            raise wrong(self.at(name), value, "is neither true nor false", "give true or false")
        return value

    def integer(self, name: str, low: int, high: int, default: Any = REQUIRED) -> int:
        """A whole number from `low` to `high`."""
        value = self.take(name, default)
        return whole(value, self.at(name), low, high)

    def list(self, name: str, most: int, default: Any = REQUIRED) -> list[Any]:
        """A list of 1 to `most` items."""
        value = self.take(name, default)
        if not isinstance(value, list):
            raise wrong(self.at(name), value, "is no list", "give a list")
        if not 0 < len(value) <= most and value != default:
            raise wrong(self.at(name), None, f"has {len(value)} items", f"give 1 to {most} items")
        return value

    def inner(self, name: str) -> "Fields":
        """The object in this field."""
        return Fields(self.take(name), self.at(name))

    def done(self) -> None:
        """Refuse what was not taken."""
        for name, value in self._left.items():
            known = ", ".join(self._known)
            raise wrong(self.at(_short(name)), value, "is not known here", f"leave it out; known are: {known}")


def whole(value: object, path: str, low: int, high: int) -> int:
    """A whole number in its range."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong(path, value, "is no whole number", f"give a whole number from {low} to {high}")
    if not low <= value <= high:
        raise wrong(path, _number(value), f"is outside {low} to {high}", f"give a whole number from {low} to {high}")
    return value


def real(value: object, path: str) -> float:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong(path, value, "is no number", "give a number")
    try:
        result = float(value)
    except OverflowError:
        result = math.inf
    if not math.isfinite(result):
        raise wrong(path, _number(value), "is no finite number", "give a number")
    return result


def _number(value: float) -> str:
    # Python refuses to print whole numbers of thousands of digits.
    return str(value) if isinstance(value, float) or abs(value) < 10**30 else "a number of very many digits"
