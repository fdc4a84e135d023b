"""A driver for OpenAI's computer tools: `computer`, whose calls hold several actions, and `computer_use_preview`."""

from collections.abc import Callable, Mapping
from typing import Any

from deskyard_sdk.desktop import AsyncDesktop
from deskyard_sdk.drivers.calls import Fields, combination, wrong
from deskyard_sdk.drivers.driver import Action, AsyncDriver, Confirm, at, base64_of, explained
from deskyard_sdk.errors import DesktopError
from deskyard_sdk.forms import Picture
from deskyard_sdk.sync import Desktop, waits

LIMIT = 1600
BUTTONS = {"left": "left", "right": "right", "wheel": "middle", "back": "back", "forward": "forward"}
# What a notch of the wheel scrolls in browsers.
NOTCH = 100
# The action `wait` names no time.
WAIT_MS = 1000


class AsyncOpenAI(AsyncDriver):
    """Answers `computer_call` items with `computer_call_output` items; is an `AsyncComputerDriver` of OpenAI's, too."""

    def __init__(self, desktop: AsyncDesktop, most: int | str = LIMIT, confirm: Confirm | None = None) -> None:
        super().__init__(desktop, most, confirm)

    async def tool(self, type: str = "computer") -> dict[str, Any]:
        """The entry for `tools`; the older one tells the model the size of the pictures that it gets."""
        if type == "computer":
            return {"type": type}
        width, height = (await self.seen()).size
        return {"type": type, "environment": "linux", "display_width": width, "display_height": height}

    async def run(self, call: Mapping[str, Any]) -> dict[str, Any]:
        """The `computer_call_output` for a `computer_call`; raises `DesktopError`: a refusal has no place in it."""
        checks = call.get("pending_safety_checks") or []
        if checks:
            self.agreed(call)
        asked = call.get("actions") or ([call["action"]] if call.get("action") else [])
        actions: list[Action] = []
        for index, action in enumerate(asked):
            fields = Fields(action, f"actions[{index}]")
            actions += READ[fields.choice("type", tuple(READ))](fields)
        shown = await self.do(actions) if actions else await self.picture()
        return _output(call, shown) | ({"acknowledged_safety_checks": list(checks)} if checks else {})

    async def answer(self, call: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The items to send back: the output, and after a refusal a message that says why and what to do."""
        try:
            return [await self.run(call)]
        except DesktopError as error:
            shown = await self.picture()
            text = f"The call {call['call_id']} was refused: {explained(error)}"
            message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
            return [_output(call, shown), message]

    async def perform(self, action: Any) -> None:
        """Do one action, as a mapping or as the object of OpenAI's package."""
        given = action if isinstance(action, Mapping) else action.to_dict()
        await self.run({"call_id": "", "actions": [given]})

    # As `openai.lib.computer` wants it of a driver: its loop can be used instead of one's own.
    click = double_click = drag = keypress = move = scroll = type = wait = perform

    async def screenshot(self) -> dict[str, Any]:
        """The picture as it stands in an output."""
        return _screenshot(await self.picture())


def _screenshot(shown: Picture) -> dict[str, Any]:
    url = f"data:image/{shown.format};base64,{base64_of(shown)}"
    return {"type": "computer_screenshot", "image_url": url}


def _output(call: Mapping[str, Any], shown: Picture) -> dict[str, Any]:
    return {"type": "computer_call_output", "call_id": call["call_id"], "output": _screenshot(shown)}


def _place(fields: Fields) -> Action:
    return at(fields.whole("x"), fields.whole("y"))


def _held(fields: Fields) -> Action:
    return {"modifiers": keys} if (keys := fields.words("keys")) else {}


def _click(fields: Fields) -> list[Action]:
    button = BUTTONS[fields.choice("button", tuple(BUTTONS))]
    return [{"type": "click", "button": button, **_place(fields), **_held(fields)}]


def _drag(fields: Fields) -> list[Action]:
    path = [{"x": place.whole("x"), "y": place.whole("y")} for place in fields.objects("path")]
    return [{"type": "drag", "path": path, "space": at(0, 0)["space"], **_held(fields)}]


def _move(fields: Fields) -> list[Action]:
    keys = fields.words("keys")
    down: list[Action] = [{"type": "down", "key": key} for key in keys]
    return [*down, {"type": "move", **_place(fields)}, *({"type": "up", "key": key} for key in reversed(keys))]


def _scroll(fields: Fields) -> list[Action]:
    across, down = notches(fields.whole("scroll_x", 0)), notches(fields.whole("scroll_y", 0))
    if not across and not down:
        return [{"type": "move", **_place(fields)}]
    return [{"type": "scroll", "dx": across, "dy": down, **_place(fields), **_held(fields)}]


def notches(pixels: int) -> int:
    """Notches of the wheel for so many pixels: at least one for any."""
    count = max(1, round(abs(pixels) / NOTCH)) if pixels else 0
    return count if pixels > 0 else -count


def _keypress(fields: Fields) -> list[Action]:
    if not (keys := fields.words("keys")):
        raise wrong(fields.at("keys"), None, "is empty", "name the keys")
    return [{"type": "key", "keys": combination(keys)}]


READ: Mapping[str, Callable[[Fields], list[Action]]] = {
    "click": _click,
    "double_click": lambda fields: [{"type": "click", "count": 2, **_place(fields), **_held(fields)}],
    "drag": _drag,
    "move": _move,
    "scroll": _scroll,
    "keypress": _keypress,
    "type": lambda fields: [{"type": "type", "text": fields.text("text")}],
    "wait": lambda _: [{"type": "wait", "ms": WAIT_MS}],
    # The picture comes with the answer in any case.
    "screenshot": lambda _: [],
}


class OpenAI:
    """Answers `computer_call` items with `computer_call_output` items; is a `ComputerDriver` of OpenAI's, too."""

    def __init__(self, desktop: Desktop, most: int | str = LIMIT, confirm: Confirm | None = None) -> None:
        self._loop, self._twin = desktop._loop, AsyncOpenAI(desktop._twin, most, confirm)

    @property
    def size(self) -> tuple[int, int] | None:
        """The size of the picture that the model saw last; None before the first."""
        return self._twin.size

    tool = waits(AsyncOpenAI.tool)
    run = waits(AsyncOpenAI.run)
    answer = waits(AsyncOpenAI.answer)
    picture = waits(AsyncOpenAI.picture)
    click = double_click = drag = keypress = move = scroll = type = wait = waits(AsyncOpenAI.perform)
    screenshot = waits(AsyncOpenAI.screenshot)
