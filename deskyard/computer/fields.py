"""The fields of a request's body or query, read one by one; what is wrong is named with path, value and remedy."""

import json
import math
import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from starlette.requests import HTTPConnection, Request

from deskyard.computer.problem import Problem

MOST_BODY = 32 << 20
MOST_TEXT = 4096  # characters, where nothing else is said
REQUIRED = object()
HALF = re.compile("[\ud800-\udfff]")
REMEDY = "see docs/computer-use.md and docs/computer-files.md for what the request takes"
# A query has no other way to say it.
QUERY_FLAGS = {"true": True, "1": True, "false": False, "0": False}


def wrong(field: str, value: object, reason: str, remedy: str = REMEDY) -> Problem:
    """A field that cannot be taken (400)."""
    shown = value if not isinstance(value, str | list | dict) else _short(value)
    return Problem(HTTPStatus.BAD_REQUEST, field, shown, reason, remedy)


def _short(value: str | list[Any] | dict[str, Any]) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= 80 else text[:77] + "..."


async def content(request: Request, most: int) -> bytes:
    """The request's body; raises `Problem` for one that is larger."""
    read = bytearray()
    async for chunk in request.stream():
        read += chunk
        if len(read) > most:
            reason = f"is larger than {most} bytes"
            raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body", None, reason, "send it in several requests")
    return bytes(read)


async def body(request: Request) -> "Fields":
    """The request's body as an object; raises `Problem` for one that is too large or no JSON object."""
    return Fields(decoded(await content(request, MOST_BODY)))


def decoded(text: bytes | str) -> dict[str, Any]:
    """A JSON object from its text; an empty one is `{}`."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise wrong("body", None, "is no JSON", "send one JSON object") from error
    if not isinstance(value, dict):
        raise wrong("body", value, "is no object", "send an object such as {}")
    # Most bodies hold none, and one of many megabytes is not walked through for it.
    if HALF.search(json.dumps(value, ensure_ascii=False)):
        raise _half(value)
    return value


def _half(value: dict[str, Any]) -> Problem:
    """The refusal of half a surrogate pair: JSON can hold it, and no answer, file name or key could."""
    left: list[tuple[str, Any]] = [("", value)]
    while left:
        path, item = left.pop()
        if isinstance(item, str) and HALF.search(item):
            return wrong(path, item, "holds half of a surrogate pair", "send whole characters")
        if isinstance(item, dict):
            left += ((f"{path}.{name}".lstrip("."), part) for name, part in item.items())
        elif isinstance(item, list):
            left += ((f"{path}[{index}]", part) for index, part in enumerate(item))
    return wrong("body", None, "has a field whose name holds half of a surrogate pair", "send whole characters")


def query(connection: HTTPConnection) -> "Fields":
    """The query of a request, whose numbers and flags are text; raises `Problem` for a field that is twice there."""
    pairs = connection.query_params.multi_items()
    found = dict(pairs)
    if len(found) != len(pairs):
        raise wrong("query", None, "names a field twice", "give each field once")
    return Fields(found, spoken=True)


class Fields:
    """An object of a request; each field is taken once, and `done` refuses those that nobody took.

    Where all values are text (`spoken`), numbers and flags are read from it.
    """

    def __init__(self, value: object, path: str = "", spoken: bool = False) -> None:
        if not isinstance(value, dict):
            raise wrong(path or "body", value, "is no object", "send an object such as {}")
        self._left: dict[str, Any] = dict(value)
        self.path = path
        self._spoken = spoken
        self._known: list[str] = []

    def at(self, name: str) -> str:
        """The path of a field of this object."""
        return f"{self.path}.{name}" if self.path else name

    def has(self, name: str) -> bool:
        """Whether the field is there and not yet taken."""
        return name in self._left

    def given(self, name: str) -> bool:
        """Whether the field says something; null says nothing, and is taken."""
        if self._left.get(name) is None:
            self.take(name, None)
            return False
        return True

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

    def text(self, name: str, default: Any = REQUIRED, most: int = MOST_TEXT) -> str:
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
        if self._spoken and isinstance(value, str):
            value = QUERY_FLAGS.get(value, value)
        if not isinstance(value, bool):
            raise wrong(self.at(name), value, "is neither true nor false", "give true or false")
        return value

    def integer(self, name: str, low: int, high: int, default: Any = REQUIRED) -> int:
        """A whole number from `low` to `high`."""
        value = self._number(self.take(name, default))
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        return whole(value, self.at(name), low, high)

    def number(self, name: str, low: float, high: float, default: Any = REQUIRED) -> float:
        """A number from `low` to `high`."""
        value = real(self._number(self.take(name, default)), self.at(name))
        if not low <= value <= high:
            reason, remedy = f"is outside {low:g} to {high:g}", f"give a number from {low:g} to {high:g}"
            raise wrong(self.at(name), value, reason, remedy)
        return value

    def _number(self, value: Any) -> Any:
        if not (self._spoken and isinstance(value, str)):
            return value
        try:
            return int(value) if value.lstrip("-").isdecimal() and len(value) < 20 else float(value)
        except ValueError:
            return value

    def names(self, name: str) -> dict[str, str]:
        """Names with their texts, such as an environment; none where the field is missing."""
        value = self.take(name, None) or {}
        if not isinstance(value, dict):
            raise wrong(self.at(name), value, "is no object of names and texts", 'give such as {"LANG": "C.UTF-8"}')
        for key, text in value.items():
            if not key or "=" in key or "\0" in key or not isinstance(text, str) or "\0" in text:
                raise wrong(f"{self.at(name)}.{key}", text, "is not a name and its text, without NUL and = in the name")
        return dict(value)

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

    def rest(self) -> dict[str, Any]:
        """The fields that nobody took yet."""
        return dict(self._left)

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
