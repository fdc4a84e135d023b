"""Actions for `act`, made by their names; a place may be in a picture's space."""

from typing import Any

Action = dict[str, Any]


def move(x: int, y: int, space: str = "screen") -> Action:
    """Move the pointer."""
    return {"type": "move", "x": x, "y": y, "space": space}


def click(x: int, y: int, button: str = "left", count: int = 1, space: str = "screen") -> Action:
    """Click at a place."""
    return {"type": "click", "x": x, "y": y, "button": button, "count": count, "space": space}


def drag(*path: tuple[int, int], button: str = "left", space: str = "screen") -> Action:
    """Drag along a path."""
    return {"type": "drag", "path": [{"x": x, "y": y} for x, y in path], "button": button, "space": space}


def scroll(x: int, y: int, dx: int = 0, dy: int = 0, space: str = "screen") -> Action:
    """Turn the wheel at a place; down and right are positive."""
    return {"type": "scroll", "x": x, "y": y, "dx": dx, "dy": dy, "space": space}


def key(keys: str, count: int = 1) -> Action:
    """Press keys together, such as ctrl+s."""
    return {"type": "key", "keys": keys, "count": count}


def type_text(text: str, read_back: bool = False) -> Action:
    """Type a text; with `read_back` its result says whether it stands there: `same`, `different` or `unknown`."""
    return {"type": "type", "text": text} | ({"read_back": True} if read_back else {})


def paste(text: str) -> Action:
    """Paste a text."""
    return {"type": "paste", "text": text}
