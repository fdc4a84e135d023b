"""Measures calls of the service beside E2B's way, which starts xdotool and scrot for each call in a login shell."""

import itertools
import shlex
import subprocess
import time
from collections.abc import Callable

from deskyard.errors import SiteError
from deskyard.lab.computer import figures
from deskyard.lab.computer.figures import Figure
from deskyard.lab.computer.screen import Screen, Service, running

ROUNDS, WINDOWS = 20, 5
PHRASE = "The quick brown fox jumps over the lazy dog. "
TEXT = (PHRASE * 23)[:1000]
# What E2B's desktop package gives xdotool: so many characters a call, and so many milliseconds a key.
CHUNK, DELAY_MS = 25, 75

Call = Callable[[], object]


def measure(on: Screen) -> list[Figure]:
    """Every call, both ways on the same display."""
    typing_window(on.service)
    pictures = [_pictures(on, form, most) for form, most in (("jpeg", 15.0), ("png", 30.0))]
    return [*_inputs(on), *pictures, _unchanged(on), _launches(on)]


def typing_window(service: Service) -> None:
    """Open a window that takes what is typed and shows none of it."""
    last = service.ask("/v1/drive")["event"]
    service.ask("/v1/processes", {"command": ["xterm", "-e", "sh", "-c", "stty -echo; cat >/dev/null"]})
    service.ask("/v1/wait", {"event": "window.appeared", "match": {"class": "xterm"}, "after": last})


def milliseconds(call: Call) -> float:
    """How long a call takes."""
    started = time.monotonic()
    call()
    return (time.monotonic() - started) * 1000


def _inputs(on: Screen) -> list[Figure]:
    def act(**action: object) -> Call:
        return lambda: on.service.ask("/v1/act", {"actions": [action]})

    places = itertools.cycle(range(300, 340))

    def pointed(*then: str) -> Call:
        # With --sync it waits for a movement: to where the pointer is already, for ever.
        return lambda: _tool(on, "xdotool", "mousemove", "--sync", str(next(places)), "200", *then)

    def typed() -> None:
        for start in range(0, len(TEXT), CHUNK):
            _tool(on, "xdotool", "type", "--delay", str(DELAY_MS), "--", TEXT[start : start + CHUNK])

    typing = f"{len(TEXT)} characters"
    return [
        _both("click", act(type="click", x=300, y=200), pointed("click", "1"), most=2.0),
        _both("move", act(type="move", x=310, y=210), pointed(), most=2.0),
        _both("key", act(type="key", keys="a"), lambda: _tool(on, "xdotool", "key", "a"), most=2.0),
        # Theirs takes more than a minute, each time alike.
        figures.waits(typing, _times(act(type="type", text=TEXT), 5), [milliseconds(typed)], most=1000.0),
    ]


def _pictures(on: Screen, form: str, most: float) -> Figure:
    name = f"screenshot, {form.upper()}"
    return _both(name, lambda: on.service.ask(f"/v1/screen?format={form}"), lambda: _shot(on), most=most)


def _unchanged(on: Screen) -> Figure:
    """A screenshot of a screen that looks as the picture that the client has already."""
    asked = {"actions": [{"type": "move", "x": 5, "y": 5}], "return": {}}
    seen = on.service.ask("/v1/act", asked)["picture"]["state"]

    def ours() -> None:
        if on.service.ask(f"/v1/screen?if_changed={seen}") is not None:
            raise SiteError("screen", None, "changed while it was measured", "run it again")

    return _both("screenshot, unchanged", ours, lambda: _shot(on), most=3.0)


def _shot(on: Screen) -> bytes:
    path = on.folder / "shot.png"
    _tool(on, "scrot", "--pointer", "--overwrite", str(path))
    return path.read_bytes()


def _launches(on: Screen) -> Figure:
    def ours() -> None:
        last = on.service.ask("/v1/drive")["event"]
        process = on.service.ask("/v1/processes", {"command": ["xterm", "-T", "ours"]})
        on.service.ask("/v1/wait", {"event": "window.appeared", "match": {"title": "ours"}, "after": last})
        on.service.ask(f"/v1/processes/{process['id']}", method="DELETE")

    def theirs() -> None:
        with running(["xterm", "-T", "theirs"], on.env):
            _tool(on, "xdotool", "search", "--sync", "--onlyvisible", "--name", "theirs")

    return figures.waits("window known after its launch", _times(ours, WINDOWS), _times(theirs, WINDOWS))


def _tool(on: Screen, *argv: str) -> None:
    """Run a command as E2B's service in a sandbox starts whatever its package asks for."""
    shell = ["/bin/bash", "-l", "-c", shlex.join(argv)]
    subprocess.run(shell, env=on.env, check=True, capture_output=True, timeout=120)


def _both(name: str, ours: Call, theirs: Call, *, most: float | None = None) -> Figure:
    return figures.waits(name, _times(ours, ROUNDS), _times(theirs, ROUNDS), most=most)


def _times(call: Call, rounds: int) -> list[float]:
    call()
    return [milliseconds(call) for _ in range(rounds)]
