"""The actions of a batch: read from the request before anything is done, then done one after the other."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from deskyard.computer.answers.screen import Effect
from deskyard.computer.display.acting.hands import BUTTONS, Hands
from deskyard.computer.display.acting.keysyms import is_typed, of_combination, of_key
from deskyard.computer.display.acting.read_back import ReadBack
from deskyard.computer.display.spaces import Point, Spaces, point_of, space_of
from deskyard.computer.fields import Fields, whole, wrong

MOST_ACTIONS = 100
MOST_TEXT = 20_000
MOST_PATH = 500
MOST_CLICKS = 10
MOST_NOTCHES = 100
MOST_HOLD_MS = 30_000
SECRET_KINDS = ("type", "paste")


@dataclass(frozen=True)
class Tools:
    """The tools that actions are done with; `paste` and `await_event` belong to other parts of the service."""

    hands: Hands
    spaces: Spaces
    paste: Callable[[str, tuple[int, ...]], None]
    await_event: Callable[[Any], Effect]
    read_back: ReadBack


@dataclass(frozen=True)
class Action:
    """One action: what it is, where, and how it is done."""

    kind: str
    path: str
    points: tuple[Point, ...]
    do: Callable[[Tools], Effect | None]
    text: str = ""
    reads: bool = False  # it tells something of the screen


def read(fields: Fields, read_wait: Callable[[Fields], Any]) -> list[Action]:
    """The actions of a request; raises `Problem` for the first that is wrong."""
    items = fields.list("actions", MOST_ACTIONS)
    actions = []
    for index, item in enumerate(items):
        inner = Fields(item, f"{fields.at('actions')}[{index}]")
        kind = inner.choice("type", (*KINDS, "wait"))
        action = _wait(inner, read_wait) if kind == "wait" else KINDS[kind](inner)
        inner.done()
        actions.append(action)
    if (length := sum(len(action.text) for action in actions)) > MOST_TEXT:
        raise wrong(
            "actions", None, f"hold {length} characters, more than {MOST_TEXT}", "send them in several requests"
        )
    return actions


def check_places(actions: list[Action], spaces: Spaces) -> None:
    """Raise `Problem` for a place that is outside its space, before the first action is done."""
    for action in actions:
        for point in action.points:
            spaces.pixel(point)


def _button(fields: Fields) -> int:
    return BUTTONS[fields.choice("button", tuple(BUTTONS), "left")]


def _modifiers(fields: Fields) -> tuple[int, ...]:
    names = fields.list("modifiers", 5, [])
    return tuple(of_key(name, f"{fields.at('modifiers')}[{index}]") for index, name in enumerate(names))


def _optional_point(fields: Fields) -> tuple[Point, ...]:
    if fields.has("x") or fields.has("y") or fields.has("space"):
        return (point_of(fields),)
    return ()


def _move(fields: Fields) -> Action:
    point = point_of(fields)

    def do(tools: Tools) -> None:
        tools.hands.move(tools.spaces.pixel(point))

    return Action("move", fields.path, (point,), do)


def _click(fields: Fields) -> Action:
    points, button, modifiers = _optional_point(fields), _button(fields), _modifiers(fields)
    count = fields.integer("count", 1, MOST_CLICKS, 1)

    def do(tools: Tools) -> None:
        _go(tools, points)
        tools.hands.with_held(modifiers, lambda: tools.hands.click(button, count))

    return Action("click", fields.path, points, do)


def _go(tools: Tools, points: tuple[Point, ...]) -> None:
    for point in points:
        tools.hands.move(tools.spaces.pixel(point))


def _down_or_up(kind: str) -> Callable[[Fields], Action]:
    def read_it(fields: Fields) -> Action:
        if fields.has("key"):
            keysym = of_key(fields.take("key"), fields.at("key"))

            def do_key(tools: Tools) -> None:
                (tools.hands.press_key if kind == "down" else tools.hands.release_key)(keysym)

            return Action(kind, fields.path, (), do_key)
        points, button = _optional_point(fields), _button(fields)

        def do(tools: Tools) -> None:
            _go(tools, points)
            (tools.hands.press_button if kind == "down" else tools.hands.release_button)(button)

        return Action(kind, fields.path, points, do)

    return read_it


def _drag(fields: Fields) -> Action:
    space = space_of(fields.take("space", "screen"), fields.at("space"))
    points = []
    for index, item in enumerate(fields.list("path", MOST_PATH)):
        inner = Fields(item, f"{fields.at('path')}[{index}]")
        points.append(point_of(inner, space))
        inner.done()
    if len(points) < 2:
        raise wrong(fields.at("path"), None, "has 1 place", "give at least 2")
    button, modifiers = _button(fields), _modifiers(fields)

    def do(tools: Tools) -> None:
        path = [tools.spaces.pixel(point) for point in points]
        tools.hands.with_held(modifiers, lambda: tools.hands.drag(button, path))

    return Action("drag", fields.path, tuple(points), do)


def _scroll(fields: Fields) -> Action:
    points, modifiers = _optional_point(fields), _modifiers(fields)
    across, down = (fields.integer(name, -MOST_NOTCHES, MOST_NOTCHES, 0) for name in ("dx", "dy"))
    if not across and not down:
        raise wrong(
            fields.at("dy"), 0, "turns nothing", "give dx or dy: notches of the wheel, down and right are positive"
        )

    def do(tools: Tools) -> None:
        _go(tools, points)
        tools.hands.with_held(modifiers, lambda: tools.hands.scroll(across, down))

    return Action("scroll", fields.path, points, do)


def _key(fields: Fields) -> Action:
    keys = of_combination(fields.take("keys"), fields.at("keys"))
    count = fields.integer("count", 1, 100, 1)

    def do(tools: Tools) -> None:
        for _ in range(count):
            tools.hands.combination(keys)

    return Action("key", fields.path, (), do)


def _hold(fields: Fields) -> Action:
    keys = of_combination(fields.take("keys"), fields.at("keys"))
    seconds = fields.integer("ms", 1, MOST_HOLD_MS) / 1000

    def do(tools: Tools) -> None:
        tools.hands.combination(keys, seconds)

    return Action("hold", fields.path, (), do)


def _text(fields: Fields) -> str:
    text = fields.text("text", most=MOST_TEXT)
    for index, character in enumerate(text):
        if not is_typed(character):
            reason = f"has the control character U+{ord(character):04X} at {index}"
            raise wrong(fields.at("text"), None, reason, "leave it out, or press a key for it; new lines are \\n")
    return text


def _type(fields: Fields) -> Action:
    text = _text(fields)
    where, reads = fields.at("text"), fields.flag("read_back", False)

    def do(tools: Tools) -> Effect:
        # It takes longer than to type a word, so that nothing is asked unless it is wanted.
        field = tools.read_back.before(tools.hands.reader()) if reads else None
        tools.hands.type(text, where)
        did: Effect = {"characters": len(text)}
        if reads:
            did["read_back"] = tools.read_back.outcome(field, text)
        return did

    return Action("type", fields.path, (), do, text, reads)


def _paste(fields: Fields) -> Action:
    text = _text(fields)
    keys = of_combination(fields.take("keys", "ctrl+v"), fields.at("keys"))
    return Action("paste", fields.path, (), lambda tools: tools.paste(text, keys), text)


def _wait(fields: Fields, read_wait: Callable[[Fields], Any]) -> Action:
    if fields.has("ms"):
        seconds = whole(fields.take("ms"), fields.at("ms"), 0, MOST_HOLD_MS) / 1000

        def do(tools: Tools) -> None:
            tools.hands.pause(seconds)

        return Action("wait", fields.path, (), do)
    asked = read_wait(fields)
    return Action("wait", fields.path, (), lambda tools: tools.await_event(asked))


KINDS: Mapping[str, Callable[[Fields], Action]] = {
    "move": _move,
    "click": _click,
    "down": _down_or_up("down"),
    "up": _down_or_up("up"),
    "drag": _drag,
    "scroll": _scroll,
    "key": _key,
    "hold": _hold,
    "type": _type,
    "paste": _paste,
}
