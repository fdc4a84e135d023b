"""A model's calls, read field by field; what is wrong is named, so that the model can mend it."""

from collections.abc import Mapping, Sequence
from typing import Any

from deskyard_sdk.errors import DesktopError


def wrong(field: str, value: object, reason: str, remedy: str) -> DesktopError:
    """A field that cannot be taken."""
    return DesktopError(field, "" if value is None else str(value)[:80], reason, remedy)


class Fields:
    """The input of a call."""

    def __init__(self, given: object, path: str = "input") -> None:
        if not isinstance(given, Mapping):
            raise wrong(path, given, "is no object", "give an object")
        self._given, self._path = given, path

    def has(self, name: str) -> bool:
        """Whether the field is given."""
        return self._given.get(name) is not None

    def at(self, name: str) -> str:
        """Where the field stands."""
        return f"{self._path}.{name}"

    def text(self, name: str, default: str | None = None) -> str:
        """A text."""
        return str(self._of(name, str, "a text", default))

    def whole(self, name: str, default: int | None = None) -> int:
        """A whole number, also one that is written as 3.0."""
        value = self._of(name, int | float, "a whole number", default)
        if isinstance(value, bool) or value != int(value):
            raise wrong(self.at(name), value, "is no whole number", "give a whole number")
        return int(value)

    def seconds(self, name: str, default: float | None = None) -> float:
        """A time."""
        value = self._of(name, int | float, "a number of seconds", default)
        if isinstance(value, bool) or not 0 <= value <= 100:
            raise wrong(self.at(name), value, "is outside 0 to 100", "give a number of seconds from 0 to 100")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        return bool(self._of(name, bool, "true or false", default))

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """One of these words."""
        value = self.text(name)
        if value not in choices:
            raise wrong(self.at(name), value, "is not known", f"give one of: {', '.join(choices)}")
        return value

    def words(self, name: str) -> list[str]:
        """Texts, or none."""
        value = self._of(name, list, "a list of texts", [])
        if not all(isinstance(word, str) for word in value):
            raise wrong(self.at(name), value, "is no list of texts", "give a list of texts")
        return list(value)

    def wholes(self, name: str, count: int) -> list[int]:
        """So many whole numbers."""
        value = self._of(name, list | tuple, f"{count} whole numbers", None)
        if len(value) != count or not all(isinstance(part, int) and not isinstance(part, bool) for part in value):
            raise wrong(self.at(name), value, f"is not {count} whole numbers", f"give {count} whole numbers")
        return list(value)

    def objects(self, name: str) -> "list[Fields]":
        """A list of objects."""
        value = self._of(name, list | tuple, "a list", None)
        return [Fields(part, f"{self.at(name)}[{index}]") for index, part in enumerate(value)]

    def _of(self, name: str, kind: Any, called: str, default: Any) -> Any:
        value = self._given.get(name)
        if value is None:
            value = default
        if not isinstance(value, kind):
            reason = "is missing" if value is None else f"is not {called}"
            raise wrong(self.at(name), value, reason, f"give {called}")
        return value


def combination(names: Sequence[str]) -> str:
    """Keys that are pressed together; a letter beside another key means that key, not its capital."""
    parts = [name.strip() or name for name in names]
    many = len(parts) > 1
    return "+".join("plus" if part == "+" else part.lower() if many and len(part) == 1 else part for part in parts)


def split(keys: str) -> list[str]:
    """The keys of a combination that is written as one text."""
    if keys.endswith("+"):
        return [*(part for part in keys[:-1].split("+") if part), "+"]
    return keys.split("+")
