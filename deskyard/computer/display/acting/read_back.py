"""Whether a text stands where it was typed: the program's own word for it, by accessibility."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

SAME, DIFFERENT, UNKNOWN = "same", "different", "unknown"
ASK_SECONDS = 1.0
# A browser has its keys before the page in it has them.
LATE_SECONDS = 1.0
AGAIN_SECONDS = 0.05


@dataclass(frozen=True)
class Field:
    """A field before something is typed into it: its text, and the part of it that typing replaces."""

    id: str
    text: str
    start: int
    end: int
    has_lines: bool

    def after(self, typed: str) -> str | None:
        """Its text after typing; None where that is the program's to say, as after Enter in a field of one line."""
        if "\t" in typed or ("\n" in typed and not self.has_lines):
            return None
        return self.text[: self.start] + typed + self.text[self.end :]


class Texts(Protocol):
    """Reads the fields that programs show."""

    async def focused(self, window: int) -> Field | None:
        """The field of a window that gets what is typed; None where that is not known, or a password."""

    async def text(self, id: str) -> str | None:
        """The text that stands in a field now; None where that is not known."""


class ReadBack:
    """Asks the event loop for fields, from the thread that types; nobody is asked where no one can answer."""

    def __init__(self) -> None:
        self.texts: Texts | None = None
        self.loop: asyncio.AbstractEventLoop | None = None

    def before(self, window: int) -> Field | None:
        """The field into which will be typed, if it is known."""
        return self._asked(lambda texts: texts.focused(window), ASK_SECONDS)

    def outcome(self, field: Field | None, typed: str) -> str:
        """Whether the field has what was typed."""
        expected = None if field is None else field.after(typed)
        if field is None or expected is None:
            return UNKNOWN
        found = self._asked(lambda texts: _until(texts, field.id, expected), LATE_SECONDS + ASK_SECONDS)
        return UNKNOWN if found is None else SAME if found == expected else DIFFERENT

    def _asked(self, ask: Callable[[Texts], Coroutine[Any, Any, T | None]], seconds: float) -> T | None:
        if self.texts is None or self.loop is None:
            return None
        asked = asyncio.run_coroutine_threadsafe(asyncio.wait_for(ask(self.texts), seconds), self.loop)
        try:
            return asked.result()
        except TimeoutError:
            return None


async def _until(texts: Texts, id: str, expected: str) -> str | None:
    """The text of a field as soon as it is the expected one, or as it is after a while."""
    clock = asyncio.get_running_loop().time
    until = clock() + LATE_SECONDS
    while (found := await texts.text(id)) not in (None, expected) and clock() < until:
        await asyncio.sleep(AGAIN_SECONDS)
    return found
