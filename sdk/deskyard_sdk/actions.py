"""Actions for `act`, made by their names; a place may be in a picture's space."""

from collections.abc import Sequence
from typing import Any, Literal

Action = dict[str, Any]
Button = Literal["left", "middle", "right", "back", "forward"]


def move(x: int, y: int, space: str = "screen") -> Action:
    """Move the pointer."""
    return {"type": "move", **_place(x, y, space)}


def click(
    x: int | None = None,
    y: int | None = None,
    button: Button = "left",
    count: int = 1,
    space: str = "screen",
    modifiers: Sequence[str] = (),
) -> Action:
    """Click at a place, or where the pointer is; the modifiers, such as `ctrl`, are held meanwhile."""
    return {"type": "click", **_place(x, y, space), "button": button, "count": count, **_held(modifiers)}


def down(x: int | None = None, y: int | None = None, button: Button = "left", space: str = "screen") -> Action:
    """Press a button at a place, or where the pointer is, and hold it until `up`."""
    return {"type": "down", **_place(x, y, space), "button": button}


def up(x: int | None = None, y: int | None = None, button: Button = "left", space: str = "screen") -> Action:
    """Let a button go at a place, or where the pointer is."""
    return {"type": "up", **_place(x, y, space), "button": button}


def key_down(key: str) -> Action:
    """Press a key and hold it until `key_up`."""
    return {"type": "down", "key": key}


def key_up(key: str) -> Action:
    """Let a key go."""
    return {"type": "up", "key": key}


def drag(
    *path: tuple[int, int], button: Button = "left", space: str = "screen", modifiers: Sequence[str] = ()
) -> Action:
    """Drag along a path."""
    places = [{"x": x, "y": y} for x, y in path]
    return {"type": "drag", "path": places, "button": button, "space": space, **_held(modifiers)}


def scroll(
    x: int | None = None,
    y: int | None = None,
    dx: int = 0,
    dy: int = 0,
    space: str = "screen",
    modifiers: Sequence[str] = (),
) -> Action:
    """Turn the wheel at a place, or where the pointer is; down and right are positive."""
    return {"type": "scroll", **_place(x, y, space), "dx": dx, "dy": dy, **_held(modifiers)}


def key(keys: str, count: int = 1) -> Action:
    """Press keys together, such as ctrl+s."""
    return {"type": "key", "keys": keys, "count": count}


def hold(keys: str, seconds: float) -> Action:
    """Hold keys together for so many seconds, 30 at most."""
    return {"type": "hold", "keys": keys, "ms": int(seconds * 1000)}


def type_text(text: str, read_back: bool = False) -> Action:
    """Type a text; with `read_back` its result says whether it stands there: `same`, `different` or `unknown`."""
    return {"type": "type", "text": text} | ({"read_back": True} if read_back else {})


def paste(text: str, keys: str = "ctrl+v") -> Action:
    """Paste a text, by the keys that the program takes for that."""
    return {"type": "paste", "text": text, "keys": keys}


def wait(event: str, **about: Any) -> Action:
    """Wait among the actions for what comes soon: `within_ms`, `match`, `quiet_ms`, `region` say what and how long."""
    return {"type": "wait", "event": event, **about}


def pause(seconds: float) -> Action:
    """Wait among the actions for so many seconds, 30 at most."""
    return {"type": "wait", "ms": int(seconds * 1000)}


def _place(x: int | None, y: int | None, space: str) -> Action:
    """A place; where the pointer is if neither is given, so that half a place is refused."""
    given = {name: value for name, value in (("x", x), ("y", y)) if value is not None}
    return {**given, "space": space} if given else {}


def _held(modifiers: Sequence[str]) -> Action:
    return {"modifiers": list(modifiers)} if modifiers else {}
