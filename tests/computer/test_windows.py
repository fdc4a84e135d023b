"""Windows: what is listed of them, what the window manager is asked to do with one, and several side by side."""

import contextlib
import select
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import xcffib.xproto as xproto
from deskyard_sdk import Desktop

from deskyard.computer.display.spaces import Rectangle
from deskyard.computer.display.tiling import parts
from deskyard.computer.display.x_server import XConnection
from tests.computer.desktop import HEIGHT, PATIENCE, WIDTH, Person, Recorder, Service, XServer, in_front
from tests.support.mcp_client import Tools, talk_within

PANEL = 60
FILLS_SCREEN = [0, 0, WIDTH, HEIGHT]


@pytest.fixture
def second(server: XServer, service: Service, recorder: Recorder) -> Iterator[Recorder]:
    """One more window, in front of the other."""
    with in_front(server, service) as window:
        yield window


@pytest.fixture
def panel(server: XServer) -> Iterator[None]:
    """A panel at the top of the screen, which the work area leaves out."""
    c = XConnection(server.display)
    c.core.ChangeWindowAttributes(c.root, xproto.CW.EventMask, [xproto.EventMask.PropertyChange])
    dock = c.x.generate_id()
    c.core.CreateWindow(0, dock, c.root, 0, 0, WIDTH, PANEL, 0, 1, 0, 0, [])
    kind, strut = c.atom("_NET_WM_WINDOW_TYPE"), c.atom("_NET_WM_STRUT_PARTIAL")
    c.core.ChangeProperty(0, dock, kind, xproto.Atom.ATOM, 32, 1, [c.atom("_NET_WM_WINDOW_TYPE_DOCK")])
    partial = [0, 0, PANEL, 0, 0, 0, 0, 0, 0, WIDTH - 1, 0, 0]
    c.core.ChangeProperty(0, dock, strut, xproto.Atom.CARDINAL, 32, 12, partial)
    c.core.MapWindow(dock)
    area_until(c, lambda area: area[1] == PANEL)
    yield
    c.core.DestroyWindow(dock)
    area_until(c, lambda area: area[1] == 0)
    c.close()


def area_until(c: XConnection, condition: Callable[[list[int]], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not condition(c.numbers(c.root, "_NET_WORKAREA")):
        assert time.monotonic() < until
        heard(c)


def heard(c: XConnection) -> None:
    """Return when the server says that something has changed, or after a while."""
    if c.poll() is None:
        select.select([c.x.get_file_descriptor()], [], [], 0.5)


def listed(service: Service, window: Recorder) -> dict[str, Any]:
    return next(entry for entry in service.windows() if entry["id"] == window.id)


def do(service: Service, window: Recorder, action: str, **more: Any) -> None:
    answer = service.client.post(f"/v1/windows/{window.id}/{action}", json=more)
    assert answer.status_code == 200, answer.text


def becomes(service: Service, window: Recorder, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The window as it is listed when this is true of it; it is looked at again when something happens."""
    with contextlib.closing(XConnection(service.part.eyes.line.display)) as c:
        mask = xproto.EventMask.PropertyChange | xproto.EventMask.StructureNotify
        for each in (c.root, window.id):
            c.core.ChangeWindowAttributes(each, xproto.CW.EventMask, [mask])
        c.settle()
        until = time.monotonic() + PATIENCE
        while not condition(entry := listed(service, window)):
            assert time.monotonic() < until, entry
            heard(c)
        return entry


def with_frame(entry: dict[str, Any]) -> list[int]:
    """The place of a window with its frame."""
    (x, y, width, height), (left, right, top, bottom) = entry["geometry"], entry["frame"]
    return [x - left, y - top, width + left + right, height + top + bottom]


def test_a_window_is_resized_and_listed_with_its_frame(service: Service, recorder: Recorder) -> None:
    before = service.last()
    do(service, recorder, "resize", width=320, height=240)
    moved = service.wait("window.moved", after=before, match={"id": recorder.id})
    assert moved["geometry"][2:] == [320, 240]
    entry = listed(service, recorder)
    assert (entry["geometry"], entry["kind"], entry["state"]) == (moved["geometry"], "normal", ["focused"])
    assert entry["frame"][2] > 0, "a title bar"


def test_a_window_is_minimised_and_restored(service: Service, recorder: Recorder) -> None:
    do(service, recorder, "minimise")
    assert "hidden" in becomes(service, recorder, lambda entry: "hidden" in entry["state"])["state"]
    do(service, recorder, "restore")
    assert becomes(service, recorder, lambda entry: "hidden" not in entry["state"] and entry["focused"])


def test_a_window_that_is_not_shown_is_neither_acted_on_nor_seen(
    service: Service, recorder: Recorder, second: Recorder
) -> None:
    click = {"type": "click", "x": 5, "y": 5, "space": f"window:{second.id}"}
    do(service, second, "minimise")
    becomes(service, second, lambda entry: "hidden" in entry["state"])
    acted, seen = service.act(click), service.client.get(f"/v1/screen?window={second.id}")
    assert (acted.status_code, acted.json()["error"]) == (409, "actions[0].space")
    assert (seen.status_code, seen.json()["error"]) == (409, "window")
    assert "restore" in acted.json()["remedy"] and "restore" in seen.json()["remedy"]
    do(service, second, "restore")
    becomes(service, second, lambda entry: entry["focused"])
    service.did(click)
    second.until(lambda: second.buttons() == [(1, 5, 5)], "the click")
    assert recorder.buttons() == []


def test_a_window_is_maximised_and_restored(service: Service, recorder: Recorder) -> None:
    place = listed(service, recorder)["geometry"]
    do(service, recorder, "maximise")
    entry = becomes(service, recorder, lambda entry: entry["geometry"][2] >= WIDTH - 20)
    assert {"maximized_vert", "maximized_horz"} <= set(entry["state"])
    do(service, recorder, "restore")
    entry = becomes(service, recorder, lambda entry: entry["geometry"] == place)
    assert not {"maximized_vert", "maximized_horz"} & set(entry["state"])


def test_a_window_fills_the_screen_and_is_restored(service: Service, recorder: Recorder) -> None:
    place = listed(service, recorder)["geometry"]
    do(service, recorder, "fullscreen")
    assert "fullscreen" in becomes(service, recorder, lambda entry: entry["geometry"] == FILLS_SCREEN)["state"]
    do(service, recorder, "restore")
    assert "fullscreen" not in becomes(service, recorder, lambda entry: entry["geometry"] == place)["state"]


def test_windows_are_raised_and_lowered_and_listed_by_their_stacking(
    service: Service, recorder: Recorder, second: Recorder
) -> None:
    def above(entry: dict[str, Any]) -> bool:
        return bool(entry["stacking"] > listed(service, second)["stacking"])

    assert not above(listed(service, recorder)) and listed(service, second)["focused"]
    do(service, recorder, "raise")
    assert becomes(service, recorder, above)["id"] == service.windows()[-1]["id"]
    do(service, recorder, "lower")
    becomes(service, recorder, lambda entry: not above(entry))
    order = [entry["id"] for entry in service.windows()]
    assert order.index(recorder.id) < order.index(second.id)


@pytest.mark.parametrize(
    ("count", "arrangement", "expected"),
    [
        (3, "columns", [(0, 60, 341, 708), (341, 60, 341, 708), (682, 60, 342, 708)]),
        (2, "rows", [(0, 60, 1024, 354), (0, 414, 1024, 354)]),
        (1, "grid", [(0, 60, 1024, 708)]), (2, "grid", [(0, 60, 512, 708), (512, 60, 512, 708)]),
        (3, "grid", [(0, 60, 512, 354), (512, 60, 512, 354), (0, 414, 1024, 354)]),
    ],
)  # fmt: skip
def test_an_area_is_divided_without_a_gap(count: int, arrangement: str, expected: list[tuple[int, ...]]) -> None:
    found = parts(Rectangle(0, 60, 1024, 708), count, arrangement)
    assert [tuple(part.as_list()) for part in found] == expected


@pytest.mark.parametrize("count", range(1, 17))
def test_each_pixel_of_a_grid_is_of_one_window(count: int) -> None:
    found = parts(Rectangle(3, 5, 1021, 763), count, "grid")
    assert len(found) == count
    assert sum(part.width * part.height for part in found) == 1021 * 763
    assert not any(part.meets(other) for part in found for other in found if part is not other)


@pytest.mark.parametrize("state", ["normal", "maximise", "fullscreen", "minimise"])
def test_windows_are_tiled_side_by_side_whatever_their_state(
    service: Service, recorder: Recorder, second: Recorder, panel: None, state: str
) -> None:
    if state != "normal":
        plain = listed(service, recorder)["state"]
        do(service, recorder, state)
        becomes(service, recorder, lambda entry: set(entry["state"]) - {"focused"} != set(plain) - {"focused"})
    answer = service.client.post("/v1/windows/tile", json={"windows": [recorder.id, second.id]})
    assert answer.status_code == 200, answer.text
    placed = {entry["id"]: entry["geometry"] for entry in answer.json()["windows"]}
    left, right = (
        becomes(service, window, lambda entry: entry["geometry"] == placed[entry["id"]])
        for window in (recorder, second)
    )
    half = WIDTH // 2
    assert with_frame(left) == [0, PANEL, half, HEIGHT - PANEL]
    assert with_frame(right) == [half, PANEL, half, HEIGHT - PANEL]
    assert becomes(service, recorder, lambda entry: entry["focused"])
    assert [note["kind"] for note in service.notes.entries[-2:]] == ["window.tile"] * 2


@pytest.mark.parametrize(
    ("asked", "status", "field"),
    [
        ({}, 400, "windows"), ({"windows": []}, 400, "windows"), ({"windows": ["a"]}, 400, "windows[0]"),
        ({"windows": [5, 5]}, 400, "windows[1]"), ({"windows": [5]}, 404, "windows[0]"),
        ({"windows": [5] * 17}, 400, "windows"), ({"windows": [5], "arrangement": "pile"}, 400, "arrangement"),
        ({"windows": [5], "colour": 1}, 400, "colour"),
    ],
)  # fmt: skip
def test_a_wrong_tiling_is_refused(service: Service, asked: dict[str, Any], status: int, field: str) -> None:
    answer = service.client.post("/v1/windows/tile", json=asked)
    assert (answer.status_code, answer.json()["error"]) == (status, field), answer.text


def test_nothing_is_tiled_without_its_scope_nor_beside_a_person(
    service: Service, recorder: Recorder, person: Person
) -> None:
    asked, place = {"windows": [recorder.id]}, listed(service, recorder)["geometry"]
    headers = {"x-deskyard-session": "s1", "x-deskyard-scopes": "see,files,shell"}
    refused = service.client.post("/v1/windows/tile", json=asked, headers=headers)
    assert (refused.status_code, refused.json()["value"]) == (403, "act")
    before = service.last()
    person.tap()
    service.wait("person.took", after=before)
    assert service.client.post("/v1/windows/tile", json=asked).status_code == 409
    assert listed(service, recorder)["geometry"] == place


def test_the_sdk_and_the_protocol_tile_windows(service: Service, recorder: Recorder, second: Recorder) -> None:
    with Desktop.connect(service.url) as desktop:
        before = desktop.last_event()
        placed = desktop.windows.tile(recorder.id, str(second.id), arrangement="rows")
        assert [window for window, _ in placed] == [str(recorder.id), str(second.id)]
        desktop.wait_for("window.moved", match={"id": second.id, "geometry": list(placed[1][1])}, after=before)

    async def use(tools: Tools) -> None:
        done = await tools("tile", windows=[second.id, recorder.id], arrangement="grid")
        assert [window["id"] for window in done["windows"]] == [second.id, recorder.id]
        assert (await tools.refusal("tile", windows=[1]))["error"] == "windows[0]"

    talk_within(service.url, use)
