"""A driver for Anthropic's computer-use tools: those of 2024 and 2025, and `computer_toolset_20260801`.

The former are one tool `computer` whose input has an `action`, and are answered with a picture each; of the latter each
action is a tool of its own, and only `screenshot` and `zoom` show something.
"""

from collections.abc import Callable, Mapping
from typing import Any

from deskyard_sdk.desktop import AsyncDesktop
from deskyard_sdk.drivers.calls import Fields, combination, split, wrong
from deskyard_sdk.drivers.driver import Action, AsyncDriver, at, base64_of, explained, pauses
from deskyard_sdk.errors import DesktopError
from deskyard_sdk.forms import Picture
from deskyard_sdk.sync import Desktop, waits

TOOL = "computer"
LIMIT = "anthropic-1568"
CLICKS = {
    "left_click": ("left", 1),
    "right_click": ("right", 1),
    "middle_click": ("middle", 1),
    "double_click": ("left", 2),
    "triple_click": ("left", 3),
}
DIRECTIONS = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}


class AsyncAnthropic(AsyncDriver):
    """Answers `tool_use` blocks with `tool_result` blocks."""

    def __init__(self, desktop: AsyncDesktop, most: int | str = LIMIT) -> None:
        super().__init__(desktop, most)

    async def tool(self, type: str = "computer_20251124") -> dict[str, Any]:
        """The entry for `tools`: the model is told the size of the pictures that it gets, not of the screen."""
        if "toolset" in type:
            return {"type": type}
        width, height = (await self.seen()).size
        return {"type": type, "name": TOOL, "display_width_px": width, "display_height_px": height}

    async def run(self, call: Mapping[str, Any]) -> dict[str, Any]:
        """The `tool_result` for a `tool_use`; a refusal is one, too, and says what to do."""
        result: dict[str, Any] = {"type": "tool_result", "tool_use_id": call["id"]}
        if call.get("toolset_name"):
            result["toolset_name"] = call["toolset_name"]
        try:
            content = await self.content(call)
        except DesktopError as error:
            return result | {"is_error": True, "content": [{"type": "text", "text": explained(error)}]}
        return result | {"content": content}

    async def content(self, call: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Do what a call asks and return the content of its result; raises `DesktopError` for what is refused."""
        whole = call["name"] == TOOL and not call.get("toolset_name")
        fields = Fields(call.get("input") or {})
        action = fields.text("action") if whole else str(call["name"])
        if action == "screenshot":
            return [_image(await self.picture())]
        if action == "zoom":
            return [_image(await self._zoom(fields))]
        if action == "cursor_position":
            return [{"type": "text", "text": await self._position()}]
        if action not in READ:
            known = ", ".join([*READ, "screenshot", "zoom", "cursor_position"])
            raise wrong("action", action, "is not known", f"use one of: {known}")
        shown = await self.do(READ[action](fields, action))
        return [_image(shown)] if whole else [{"type": "text", "text": f"{action}: done."}]

    async def _zoom(self, fields: Fields) -> Picture:
        left, top, right, bottom = fields.wholes("region", 4)
        return await self._desktop.screen(**self._look, region=await self.region(left, top, right, bottom))

    async def _position(self) -> str:
        x, y = await self.pointer()
        return f"X={x},Y={y}"


def _image(picture: Picture) -> dict[str, Any]:
    source = {"type": "base64", "media_type": f"image/{picture.format}", "data": base64_of(picture)}
    return {"type": "image", "source": source}


def _place(fields: Fields) -> Action:
    return at(*fields.wholes("coordinate", 2)) if fields.has("coordinate") else {}


def _held(fields: Fields) -> Action:
    return {"modifiers": split(fields.text("text"))} if fields.has("text") and fields.text("text") else {}


def _keys(fields: Fields) -> str:
    return combination(split(fields.text("text")))


def _click(fields: Fields, action: str) -> list[Action]:
    button, count = CLICKS[action]
    return [{"type": "click", "button": button, "count": count, **_place(fields), **_held(fields)}]


def _drag(fields: Fields, _: str) -> list[Action]:
    end = at(*fields.wholes("coordinate", 2))
    if not fields.has("start_coordinate"):
        return [{"type": "down"}, {"type": "move", **end}, {"type": "up"}]
    x, y = fields.wholes("start_coordinate", 2)
    path = [{"x": x, "y": y}, {"x": end["x"], "y": end["y"]}]
    return [{"type": "drag", "path": path, "space": end["space"], **_held(fields)}]


def _scroll(fields: Fields, _: str) -> list[Action]:
    across, down = DIRECTIONS[fields.choice("scroll_direction", tuple(DIRECTIONS))]
    count = fields.whole("scroll_amount")
    turned = {"dx": across * count, "dy": down * count}
    return [{"type": "scroll", **turned, **_place(fields), **_held(fields)}]


def _key(fields: Fields, _: str) -> list[Action]:
    return [{"type": "key", "keys": _keys(fields), "count": fields.whole("repeat", 1)}]


def _hold(fields: Fields, _: str) -> list[Action]:
    return [{"type": "hold", "keys": _keys(fields), "ms": max(1, int(fields.seconds("duration") * 1000))}]


def _wait(fields: Fields, _: str) -> list[Action]:
    return pauses(int(fields.seconds("duration") * 1000))


READ: Mapping[str, Callable[[Fields, str], list[Action]]] = {
    **dict.fromkeys(CLICKS, _click),
    "mouse_move": lambda fields, _: [{"type": "move", **at(*fields.wholes("coordinate", 2))}],
    "left_mouse_down": lambda fields, _: [{"type": "down", **_place(fields)}],
    "left_mouse_up": lambda fields, _: [{"type": "up", **_place(fields)}],
    "left_click_drag": _drag,
    "scroll": _scroll,
    "key": _key,
    "hold_key": _hold,
    "type": lambda fields, _: [{"type": "type", "text": fields.text("text")}],
    "wait": _wait,
}


class Anthropic:
    """Answers `tool_use` blocks with `tool_result` blocks."""

    def __init__(self, desktop: Desktop, most: int | str = LIMIT) -> None:
        self._loop, self._twin = desktop._loop, AsyncAnthropic(desktop._twin, most)

    tool = waits(AsyncAnthropic.tool)
    run = waits(AsyncAnthropic.run)
    content = waits(AsyncAnthropic.content)
    picture = waits(AsyncAnthropic.picture)
