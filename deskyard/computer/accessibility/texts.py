"""The field that gets what is typed, and what stands in it, for who reads back what was typed."""

from collections.abc import Awaitable, Callable

from deskyard.computer.accessibility import nodes
from deskyard.computer.accessibility.bus import Bus, Late, Reference, Refused, reference
from deskyard.computer.accessibility.search import Search, Sought, Window
from deskyard.computer.answers import screen as answers
from deskyard.computer.display.acting.read_back import ASK_SECONDS, Field
from deskyard.computer.problem import Problem

MOST_TEXT = 100_000
MOST_FOCUSED = 20
PASSWORD = "password text"


class Texts:
    """Reads the fields of the programs that are on the bus; passwords are never asked for."""

    def __init__(self, bus: Bus, window: Callable[[int, str], Awaitable[answers.Window]]) -> None:
        self._bus = bus
        self._window = window

    async def focused(self, window: int) -> Field | None:
        """The field of a window that has the keyboard; None where none is known."""
        try:
            facts = await self._window(window, "window")
            place = Sought(window=Window(facts["pid"], facts["title"]), states=("focused",))
            found = (await Search(self._bus, ASK_SECONDS, MOST_FOCUSED).find(place, False)).nodes
            if any(node["role"] == PASSWORD for node in found):
                return None
            fields = [node for node in found if "editable" in node["states"]]
            return await self._field(fields[-1]) if fields else None
        except (Refused, Late, Problem):
            return None

    async def _field(self, node: answers.Node) -> Field | None:
        at = reference(node["id"], "node")
        text = await self._read(at)
        if text is None:
            return None
        start = end = int(await self._bus.property(at, "Text", "CaretOffset", ASK_SECONDS))
        (count,) = await self._bus.call(at, "Text", "GetNSelections", ASK_SECONDS)
        if count:
            start, end = sorted(await self._bus.call(at, "Text", "GetSelection", ASK_SECONDS, "i", (0,)))
        return Field(at.id, text, start, end, "multi line" in node["states"])

    async def text(self, id: str) -> str | None:
        """The text in a field now; None where it is gone, or became one for a password."""
        at = reference(id, "node")
        try:
            (role,) = await self._bus.call(at, "Accessible", "GetRole", ASK_SECONDS)
            return None if nodes.ROLES[role : role + 1] == (PASSWORD,) else await self._read(at)
        except (Refused, Late, Problem):
            return None

    async def _read(self, at: Reference) -> str | None:
        if "Text" not in await nodes.interfaces(self._bus, at, ASK_SECONDS):
            return None
        if await self._bus.property(at, "Text", "CharacterCount", ASK_SECONDS) > MOST_TEXT:
            return None
        (found,) = await self._bus.call(at, "Text", "GetText", ASK_SECONDS, "ii", (0, -1))
        return str(found)
