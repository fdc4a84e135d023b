"""Tools of the scope `act`: a batch of actions, the plain ones alone, windows, the clipboard."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from deskyard_sdk import AsyncDesktop, actions
from mcp_types import CallToolResult
from pydantic import Field

from deskyard_mcp.answers import LOOK, acted, said
from deskyard_mcp.offers import ACTS, SETS, Call, Offer

# What follows an action: the screen at rest, or as it is after so long.
SETTLED = {"event": "screen.settled", "quiet_ms": 200, "within_ms": 3000}

Pixel = Annotated[int, Field(ge=0, description="pixel of the space")]
Space = Annotated[
    str, Field(description="what x and y are pixels of: the `space` of a picture, `window:ID`, `screen` or `norm1000`")
]
ACTION = {
    "type": "object",
    "required": ["type"],
    "properties": {
        "type": {"enum": ["move", "click", "down", "up", "drag", "scroll", "key", "hold", "type", "paste", "wait"]},
        "x": {"type": "integer"},
        "y": {"type": "integer"},
        "space": {"type": "string", "description": "as with click; without it the screen's own pixels"},
        "button": {"enum": ["left", "middle", "right", "back", "forward"]},
        "count": {"type": "integer", "description": "of click and key"},
        "modifiers": {"type": "array", "items": {"type": "string"}, "description": "keys held meanwhile"},
        "path": {"type": "array", "items": {"type": "object"}, "description": "of drag: [{x, y}, ...]"},
        "dx": {"type": "integer", "description": "of scroll: notches, right is positive"},
        "dy": {"type": "integer", "description": "of scroll: notches, down is positive"},
        "keys": {"type": "string", "description": "of key and hold: such as ctrl+shift+t"},
        "key": {"type": "string", "description": "of down and up, instead of a button"},
        "ms": {"type": "integer", "description": "of hold and wait"},
        "text": {"type": "string", "description": "of type and paste"},
        "read_back": {"type": "boolean", "description": "of type: say whether the field has the text then"},
        "event": {"type": "string", "description": "of wait: what is waited for, with match, within_ms, quiet_ms"},
    },
}
Actions = Annotated[list[dict[str, Any]], Field(json_schema_extra={"items": ACTION}, min_length=1)]
Wait = Annotated[
    dict[str, Any] | None,
    Field(description='waited for before the picture, such as {"event": "window.appeared", "match": {"title": "x"}}'),
]


class Acting:
    """The tools by which an agent acts on the desktop; they show what came of it if the agent may see."""

    def __init__(self, desktop: AsyncDesktop, sees: bool) -> None:
        self._desktop, self._sees = desktop, sees

    def offers(self) -> Sequence[Offer]:
        """The tools."""
        calls: Sequence[Call] = (self.act, self.click, self.type, self.key, self.scroll, self.window, self.tile)
        return [*(Offer("act", call, ACTS) for call in calls), Offer("act", self.set_clipboard, SETS)]

    async def act(self, actions: Actions, wait: Wait = None, picture: bool = True) -> CallToolResult:
        """Do several actions in order, wait for what they bring about, and look: all at once.

        All are read before the first is done; the first that fails ends it. Without `wait`, the screen's rest is
        waited for. While a person drives, input is refused: wait for the event person.left.
        """
        return await self._do(actions, wait or SETTLED, picture)

    async def click(
        self,
        x: Pixel,
        y: Pixel,
        space: Space,
        button: Literal["left", "middle", "right"] = "left",
        count: Annotated[int, Field(description="2 for a double click", ge=1, le=3)] = 1,
        modifiers: Annotated[list[str] | None, Field(description="keys held meanwhile, such as ctrl")] = None,
    ) -> CallToolResult:
        """Click at a place; a place outside its space is refused."""
        return await self._do([actions.click(x, y, button, count, space, modifiers or ())])

    async def type(self, text: Annotated[str, Field(description="any Unicode; \\n is Enter")]) -> CallToolResult:
        """Type a text where the keyboard's focus is."""
        return await self._do([actions.type_text(text)])

    async def key(
        self,
        keys: Annotated[str, Field(description="such as Return, ctrl+s, ctrl+shift+t")],
        count: Annotated[int, Field(ge=1, le=100)] = 1,
    ) -> CallToolResult:
        """Press a key, or several together."""
        return await self._do([actions.key(keys, count)])

    async def scroll(
        self,
        x: Pixel,
        y: Pixel,
        space: Space,
        dy: Annotated[int, Field(description="notches of the wheel; down is positive")] = 0,
        dx: Annotated[int, Field(description="notches; right is positive")] = 0,
    ) -> CallToolResult:
        """Turn the wheel at a place."""
        return await self._do([actions.scroll(x, y, dx, dy, space)])

    async def window(
        self,
        id: Annotated[int, Field(description="as `windows` lists it")],
        action: Literal[
            "focus", "move", "resize", "minimise", "maximise", "fullscreen", "restore", "raise", "lower", "close"
        ],
        x: int | None = None,
        y: int | None = None,
        width: int | None = None,
        height: int | None = None,
    ) -> CallToolResult:
        """Give a window the focus, another place (x, y) or size (width, height), another state, or close it."""
        places = {"x": x, "y": y, "width": width, "height": height}
        given = {name: value for name, value in places.items() if value is not None}
        return said({"ok": True, "event": await self._desktop.windows.do(id, action, **given)})

    async def tile(
        self,
        windows: Annotated[list[int], Field(description="ids as `windows` lists them, in order", min_length=1)],
        arrangement: Literal["columns", "rows", "grid"] = "columns",
    ) -> CallToolResult:
        """Put several windows side by side, so that none covers another; the first gets the keyboard."""
        placed = await self._desktop.windows.tile(*windows, arrangement=arrangement)
        return said({"windows": [{"id": int(id), "geometry": list(place)} for id, place in placed]})

    async def set_clipboard(self, text: str) -> CallToolResult:
        """Put a text into the clipboard."""
        await self._desktop.set_clipboard(text)
        return said({"ok": True})

    async def _do(
        self, wanted: Sequence[dict[str, Any]], wait: dict[str, Any] = SETTLED, picture: bool = True
    ) -> CallToolResult:
        look = LOOK if picture and self._sees else None
        return acted(await self._desktop.act(*wanted, picture=look, wait=wait))
