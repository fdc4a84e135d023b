"""A driver for the predefined functions of Gemini's computer-use tool; its places are on a grid of 1000."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from deskyard_sdk.desktop import AsyncDesktop
from deskyard_sdk.drivers.calls import Fields, combination, split, wrong
from deskyard_sdk.drivers.driver import Action, AsyncDriver, Confirm, base64_of, explained
from deskyard_sdk.drivers.openai import notches
from deskyard_sdk.errors import DesktopError
from deskyard_sdk.forms import Picture
from deskyard_sdk.sync import Desktop, waits

LIMIT = 1600
GRID = 1000
# What a scroll without a magnitude is, in the grid's units.
MAGNITUDE = 800
BROWSERS = ("chrom", "firefox")
SEARCH = "https://www.google.com"
DIRECTIONS = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}
PAGES = {"up": "Page_Up", "down": "Page_Down"}
BROWSER_SECONDS = 60


class AsyncGemini(AsyncDriver):
    """Answers parts with a `functionCall` by parts with a `functionResponse`, both as they stand in JSON.

    `browser` is the command that starts one, if not the desktop's own.
    """

    def __init__(
        self,
        desktop: AsyncDesktop,
        most: int | str = LIMIT,
        confirm: Confirm | None = None,
        browser: Sequence[str] | None = None,
        search: str = SEARCH,
    ) -> None:
        super().__init__(desktop, most, confirm)
        self._browser, self._search = browser, search

    async def tool(self, environment: str = "ENVIRONMENT_BROWSER") -> dict[str, Any]:
        """The entry for `tools`."""
        return {"computerUse": {"environment": environment}}

    async def run(self, part: Mapping[str, Any]) -> dict[str, Any]:
        """The part that answers; a refusal is an `error` in it, beside the picture of how things are."""
        call = part.get("functionCall") or part.get("function_call") or part
        # The browser's address is not known to a desktop.
        response: dict[str, Any] = {"url": ""}
        try:
            if (call.get("args") or {}).get("safety_decision"):
                self.agreed(call)
                response["safety_acknowledgement"] = "true"
            shown = await self._do(str(call["name"]), Fields(call.get("args") or {}, "args"))
        except DesktopError as error:
            response["error"] = explained(error)
            shown = await self.picture()
        blob = {"mimeType": f"image/{shown.format}", "data": base64_of(shown)}
        answer = {"name": call["name"], "response": response, "parts": [{"inlineData": blob}]}
        return {"functionResponse": answer | ({"id": call["id"]} if call.get("id") else {})}

    async def _do(self, name: str, fields: Fields) -> Picture:
        if name == "open_web_browser":
            await self._open_browser()
            return await self.picture()
        if name == "search":
            return await self.do(_visit(self._search))
        if name == "scroll_at":
            return await self.do(_scroll_at(fields, (await self.seen()).region))
        if name not in READ:
            known = ", ".join([*READ, "scroll_at", "search", "open_web_browser"])
            raise wrong("name", name, "is not known", f"use one of: {known}")
        return await self.do(READ[name](fields))

    async def _open_browser(self) -> None:
        """Bring the browser to the front, or start it and wait for its window."""
        before = await self._desktop.last_event()
        for window in reversed(await self._desktop.windows.list()):
            if any(word in str(window.data.get("class", "")).lower() for word in BROWSERS):
                await self._desktop.windows.focus(window.id)
                return
        if self._browser is None:
            await self._desktop.open(self._search, within=BROWSER_SECONDS)
            return
        await self._desktop.processes.start(self._browser)
        await self._desktop.wait_for("window.appeared", after=before, within=BROWSER_SECONDS)


def _place(fields: Fields, x: str = "x", y: str = "y") -> Action:
    return {"x": fields.whole(x), "y": fields.whole(y)}


def _at(fields: Fields) -> Action:
    return _place(fields) | {"space": "norm1000"}


def _visit(address: str) -> list[Action]:
    return [
        {"type": "key", "keys": "ctrl+l"},
        {"type": "type", "text": address},
        {"type": "key", "keys": "Return"},
    ]


def _type_text_at(fields: Fields) -> list[Action]:
    actions: list[Action] = [{"type": "click", **_at(fields)}]
    if fields.flag("clear_before_typing", True):
        actions += [{"type": "key", "keys": "ctrl+a"}, {"type": "key", "keys": "BackSpace"}]
    if text := fields.text("text"):
        actions.append({"type": "type", "text": text})
    return [*actions, {"type": "key", "keys": "Return"}] if fields.flag("press_enter", True) else actions


def _scroll_at(fields: Fields, screen: Sequence[int]) -> list[Action]:
    across, down = DIRECTIONS[fields.choice("direction", tuple(DIRECTIONS))]
    side = screen[2] if across else screen[3]
    count = notches(round(fields.whole("magnitude", MAGNITUDE) * side / GRID))
    return [{"type": "scroll", "dx": across * count, "dy": down * count, **_at(fields)}]


def _scroll_document(fields: Fields) -> list[Action]:
    direction = fields.choice("direction", tuple(DIRECTIONS))
    if direction in PAGES:
        return [{"type": "key", "keys": PAGES[direction]}]
    middle = {"x": GRID // 2, "y": GRID // 2, "space": "norm1000"}
    return [{"type": "scroll", "dx": 5 * DIRECTIONS[direction][0], **middle}]


def _drag(fields: Fields) -> list[Action]:
    path = [_place(fields), _place(fields, "destination_x", "destination_y")]
    return [{"type": "drag", "path": path, "space": "norm1000"}]


READ: Mapping[str, Callable[[Fields], list[Action]]] = {
    "click_at": lambda fields: [{"type": "click", **_at(fields)}],
    "hover_at": lambda fields: [{"type": "move", **_at(fields)}],
    "type_text_at": _type_text_at,
    "key_combination": lambda fields: [{"type": "key", "keys": combination(split(fields.text("keys")))}],
    "scroll_document": _scroll_document,
    "drag_and_drop": _drag,
    "navigate": lambda fields: _visit(fields.text("url")),
    "go_back": lambda _: [{"type": "key", "keys": "alt+Left"}],
    "go_forward": lambda _: [{"type": "key", "keys": "alt+Right"}],
    "wait_5_seconds": lambda _: [{"type": "wait", "ms": 5000}],
}


class Gemini:
    """Answers parts with a `functionCall` by parts with a `functionResponse`, both as they stand in JSON."""

    def __init__(
        self,
        desktop: Desktop,
        most: int | str = LIMIT,
        confirm: Confirm | None = None,
        browser: Sequence[str] | None = None,
        search: str = SEARCH,
    ) -> None:
        self._loop = desktop._loop
        self._twin = AsyncGemini(desktop._twin, most, confirm, browser, search)

    tool = waits(AsyncGemini.tool)
    run = waits(AsyncGemini.run)
    picture = waits(AsyncGemini.picture)
