"""A driver for the predefined functions of Gemini's computer-use tool, those up to 2025 and those of its newer models.

Their places are on a grid of 1000. The newer ones have names of their own for all but what browsers do.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from deskyard_sdk.desktop import AsyncDesktop
from deskyard_sdk.drivers.calls import Fields, combination, split, wrong
from deskyard_sdk.drivers.driver import Action, AsyncDriver, Confirm, base64_of, explained, pauses
from deskyard_sdk.drivers.openai import notches
from deskyard_sdk.errors import DesktopError
from deskyard_sdk.forms import Picture
from deskyard_sdk.sync import Desktop, waits

LIMIT = 1600
GRID = 1000
# What a scroll without a magnitude is, in the grid's units.
MAGNITUDE = 800
# And what a scroll of the newer models is, in pixels.
PIXELS = 300
BROWSERS = ("chrom", "firefox")
SEARCH = "https://www.google.com"
DIRECTIONS = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}
PAGES = {"up": "Page_Up", "down": "Page_Down"}
BROWSER_SECONDS = 60
CLICKS = {
    "click_at": ("left", 1),
    "click": ("left", 1),
    "double_click": ("left", 2),
    "triple_click": ("left", 3),
    "middle_click": ("middle", 1),
    "right_click": ("right", 1),
}
# Its names of keys that a desktop has by another name.
KEYS = {
    "add": "KP_Add",
    "decimal": "KP_Decimal",
    "divide": "KP_Divide",
    "equals": "equal",
    "multiply": "KP_Multiply",
    "separator": "comma",
    "subtract": "KP_Subtract",
}
SHOWS, SCROLLS = ("open_web_browser", "take_screenshot"), ("scroll", "scroll_at")


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
        if name in SHOWS:
            return await self.picture()
        if name == "search":
            return await self.do(_visit(self._search))
        if name in SCROLLS:
            return await self.do(_scroll(name, fields, (await self.seen()).region))
        if name not in READ:
            known = ", ".join([*READ, *SCROLLS, *SHOWS, "search"])
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


def _click(name: str) -> Callable[[Fields], list[Action]]:
    button, count = CLICKS[name]
    return lambda fields: [{"type": "click", "button": button, "count": count, **_at(fields)}]


def _key(name: str) -> str:
    return KEYS.get(name.strip().lower(), name)


def _pressed(names: Sequence[str]) -> list[Action]:
    return [{"type": "key", "keys": combination([_key(name) for name in names])}]


def _hotkey(fields: Fields) -> list[Action]:
    if not (names := fields.words("keys")):
        raise wrong(fields.at("keys"), None, "is empty", "name the keys")
    return _pressed(names)


def _written(fields: Fields, enter: bool) -> list[Action]:
    text = fields.text("text")
    actions: list[Action] = [{"type": "type", "text": text}] if text else []
    return [*actions, *_pressed(["Return"])] if fields.flag("press_enter", enter) else actions


def _type_text_at(fields: Fields) -> list[Action]:
    actions: list[Action] = [{"type": "click", **_at(fields)}]
    if fields.flag("clear_before_typing", True):
        actions += [{"type": "key", "keys": "ctrl+a"}, {"type": "key", "keys": "BackSpace"}]
    return [*actions, *_written(fields, enter=True)]


def _wait(fields: Fields) -> list[Action]:
    return pauses(int(1000 * fields.seconds("seconds", 1)))


def _scroll(name: str, fields: Fields, screen: Sequence[int]) -> list[Action]:
    across, down = DIRECTIONS[fields.choice("direction", tuple(DIRECTIONS))]
    side = screen[2] if across else screen[3]
    # The newer models say how far in pixels, the others and Google's own agent in the grid's units.
    if name == "scroll_at" or fields.has("magnitude"):
        count = notches(round(fields.whole("magnitude", MAGNITUDE) * side / GRID))
    else:
        count = notches(fields.whole("magnitude_in_pixels", PIXELS))
    return [{"type": "scroll", "dx": across * count, "dy": down * count, **_at(fields)}]


def _scroll_document(fields: Fields) -> list[Action]:
    direction = fields.choice("direction", tuple(DIRECTIONS))
    if direction in PAGES:
        return [{"type": "key", "keys": PAGES[direction]}]
    middle = {"x": GRID // 2, "y": GRID // 2, "space": "norm1000"}
    return [{"type": "scroll", "dx": 5 * DIRECTIONS[direction][0], **middle}]


def _drag(fields: Fields) -> list[Action]:
    # The newer models' documentation and Google's own agent do not agree on the names.
    newer = fields.has("start_x")
    begin = _place(fields, "start_x", "start_y") if newer else _place(fields)
    end = _place(fields, "end_x", "end_y") if newer else _place(fields, "destination_x", "destination_y")
    return [{"type": "drag", "path": [begin, end], "space": "norm1000"}]


def _held(type: str) -> Callable[[Fields], list[Action]]:
    return lambda fields: [{"type": type, "key": _key(fields.text("key"))}]


READ: Mapping[str, Callable[[Fields], list[Action]]] = {
    **{name: _click(name) for name in CLICKS},
    **dict.fromkeys(("hover_at", "move"), lambda fields: [{"type": "move", **_at(fields)}]),
    "mouse_down": lambda fields: [{"type": "down", **_at(fields)}],
    "mouse_up": lambda fields: [{"type": "up", **_at(fields)}],
    "type_text_at": _type_text_at,
    "type": lambda fields: _written(fields, enter=False),
    "key_combination": lambda fields: _pressed(split(fields.text("keys"))),
    "hotkey": _hotkey,
    "press_key": lambda fields: _pressed([fields.text("key")]),
    "key_down": _held("down"),
    "key_up": _held("up"),
    "scroll_document": _scroll_document,
    "drag_and_drop": _drag,
    "navigate": lambda fields: _visit(fields.text("url")),
    "go_back": lambda _: [{"type": "key", "keys": "alt+Left"}],
    "go_forward": lambda _: [{"type": "key", "keys": "alt+Right"}],
    "wait_5_seconds": lambda _: pauses(5000),
    "wait": _wait,
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
