"""Reads what a request says, field by field; what is wrong is named with its remedy."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.requests import Request

from deskyard.computer.problem import Problem

MOST_BYTES = 32 << 20
# A query has no other way to say it.
QUERY_FLAGS = {"true": True, "1": True, "false": False, "0": False}
REMEDY = "see docs/computer-files.md for what the request takes"


def bad(field: str, value: object, reason: str, remedy: str = REMEDY) -> Problem:
    """The refusal of a field that is not as it must be."""
    return Problem(HTTPStatus.BAD_REQUEST, field, value, reason, remedy)


class Fields:
    """The fields of a request's body or query; each is asked for once, and `end` refuses those nobody knows."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._left = dict(given)

    def take(self, name: str) -> Any:
        """A field as it is; None where it is not given."""
        return self._left.pop(name, None)

    def text(self, name: str, default: str | None = None) -> str:
        """A field that is text; without a default it must be given."""
        value = self._left.pop(name, default)
        if not isinstance(value, str):
            raise bad(name, value, "must be text" if value is not None else "is missing")
        return value

    def flag(self, name: str, default: bool) -> bool:
        """A field that is true or false."""
        value = self._left.pop(name, default)
        if isinstance(value, str):
            value = QUERY_FLAGS.get(value, value)
        if not isinstance(value, bool):
            raise bad(name, value, "must be true or false")
        return value

    def number(self, name: str, default: float, low: float, high: float) -> float:
        """A field that is a number within bounds."""
        value = self._left.pop(name, default)
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                raise bad(name, value, "must be a number") from None
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise bad(name, value, f"must be a number from {low:g} to {high:g}")
        return value

    def whole(self, name: str, default: int, low: int, high: int) -> int:
        """A field that is a whole number within bounds."""
        value = self.number(name, default, low, high)
        if value != int(value):
            raise bad(name, value, "must be a whole number")
        return int(value)

    def names(self, name: str) -> dict[str, str]:
        """A field that maps names to texts, such as an environment."""
        value = self._left.pop(name, None) or {}
        if not isinstance(value, dict):
            raise bad(name, value, "must map names to texts")
        for key, text in value.items():
            if not key or "=" in key or "\0" in key or not isinstance(text, str) or "\0" in text:
                raise bad(f"{name}.{key}", text, "is not a name and its text, without NUL and = in the name")
        return dict(value)

    def rest(self) -> dict[str, Any]:
        """The fields that nobody asked for yet."""
        return dict(self._left)

    def end(self) -> None:
        """Refuse the fields that nobody asked for."""
        for name, value in self._left.items():
            raise bad(name, value, "is not a field of this request")


async def body(request: Request) -> Fields:
    """The JSON object that a request brings."""
    read = bytearray()
    async for chunk in request.stream():
        read += chunk
        if len(read) > MOST_BYTES:
            status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            raise Problem(status, "body", len(read), f"is more than {MOST_BYTES} bytes", "send a smaller request")
    return Fields(decoded(bytes(read)))


def decoded(text: bytes | str) -> dict[str, Any]:
    """A JSON object from its text; an empty one is `{}`."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        raise bad("body", None, "is not JSON") from None
    if not isinstance(value, dict):
        raise bad("body", None, "must be a JSON object")
    return value
