"""Events: told once, in order, kept for a while, and waited for without a race."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from typing import Any

import httpx
import pytest
import xcffib.xproto as xproto
from deskyard_sdk import Desktop, DesktopError
from PIL import Image
from websockets.sync.client import connect

from deskyard.computer.display import watcher
from deskyard.computer.display.clipboard import MOST_TEXT
from deskyard.computer.display.events import Armed, Log, Wait, now_ms
from deskyard.computer.display.eyes import Eyes
from deskyard.computer.display.pictures import png
from deskyard.computer.display.spaces import Rectangle, Shots
from deskyard.computer.display.x_server import XConnection
from deskyard.computer.problem import Problem
from deskyard.host.places import tree
from tests.computer.desktop import ALL, PATIENCE, Recorder, Service, XServer
from tests.support.requirements import need_programs

# Prints how many events were read, and by how many bytes the memory that is in use grew.
READ_EVENTS = """
import ctypes, json, sys
from deskyard.computer.display.x_server import XConnection

class Memory(ctypes.Structure):
    names = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    _fields_ = [(name, ctypes.c_size_t) for name in names]

def read(count):
    seen = 0
    for _ in range(count):
        c.send(window, "DESKYARD_TEST", [1], target=window, mask=0)
    c.settle()
    while c.poll() is not None:
        seen += 1
    return seen

used = ctypes.CDLL(None).mallinfo2
used.restype = Memory
c = XConnection(sys.argv[1])
window = c.x.generate_id()
c.core.CreateWindow(0, window, c.root, 0, 0, 1, 1, 0, 0, 0, 0, [])
read(1000)
before = used().uordblks
seen = sum(read(1000) for _ in range(20))
print(json.dumps([seen, used().uordblks - before]))
"""


def test_a_windows_life_is_told(service: Service, recorder: Recorder) -> None:
    before = service.last()
    recorder.title("höher")
    assert service.wait("window.title", after=before, match={"title": "HÖHER"})["untrusted"] == ["title"]
    service.client.post(f"/v1/windows/{recorder.id}/move", json={"x": 300, "y": 200})
    moved = service.wait("window.moved", after=before, match={"id": recorder.id})
    assert moved["geometry"] == [300, 200, 400, 300]
    other = Recorder(service.part.eyes.line.display)
    appeared = service.wait("window.appeared", after=before, match={"id": other.id})
    assert appeared["title"] == "recorder"
    other.close()
    assert service.wait("window.closed", after=before, match={"id": other.id})["seq"] > appeared["seq"]


def test_events_that_were_read_take_no_memory(server: XServer) -> None:
    # In a process of its own: of this one others take memory, too.
    argv = [sys.executable, "-c", READ_EVENTS, server.display]
    done = subprocess.run(argv, cwd=tree(), capture_output=True, text=True, check=True, timeout=PATIENCE)
    events, held = json.loads(done.stdout)
    assert events == 20_000
    # The smallest event is 36 bytes.
    assert held < events


def test_a_wait_of_a_batch_is_armed_before_its_actions(service: Service, recorder: Recorder) -> None:
    def title_it() -> None:
        recorder.until(lambda: "t" in recorder.text, "the key")
        recorder.title("typed")

    titling = threading.Thread(target=title_it)
    titling.start()
    answer = service.did({"type": "type", "text": "t"}, wait={"event": "window.title", "match": {"title": "typed"}})
    titling.join()
    assert answer["wait"]["title"] == "typed"


def test_a_repeat_of_a_batch_finds_the_event_that_came_before_it(service: Service, recorder: Recorder) -> None:
    def title_it() -> None:
        recorder.until(lambda: "u" in recorder.text, "the key")
        recorder.title("typed u")

    titling = threading.Thread(target=title_it)
    titling.start()
    wait = {"event": "window.title", "match": {"title": "typed u"}, "within_ms": 10_000}
    first, again = (service.act({"type": "type", "text": "u"}, id="typed-u", wait=wait).json() for _ in range(2))
    titling.join()
    assert first["ok"] and again["ok"], again
    assert again["wait"] == first["wait"] and recorder.text == "u"


def test_a_wait_in_vain_leaves_the_actions_done(service: Service) -> None:
    answer = service.act({"type": "move", "x": 5, "y": 5}, wait={"event": "window.closed", "within_ms": 20})
    assert answer.status_code == 200
    assert (answer.json()["ok"], answer.json()["results"][0]["ok"]) == (False, True)
    assert answer.json()["wait"]["error"] == "wait"


def test_an_answer_brings_the_picture_after_the_wait(service: Service, recorder: Recorder) -> None:
    answer = service.did(
        {"type": "move", "x": 5, "y": 5},
        wait={"event": "screen.settled", "quiet_ms": 50},
        **{"return": {"max": 200, "format": "jpeg"}},
    )
    assert answer["picture"]["size"] == [200, 150]
    assert answer["picture"]["untrusted"] == ["data"]


def test_the_screen_is_settled_where_nothing_is_drawn(service: Service, recorder: Recorder) -> None:
    assert (
        service.client.post(
            "/v1/wait", json={"event": "region.changed", "region": [0, 0, 5, 5], "within_ms": 30}
        ).status_code
        == 408
    )
    waiting = threading.Thread(target=lambda: found.append(service.wait("region.changed", region=[0, 0, 1024, 768])))
    found: list[dict[str, object]] = []
    waiting.start()
    while waiting.is_alive():
        recorder.c.core.ClearArea(False, recorder.id, 0, 0, 200, 200)
        recorder.c.settle()
        waiting.join(0.05)
    assert found[0]["event"] == "region.changed"
    assert service.wait("screen.settled", quiet_ms=100)["event"] == "screen.settled"


def draw(recorder: Recorder, times: int = 1) -> None:
    """Draw on the window, and be heard by whoever hears the server."""
    for _ in range(times):
        recorder.c.core.ClearArea(False, recorder.id, 0, 0, 200, 200)
        recorder.c.settle()


def test_what_was_drawn_before_a_wait_is_no_change(service: Service, recorder: Recorder) -> None:
    x, y, *_ = next(entry["geometry"] for entry in service.windows() if entry["id"] == recorder.id)
    service.wait("screen.settled")
    changed = {"event": "region.changed", "region": [x, y, 200, 200], "within_ms": 200}
    draw(recorder, 2)
    assert service.client.post("/v1/wait", json=changed).status_code == 408
    draw(recorder, 2)
    answer = service.client.post(
        "/v1/act", json={"actions": [{"type": "move", "x": 1, "y": 1}], "wait": changed}
    ).json()
    assert (answer["ok"], answer["wait"]["error"]) == (False, "wait")


def test_who_draws_all_the_time_is_looked_at_at_a_pace_unless_somebody_waits(
    service: Service, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "LOOK_SECONDS", 3600.0)
    part = service.part
    service.wait("screen.settled")
    before = part.log.changes
    draw(recorder, 20)
    part._listening().call(lambda c: c.settle()).result(PATIENCE)
    assert part.log.changes - before <= 1
    service.wait("screen.settled")
    seen = part.log.changes
    assert seen > before, "who waits for the end of drawing does not miss any"
    found: list[dict[str, object]] = []
    waiting = threading.Thread(target=lambda: found.append(service.wait("region.changed")))
    waiting.start()
    while waiting.is_alive():
        draw(recorder)
        waiting.join(0.05)
    assert found[0]["event"] == "region.changed" and part.log.changes > seen


def test_a_wait_ends_while_a_program_has_the_server_for_itself(service: Service, server: XServer) -> None:
    program = XConnection(server.display)
    program.core.GrabServer()
    program.settle()
    try:
        changed = {"event": "region.changed", "within_ms": 50}
        assert service.client.post("/v1/wait", json=changed).status_code == 408
        # Nobody else draws meanwhile.
        assert service.wait("screen.settled", quiet_ms=50)
    finally:
        program.close()
    service.wait("screen.settled")


def test_who_gives_up_makes_room(service: Service, server: XServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "ASKED", 2)
    program = XConnection(server.display)
    program.core.GrabServer()
    program.settle()
    try:
        ears = service.part._listening()
        busy = threading.Event()

        def ask(c: XConnection) -> None:
            busy.set()
            c.settle()  # waits for the server

        ears.call(ask)
        assert busy.wait(PATIENCE)
        given_up = [ears.call(lambda c: None) for _ in range(2)]
        with pytest.raises(Problem):
            ears.call(lambda c: None)
        assert all(call.cancel() for call in given_up)
        kept = ears.call(lambda c: "answered")
    finally:
        program.close()
    assert kept.result(PATIENCE) == "answered"


def test_events_are_told_again_to_who_comes_back(service: Service, recorder: Recorder) -> None:
    before = service.last()
    for title in ("a", "b", "c"):
        recorder.title(title)
        service.wait("window.title", match={"title": title}, after=before)
    url = service.url.replace("http", "ws") + f"/v1/events?after={before}&events=window.title"
    with connect(url) as socket:
        assert [json.loads(socket.recv(10))["title"] for _ in range(3)] == ["a", "b", "c"]
    headers = {"last-event-id": str(before)}
    with httpx.stream("GET", service.url + "/v1/events?events=window.title", headers=headers, timeout=20) as stream:
        data = (line for line in stream.iter_lines() if line.startswith("data: "))
        assert [json.loads(next(data)[6:])["title"] for _ in range(3)] == ["a", "b", "c"]


def test_what_is_forgotten_is_said_to_be_lost() -> None:
    log = Log(most=3)
    for _ in range(5):
        log.tell("screen.ready", {})
    events, lost = log.since(0)
    assert ([event["seq"] for event in events], lost) == ([3, 4, 5], 2)


@pytest.mark.parametrize(("after", "lost"), [(0, 2), (1000, 2), (7, 3), (2000, 3), (1003, 0)])
def test_who_goes_on_from_a_number_of_another_service_is_told_of_a_loss_and_hears_on(after: int, lost: int) -> None:
    log = Log(most=3, start=1000)
    for _ in range(5):
        log.tell("screen.ready", {})

    async def heard() -> list[tuple[int, str]]:
        async with contextlib.aclosing(log.stream(after)) as events:  # type: ignore[type-var]
            found = [await anext(events) for _ in range(4 if lost else 2)]
            log.tell("screen.gone", {})
            return [(event["seq"], event["event"]) for event in [*found, await anext(events)]]

    async def awaited() -> dict[str, Any]:
        return await log.next(Wait("screen.gone", within=10, after=after))

    kept = [(seq, "screen.ready") for seq in (1003, 1004, 1005) if lost or seq > after]
    assert log.since(after)[1] == lost
    losses = [(1002, "events.lost")] if lost else []
    assert asyncio.run(asyncio.wait_for(heard(), PATIENCE)) == [*losses, *kept, (1006, "screen.gone")]
    if lost:
        with pytest.raises(Problem, match="forgotten"):
            asyncio.run(awaited())
    else:
        assert asyncio.run(awaited())["seq"] == 1006


def test_a_service_that_is_started_anew_goes_on_with_higher_numbers(service: Service) -> None:
    # Less than a thousand events come in a second, and less than a thousand pictures.
    assert service.part.log.last < Log(start=now_ms()).last
    assert service.part.eyes.state < Eyes(service.part.eyes.line.display, Shots()).state


@pytest.mark.parametrize("query", ["after=-1", "after=x", "events=nothing", "colour=red"])
def test_a_wrong_stream_is_refused(service: Service, query: str) -> None:
    answer = service.client.get(f"/v1/events?{query}")
    assert answer.status_code == 400
    assert answer.json()["error"] == query.partition("=")[0]


@pytest.mark.parametrize(
    ("method", "path", "scope"),
    [
        ("POST", "/v1/act", "act"), ("GET", "/v1/screen", "see"), ("GET", "/v1/windows", "see"),
        ("GET", "/v1/events", "see"),
        ("POST", "/v1/wait", "see"), ("GET", "/v1/clipboard", "see"), ("PUT", "/v1/clipboard", "act"),
        ("POST", "/v1/drive", "act"),
        ("POST", "/v1/windows/1/close", "act"),
    ],
)  # fmt: skip
def test_each_path_wants_its_scope(service: Service, method: str, path: str, scope: str) -> None:
    held = ",".join(set(ALL.split(",")) - {scope})
    headers = {"x-deskyard-session": "s1", "x-deskyard-scopes": held}
    answer = service.client.request(method, path, headers=headers)
    assert answer.status_code == 403
    assert (answer.json()["error"], answer.json()["value"]) == ("scope", scope)


def test_the_clipboard_keeps_any_text_and_its_change_is_an_event(service: Service) -> None:
    before = service.last()
    text = "Grüße, 世界 🎉\nzweite Zeile"
    assert service.client.put("/v1/clipboard", json={"text": text}).status_code == 200
    service.wait("clipboard.changed", after=before)
    answer = service.client.get("/v1/clipboard").json()
    assert answer == {"text": text, "untrusted": ["text"]}


def test_a_picture_in_the_clipboard_is_read_and_put(service: Service, server: XServer) -> None:
    need_programs("xclip")
    before = service.last()
    drawn = png(Image.frombytes("RGB", (400, 160), bytes(range(48)) * 4000))
    headers = {"content-type": "image/png"}
    assert service.client.put("/v1/clipboard", content=drawn, headers=headers).status_code == 200
    service.wait("clipboard.changed", after=before, match={"by": "agent"})
    paste = ["xclip", "-selection", "clipboard", "-target", "image/png", "-out"]
    assert subprocess.run(paste, env=server.environment, capture_output=True, timeout=30, check=True).stdout == drawn
    assert service.client.get("/v1/clipboard").json()["text"] == ""
    before = service.last()
    copy = subprocess.Popen([*paste[:-1], "-in", "-quiet"], env=server.environment, stdin=subprocess.PIPE)
    large = png(Image.frombytes("RGB", (1000, 700), os.urandom(3 * 1000 * 700)))
    assert copy.stdin is not None
    copy.stdin.write(large)
    copy.stdin.close()
    service.wait("clipboard.changed", after=before, match={"by": "program"})
    answer = service.client.get("/v1/clipboard?format=png")
    assert (answer.headers["content-type"], answer.content) == ("image/png", large)
    copy.kill()
    copy.wait()


def test_a_text_in_the_clipboard_that_is_too_long_is_refused_and_not_cut(service: Service, server: XServer) -> None:
    need_programs("xclip")
    copy = ["xclip", "-selection", "clipboard", "-in", "-quiet"]
    for size, status in ((MOST_TEXT, 200), (MOST_TEXT + 1, 413)):
        before = service.last()
        owner = subprocess.Popen(copy, env=server.environment, stdin=subprocess.PIPE)
        assert owner.stdin is not None
        owner.stdin.write(b"a" * size)
        owner.stdin.close()
        service.wait("clipboard.changed", after=before, match={"by": "program"})
        answer = service.client.get("/v1/clipboard")
        owner.kill()
        owner.wait()
        assert answer.status_code == status, answer.text[:300]
        if status == 200:
            assert len(answer.json()["text"]) == size
        else:
            assert answer.json()["error"] == "clipboard" and "save it to a file" in answer.json()["remedy"]


def test_the_sdk_puts_and_reads_a_picture_in_the_clipboard(service: Service) -> None:
    drawn = png(Image.frombytes("RGB", (40, 16), bytes(range(48)) * 40))
    with Desktop.connect(service.url) as desktop:
        before = desktop.last_event()
        desktop.set_clipboard_picture(drawn)
        desktop.wait_for("clipboard.changed", match={"by": "agent"}, after=before)
        assert desktop.clipboard_picture() == drawn
        desktop.set_clipboard("no picture")
        with pytest.raises(DesktopError, match="holds no picture"):
            desktop.clipboard_picture()
        with pytest.raises(DesktopError, match="is no PNG picture"):
            desktop.set_clipboard_picture(b"GIF89a")


def test_the_javascript_client_puts_and_reads_a_picture_in_the_clipboard(service: Service) -> None:
    need_programs("node")
    drawn = png(Image.frombytes("RGB", (40, 16), bytes(range(48)) * 40))
    program = (
        f"import {{ Desktop }} from {json.dumps(str(tree() / 'sdk/js/desktop.js'))};"
        f"const desktop = await Desktop.connect({json.dumps(service.url)});"
        f"await desktop.setClipboard({{ content: new Uint8Array({list(drawn)}) }});"
        "const found = await desktop.getClipboard({ format: 'png' });"
        "await desktop.setClipboard({ text: 'text' });"
        "console.log(JSON.stringify([Array.from(found), (await desktop.getClipboard()).text]));"
        "desktop.close();"
    )
    done = subprocess.run(
        ["node", "--input-type=module", "-e", program], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert json.loads(done.stdout) == [list(drawn), "text"]


def test_a_caret_that_blinks_leaves_the_screen_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    log, now = Log(), [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    caret, letter = Rectangle(50, 60, 2, 20), Rectangle(300, 60, 2, 20)
    for _ in range(4):
        log.drew([caret])
        now[0] += 0.5
    # It was seen to come again: from the second time on it counts for nothing.
    assert log.drawn(caret) == 100.0

    def found(wait: Wait) -> dict[str, Any] | None:
        return log._found(Armed(wait, event=0, change=1, at=100.0))[0]

    assert found(Wait("screen.settled", 1, quiet=1.9)) is not None
    assert found(Wait("region.changed", 1)) is None
    assert found(Wait("region.changed", 1, region=letter)) is None
    changed = found(Wait("region.changed", 1, region=caret))
    assert changed is not None and changed["change"] == 4, "who waits for this very place hears of it"
    log.drew([caret, letter])
    assert log.drawn(letter) == 102.0 and log.drawn(caret) == 100.0
    now[0] += 10
    log.drew([caret])
    assert log.drawn(caret) == 112.0, "after so long it is no caret"


def test_a_small_thing_that_changes_again_is_a_change_of_its_region(service: Service, recorder: Recorder) -> None:
    x, y, *_ = next(entry["geometry"] for entry in service.windows() if entry["id"] == recorder.id)
    box = [x + 50, y + 60, 16, 16]

    def toggle() -> None:
        recorder.c.core.ClearArea(False, recorder.id, 50, 60, 16, 16)
        recorder.c.settle()

    toggle()
    found = list[httpx.Response]()
    waits = {"event": "region.changed", "region": box, "within_ms": 5000}
    for _ in range(2):
        service.wait("screen.settled", region=box, quiet_ms=300)
        waiting = threading.Thread(target=lambda: found.append(service.client.post("/v1/wait", json=waits)))
        waiting.start()
        while waiting.is_alive():
            # Slowly enough for a caret.
            waiting.join(0.3)
            toggle()
    assert [answer.status_code for answer in found] == [200, 200]


@pytest.mark.parametrize("kind", ["region.changed", "screen.settled"])
def test_who_waits_for_drawing_has_it_looked_at_once(
    service: Service, recorder: Recorder, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    service.wait("screen.settled")
    looks, look = list[float](), service.part.log.look

    async def looking(seconds: float) -> None:
        looks.append(seconds)
        await look(seconds)

    monkeypatch.setattr(service.part.log, "look", looking)
    waiting = threading.Thread(target=service.wait, args=(kind,))
    waiting.start()
    while waiting.is_alive():
        waiting.join(0.3)
        draw(recorder)
    assert len(looks) == 1


def test_the_screen_is_settled_in_a_region_while_it_moves_elsewhere(service: Service, recorder: Recorder) -> None:
    over = threading.Event()
    x, y, *_ = next(entry["geometry"] for entry in service.windows() if entry["id"] == recorder.id)

    def draw() -> None:
        while not over.wait(0.02):
            recorder.c.core.ClearArea(False, recorder.id, 0, 0, 200, 200)
            recorder.c.settle()

    drawing = threading.Thread(target=draw)
    service.wait("screen.settled", quiet_ms=100)
    drawing.start()
    try:
        service.wait("region.changed", region=[x, y, 200, 200])
        busy = {"event": "screen.settled", "quiet_ms": 200, "within_ms": 600}
        assert service.client.post("/v1/wait", json={**busy, "region": [0, 0, 1024, 768]}).status_code == 408
        assert service.client.post("/v1/wait", json={**busy, "region": [x + 250, y + 220, 50, 50]}).status_code == 200
    finally:
        over.set()
        drawing.join(10)


def test_a_dialog_is_told_to_have_appeared(service: Service, recorder: Recorder) -> None:
    before = service.last()
    dialog = Recorder(service.part.eyes.line.display)
    shown = service.wait("window.appeared", match={"id": dialog.id}, after=before)
    dialog.close()
    service.wait("window.closed", match={"id": shown["id"]}, after=before)
    assert not [event for event in service.part.log.since(before)[0] if event["event"] == "dialog.appeared"]
    c = XConnection(service.part.eyes.line.display)
    window = c.x.generate_id()
    c.core.CreateWindow(0, window, c.root, 200, 200, 200, 100, 0, 1, 0, 0, [])
    of = c.atom("WM_TRANSIENT_FOR")
    c.core.ChangeProperty(0, window, of, xproto.Atom.WINDOW, 32, 1, [recorder.id])
    c.core.MapWindow(window)
    c.settle()
    appeared = service.wait("dialog.appeared", match={"id": window}, after=before)
    assert appeared["transient_for"] == recorder.id
    before = service.last()
    c.close()
    service.wait("window.closed", match={"id": window}, after=before)


def test_a_clipboard_without_a_picture_is_said_to_be(service: Service) -> None:
    assert service.client.put("/v1/clipboard", json={"text": "x"}).status_code == 200
    answer = service.client.get("/v1/clipboard?format=png")
    assert (answer.status_code, answer.json()["error"]) == (404, "clipboard")


def test_what_is_no_picture_is_not_put(service: Service) -> None:
    answer = service.client.put("/v1/clipboard", content=b"GIF89a", headers={"content-type": "image/png"})
    assert (answer.status_code, answer.json()["error"]) == (400, "body")
    assert service.client.get("/v1/clipboard?format=bmp").json()["error"] == "format"
