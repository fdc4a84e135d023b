"""The calls of the Python SDK held against the OpenAPI document of a desktop's service, both ways."""

import asyncio
import inspect
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from deskyard_sdk import (
    AsyncDesktop,
    AsyncProcess,
    accessibility,
    actions,
    desktop,
    devtools,
    forms,
    recordings,
    streams,
)
from deskyard_sdk.files import AsyncFiles
from deskyard_sdk.processes import AsyncProcesses

from tests.support.answers_described import DOCUMENT
from tests.unit.sdk.asked import Asked, NotingDoor, never_given, objections, operations, sample

PARTS: Mapping[str, type] = {
    "": AsyncDesktop,
    "files": AsyncFiles,
    "processes": AsyncProcesses,
    "process": AsyncProcess,
    "windows": desktop.AsyncWindows,
    "accessibility": accessibility.AsyncAccessibility,
    "streams": streams.AsyncStreams,
    "recordings": recordings.AsyncRecordings,
    "devtools": devtools.AsyncDevtools,
}
# They ask a desktop for nothing.
ASK_NOTHING = {"connect", "close", "devtools.address"}
PLACES = {"application": "a", "window": 7, "node": "n", "hidden": True, "within": 2}
# Each call of the SDK, with all of its arguments.
CALLS: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("run", [["ls"]], {"cwd": "a", "environment": {"A": "b"}, "stdin": "x", "timeout": 1}),
    ("applications", [], {}),
    ("launch", ["a", "b"], {"wait": "ready", "within": 2}),
    ("open", ["a"], {"wait": "nothing", "within": 2}),
    ("launch_command", ["a"], {"wait": "window", "within": 2}),
    ("act", [actions.key("a")], {"picture": {"format": "png"}, "wait": {"event": "screen.settled"}, "id": "i"}),
    ("screen", [], {"region": (1, 2, 3, 4), "format": "png", "max": 9, "scale": 0.5, "cursor": False}),
    ("screen", [], {"window": 7, "if_changed": 3}),
    ("events", [["window.appeared"], 4], {}),
    ("wait_for", ["region.changed"], {"quiet": 1, "region": [1, 2, 3, 4], "match": {"a": 1}, "after": 2, "within": 3}),
    ("wait_for", [], {"window": "title", "kind": "normal"}),
    ("last_event", [], {}),
    ("pointer", [], {}),
    ("drive", [], {}),
    ("hand_over", ["person"], {}),
    ("is_private", [], {}),
    ("clipboard", [], {}),
    ("set_clipboard", ["a"], {}),
    ("clipboard_picture", [], {}),
    ("set_clipboard_picture", [b"png"], {}),
    ("files.read", ["a", 1, 2], {}),
    ("files.read_text", ["a"], {}),
    ("files.write", ["a", "b"], {"mode": "0600", "parents": True, "overwrite": False}),
    ("files.download", ["a", "{here}/a"], {}),
    ("files.upload", ["{here}/here", "a", "0600"], {}),
    ("files.list", ["a", 2], {}),
    ("files.stat", ["a"], {}),
    ("files.exists", ["a"], {}),
    ("files.make_directory", ["a", False], {}),
    ("files.move", ["a", "b", True], {}),
    ("files.remove", ["a", True], {}),
    ("files.watch", ["a", True], {}),
    ("files.add_watch", ["a", True], {}),
    ("files.watches", [], {}),
    ("files.remove_watch", ["1"], {}),
    ("processes.run", ["ls"], {"cwd": "a", "environment": {"A": "b"}, "stdin": "x", "timeout": 1}),
    ("processes.start", [["ls"]], {"cwd": "a", "environment": {"A": "b"}, "terminal": (80, 24), "tag": "t"}),
    ("processes.start", ["ls"], {"stdin": True, "tell_output": True}),
    ("processes.list", [], {}),
    ("processes.get", ["1"], {}),
    ("process.refresh", [], {}),
    ("process.output", [1], {}),
    ("process.wait", [], {}),
    ("process.write", ["a", True], {}),
    ("process.signal", ["INT"], {}),
    ("process.resize", [80, 24], {}),
    ("process.kill", [], {}),
    ("process.attach", [1], {}),
    ("windows.list", [], {}),
    ("windows.do", [7, "move"], {"x": 1, "y": 2, "width": 3, "height": 4}),
    ("windows.focus", [7], {}),
    ("windows.close", [7], {}),
    ("windows.tile", [7, 8], {"arrangement": "rows"}),
    ("accessibility.tree", [], {**PLACES, "depth": 1, "most": 2, "details": True}),
    ("accessibility.find", [], {**PLACES, "role": "r", "name": "n", "exact": True, "states": ["s"], "most": 2}),
    ("accessibility.invoke", ["n", "press", 2], {}),
    ("accessibility.write", ["n", "a", 2], {}),
    ("accessibility.set_value", ["n", 1.5, 2], {}),
    ("accessibility.focus", ["n", 2], {}),
    ("streams.create", [7, (1, 2, 3, 4)], {}),
    ("streams.list", [], {}),
    ("streams.get", ["1"], {}),
    ("streams.delete", ["1"], {}),
    ("streams.open", ["1"], {}),
    ("recordings.state", [], {}),
    ("recordings.list", ["3"], {}),
    ("recordings.get", ["1"], {}),
    ("recordings.frames", ["1", 1, 2], {}),
    ("recordings.actions", ["1"], {}),
    ("recordings.delete", ["1"], {}),
    ("recordings.download", ["{here}", "3"], {}),
    ("devtools.start", [2], {}),
    ("devtools.state", [], {}),
    ("devtools.stop", [], {}),
    ("devtools.open", ["1"], {}),
    ("devtools.open", [None], {}),
]  # fmt: skip
NOT_CALLED = {"openEvents": "the events of `events`, which come as server-sent events there"}
NOT_GIVEN = {
    ("createStream", "screen"): "what is given with neither window nor region",
    ("run", "encoding"): "bytes are had of `start` and `output`",
}


def calls_of(kind: type) -> set[str]:
    """The names of what a part of the SDK can be asked."""
    return {name for name, _ in inspect.getmembers(kind, inspect.isroutine) if not name.startswith("_")}


def qualified(part: str, names: set[str]) -> set[str]:
    return {f"{part}.{name}".lstrip(".") for name in names}


async def ask(door: NotingDoor, name: str, given: list[Any], more: dict[str, Any]) -> None:
    """Make a call, and take all that it gives."""
    part, _, method = name.rpartition(".")
    info = forms.process_info(sample({"$ref": "#/components/schemas/Process"}))
    owner: Any = AsyncProcess(door, info) if part == "process" else AsyncDesktop(door)
    found = getattr(getattr(owner, part, owner), method)(*given, **more)
    if inspect.isasyncgen(found):
        async for _ in found:
            pass
    else:
        await found


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Asked]]:
    """What each call asks of the service."""
    here = tmp_path_factory.mktemp("here")
    (here / "here").write_text("x")

    async def all_of_them() -> dict[str, list[Asked]]:
        found: dict[str, list[Asked]] = defaultdict(list)
        for name, given, more in CALLS:
            door = NotingDoor()
            await ask(door, name, [placed(value, here) for value in given], more)
            await door.close()
            found[name] += door.asked
        return found

    return asyncio.run(all_of_them())


def placed(value: Any, here: Path) -> Any:
    return value.format(here=here) if isinstance(value, str) else value


def test_each_method_is_called_here_with_each_of_its_arguments() -> None:
    offered = {name for part, kind in PARTS.items() for name in qualified(part, calls_of(kind))}
    assert {name for name, *_ in CALLS} == offered - ASK_NOTHING
    given: dict[str, set[str]] = defaultdict(set)
    for name, positional, named in CALLS:
        part, _, method = name.rpartition(".")
        signature = inspect.signature(getattr(PARTS[part], method))
        given[name] |= set(signature.bind(None, *positional, **named).arguments)
        assert given[name] <= set(signature.parameters)
    for name, arguments in given.items():
        part, _, method = name.rpartition(".")
        assert arguments == set(inspect.signature(getattr(PARTS[part], method)).parameters), name


def test_each_call_asks_for_an_operation_as_it_is_described(asked: dict[str, list[Asked]]) -> None:
    for name, requests in asked.items():
        assert requests, name
        for request in requests:
            assert list(objections(request, DOCUMENT)) == [], name


def test_each_operation_has_a_method(asked: dict[str, list[Asked]]) -> None:
    called = {request.name for requests in asked.values() for request in requests}
    assert set(operations(DOCUMENT)) - called == set(NOT_CALLED)


def test_each_field_of_a_request_can_be_given(asked: dict[str, list[Asked]]) -> None:
    requests = [request for requests in asked.values() for request in requests]
    assert never_given(DOCUMENT, requests, NOT_CALLED) == set(NOT_GIVEN)
