"""A recorded desktop: frames and actions on disk as others read them, within their bounds, and only where asked for."""

import contextlib
import json
import os
import random
import select
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import xcffib.xproto as xproto
from deskyard_sdk import Desktop, DesktopError
from deskyard_sdk.replay import load
from deskyard_sdk.replay.video import pictures
from PIL import Image, ImageChops, ImageStat

from deskyard.computer.recording.asked import Asked, written
from deskyard.computer.recording.recorder import Limits
from deskyard.computer.work import inotify
from deskyard.host.deadline import Deadline
from tests.computer.desktop import PATIENCE, Person, Recorder, Service, XServer, temporary
from tests.computer.rfb_witness import Witness
from tests.computer.test_streams import paint, screen, speckle
from tests.support.requirements import need_root

ASKED, LOOK_SECONDS = Asked(3600, 64 << 20), 0.5


def state(service: Service) -> dict[str, Any]:
    return dict(service.client.get("/v1/recordings").json())


@contextlib.contextmanager
def recorded(service: Service, text: str = written(ASKED)) -> Iterator[Callable[[], None]]:
    """The service while root's file asks it to record; what is yielded takes the file away before the end."""
    settings = service.recorded / "recording.json"
    before = service.last()
    settings.write_text(text)
    service.wait("recording.started", after=before)

    def stop() -> None:
        if settings.exists():
            before = service.last()
            settings.unlink()
            service.wait("recording.stopped", after=before)

    try:
        yield stop
    finally:
        stop()
        for entry in state(service)["recordings"]:
            assert service.client.delete(f"/v1/recordings/{entry['id']}").status_code == 200


def written_until(service: Service, suits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The newest segment, looked at whenever something is written, until it suits."""
    queue, deadline = inotify.open_queue(), Deadline(PATIENCE)
    try:
        inotify.add(queue, service.recorded / "recordings")
        while True:
            newest = dict(state(service)["recordings"][-1])
            if suits(newest):
                return newest
            assert not deadline.is_over, f"never written: {newest}"
            # What is written is counted a moment later: so it is looked at again, also when nothing more comes.
            if select.select([queue], [], [], LOOK_SECONDS)[0]:
                list(inotify.read(queue))
    finally:
        os.close(queue)


def blocks(content: bytes) -> Iterator[tuple[bytes, int]]:
    """The blocks of rfbproxy's format: bytes and milliseconds."""
    assert content[:12] == b"FBS 001.000\n"
    place = 12
    while place < len(content):
        (length,) = struct.unpack_from(">I", content, place)
        data = content[place + 4 : place + 4 + length]
        assert len(data) == length > 0
        place += 4 + length + -length % 4
        (at,) = struct.unpack_from(">I", content, place)
        place += 4
        yield data, at


def shown(content: bytes) -> Image.Image:
    """The last picture of a recording, as libvncclient of Debian decodes it: an independent witness."""
    said = b"".join(data for data, _ in blocks(content))
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            line, _ = listening.accept()
            with line:
                line.sendall(said[:12])
                line.recv(12)
                line.sendall(said[12:])
                line.shutdown(socket.SHUT_WR)
                while line.recv(65536):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        witness = Witness(listening.getsockname()[1], "tight", 6)
        try:
            with contextlib.suppress(AssertionError):
                while witness.hear():
                    pass
            return witness.picture()
        finally:
            witness.close()
            thread.join(20)


def noise(recorder: Recorder, seed: int) -> None:
    """Something that is packed badly."""
    data = random.Random(seed).randbytes(400 * 150 * 4)
    c = recorder.c
    context = c.x.generate_id()
    c.core.CreateGC(context, recorder.id, 0, [])
    c.core.PutImage(xproto.ImageFormat.ZPixmap, recorder.id, context, 400, 150, 0, 0, 0, 24, len(data), data)
    c.core.FreeGC(context)
    c.settle()


def near(first: Image.Image, second: Image.Image) -> bool:
    return first.size == second.size and max(ImageStat.Stat(ImageChops.difference(first, second)).mean) < 3


def test_nothing_is_on_disk_where_it_was_not_asked_for(service: Service, recorder: Recorder) -> None:
    paint(recorder, 0x123456)
    service.did({"type": "type", "text": "a"})
    service.wait("screen.settled")
    answer = state(service)
    assert (answer["state"], answer["recordings"], answer["bytes"]) == ("off", [], 0)
    assert "keep_seconds" not in answer
    assert not any((service.recorded / "recordings").glob("*"))


def test_recording_is_what_was_seen_and_done(service: Service, recorder: Recorder, person: Person) -> None:
    with recorded(service) as stop:
        answer = state(service)
        assert (answer["state"], answer["keep_seconds"], answer["size_bytes"]) == ("recording", 3600, 64 << 20)
        speckle(recorder)
        service.did({"type": "click", "x": 150, "y": 160, "space": f"window:{recorder.id}"})
        service.did({"type": "type", "text": "secret"})
        before = service.last()
        person.tap()
        service.wait("person.left", after=before)
        paint(recorder, 0x3366CC, (10, 20, 130, 140))
        expected = screen(service)
        newest = written_until(service, lambda entry: entry["actions"] == 4)
        url = f"/v1/recordings/{newest['id']}"
        written_until(service, lambda entry: near(shown(service.client.get(f"{url}/frames").content), expected))
        assert newest["open"] and newest["size"] == list(expected.size)
        stop()
        entry, frames = service.client.get(url).json(), service.client.get(f"{url}/frames")
        actions = service.client.get(f"{url}/actions")
        assert not entry["open"] and entry["bytes"] == len(frames.content) + len(actions.content)
        assert entry["frames"] == len(list(blocks(frames.content))) - 1
        part = service.client.get(f"{url}/frames", headers={"Range": "bytes=4-10"})
        assert (part.status_code, part.content) == (206, frames.content[4:11])
        times = [at for _, at in blocks(frames.content)]
        assert times == sorted(times) and times[-1] <= entry["seconds"] * 1000 + 1
        lines = [json.loads(line) for line in actions.text.splitlines()]
        assert [(line["actor"], line["kind"]) for line in lines] == [
            ("agent", "click"), ("agent", "type"), ("person", "person.took"), ("person", "person.left"),
        ]  # fmt: skip
        click = lines[0]
        assert click["ok"] and click["at"] == [[150, 160, f"window:{recorder.id}"]] and click["window"] == recorder.id
        assert 0 <= click["offset_ms"] <= times[-1] and len(lines[1]["text_sha256"]) == 64
        assert "secret" not in actions.text


def test_screen_that_stands_still_adds_nothing(service: Service, recorder: Recorder) -> None:
    with recorded(service):
        paint(recorder, 0x55AA55)
        before: dict[str, Any] = {}
        newest = written_until(service, lambda entry: entry["frames"] > 1)
        while newest != before:
            service.wait("screen.settled", quiet_ms=600)
            before, newest = newest, state(service)["recordings"][-1]
        paint(recorder, 0x55AA55)  # drawn, and as it was
        service.wait("screen.settled", quiet_ms=600)
        assert state(service)["recordings"][-1] == before


def resize(server: XServer, width: int, height: int) -> None:
    """Give the screen another size, as a viewer does (SetDesktopSize)."""
    viewer = Person(server)
    # TigerVNC ends at such a wish of a viewer that did not say before that it knows sizes.
    viewer._line.sendall(struct.pack(">BxH2i", 2, 2, 0, -308))
    viewer._line.sendall(struct.pack(">BxHHBxIHHHHI", 251, width, height, 1, 0, 0, 0, width, height, 0))
    viewer.leave()


def test_each_size_and_each_start_has_a_segment_of_its_own() -> None:
    with temporary() as folder:
        server = XServer(folder)
        try:
            server.manage()
            (folder / "recording.json").write_text(written(ASKED))
            services = []
            for size in ((1024, 768), (800, 600)):
                service = Service(server.display, recorded=folder, limits=Limits(least_free=0))
                service.wait("recording.started", after=0)
                before = service.last()
                resize(server, *size)
                if size == (800, 600):
                    service.wait("screen.resized", after=before)
                written_until(service, lambda entry, size=size: entry["size"] == list(size))  # type: ignore[misc]
                services.append(state(service)["recordings"])
                service.stop()
            again = Service(server.display, recorded=folder, limits=Limits(least_free=0))
            again.wait("recording.started", after=0)
            entries = state(again)["recordings"]
            assert [entry["size"] for entry in entries] == [[1024, 768], [1024, 768], [800, 600], [800, 600]]
            assert [entry["open"] for entry in entries] == [False, False, False, True]
            page = again.client.get(f"/v1/recordings?after={entries[0]['id']}&most=2").json()
            assert (page["recordings"], page["count"]) == (entries[1:3], 4)
            wrong = again.client.get("/v1/recordings?after=x")
            assert (wrong.status_code, wrong.json()["error"]) == (400, "after")
            assert [entry["id"] for entry in services[0]] == [entries[0]["id"]]
            for entry in entries:
                content = again.client.get(f"/v1/recordings/{entry['id']}/frames").content
                assert shown(content).size == tuple(entry["size"])
            again.stop()
        finally:
            server.stop()


def test_full_disk_stops_it_and_nothing_else_and_it_goes_on_with_room(service: Service, recorder: Recorder) -> None:
    need_root("mounts a disk of its own")
    disk = service.recorded / "recordings"
    disk.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(disk)], check=True, timeout=60)
    try:
        (disk / "ballast").write_bytes(bytes(700 << 10))
        with recorded(service):
            before = service.last()
            stopped = threading.Thread(target=service.wait, args=["recording.stopped"], kwargs={"after": before})
            stopped.start()
            for seed in range(1000):
                noise(recorder, seed)
                service.wait("screen.settled", quiet_ms=1)
                if not stopped.is_alive():
                    break
            stopped.join(PATIENCE)
            event = service.wait("recording.stopped", after=before)
            assert event["reason"] == "the disk: No space left on device"
            # Of those that are closed: it is tried again all the while.
            entries = [entry for entry in state(service)["recordings"] if not entry["open"]]
            assert entries
            for entry in entries:
                shown(service.client.get(f"/v1/recordings/{entry['id']}/frames").content)
            service.did({"type": "type", "text": "a"})
            before = service.last()
            (disk / "ballast").unlink()
            service.wait("recording.started", after=before)
            assert state(service)["state"] == "recording"
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=False, timeout=60)


def test_sdk_tells_lists_fetches_and_removes(service: Service, recorder: Recorder, tmp_path: Path) -> None:
    with recorded(service), Desktop.connect(service.url) as desktop:
        speckle(recorder)
        service.did({"type": "key", "keys": "shift"})
        expected = screen(service)
        (segment,) = desktop.recordings.list()
        url = f"/v1/recordings/{segment.id}/frames"
        written_until(service, lambda entry: entry["actions"] == 1)
        written_until(service, lambda entry: near(shown(service.client.get(url).content), expected))
        state = desktop.recordings.state()
        assert (state.state, state.count, state.keep_seconds) == ("recording", 1, 3600)
        assert [action["kind"] for action in desktop.recordings.actions(segment)] == ["key"]
        assert desktop.recordings.frames(segment, 4, 7) == b"001.000"
        assert desktop.recordings.download(tmp_path) == [tmp_path / f"{segment.id}.fbs"]
        (fetched,) = load(tmp_path)
        *_, last = pictures([fetched], fetched.size, 5, 0.2)
        assert near(Image.frombytes("RGB", fetched.size, last), expected)
        with pytest.raises(DesktopError) as refused:
            desktop.recordings.delete(segment)
        assert (refused.value.status, refused.value.field) == (409, "recording")


def test_file_that_cannot_be_followed_stops_it_and_says_why(service: Service) -> None:
    settings, before = service.recorded / "recording.json", service.last()
    try:
        settings.write_text('{"keep_seconds": 5, "size_bytes": 67108864}')
        event = service.wait("recording.stopped", after=before)
        assert "keep_seconds is no whole number from 3600" in event["reason"] == state(service)["reason"]
        assert state(service)["state"] == "stopped" and not state(service)["recordings"]
    finally:
        settings.unlink()


def test_scopes_tell_who_may_know_look_back_and_remove(service: Service) -> None:
    with recorded(service):
        id = state(service)["recordings"][-1]["id"]

        def status(method: str, path: str, scopes: str) -> int:
            headers = {"x-deskyard-scopes": scopes, "x-deskyard-session": "s" * 24}
            return service.client.request(method, path, headers=headers).status_code

        assert status("GET", "/v1/recordings", "act") == 403
        assert status("GET", f"/v1/recordings/{id}", "see") == 200
        for path in ("frames", "actions"):
            assert status("GET", f"/v1/recordings/{id}/{path}", "see") == 403
            assert status("GET", f"/v1/recordings/{id}/{path}", "see,files") == 200
        assert status("DELETE", f"/v1/recordings/{id}", "see,act") == 403
        answer = service.client.delete(f"/v1/recordings/{id}")
        assert (answer.status_code, answer.json()["error"]) == (409, "recording")
    assert service.client.get(f"/v1/recordings/{id}").status_code == 404
