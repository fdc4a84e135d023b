"""When a window takes keys: told of a browser's page, of an editor, and of a program that says nothing of itself."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.computer.desktop import Service, XServer
from tests.support.requirements import need_programs

PAGE = """<!doctype html><title>Form</title><input id=n autofocus aria-label=Name>
<script>n.addEventListener("input", () => { document.title = "typed:" + n.value })</script>"""
TRIES = 3
WITHIN_MS = 55_000  # a browser on a machine that is used by many


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Path]:
    """A page with a field that has the keyboard, and shows in its title what came to it."""
    need_programs("chromium")
    path = tmp_path / "page.html"
    path.write_text(PAGE)
    yield path


@pytest.mark.parametrize("time", range(TRIES))
def test_what_is_typed_into_a_fresh_page_arrives_when_it_is_ready(
    service: Service, server: XServer, page: Path, time: int
) -> None:
    before = service.last()
    options = ["--no-sandbox", "--no-first-run", "--disable-gpu", f"--user-data-dir={page.parent}/profile"]
    browser = server.start("chromium", *options, f"file://{page}")
    try:
        window = service.wait("window.appeared", match={"class": "chromium"}, after=before, within_ms=WITHIN_MS)
        ready = service.wait("app.ready", match={"id": window["id"]}, within_ms=WITHIN_MS)
        assert (ready["id"], ready["accessible"]) == (window["id"], True)
        service.did({"type": "type", "text": "hello"})
        typed = {"id": window["id"], "title": "typed:hello"}
        service.wait("window.title", match=typed, after=before, within_ms=WITHIN_MS)
    finally:
        os.killpg(browser.pid, signal.SIGKILL)
    service.wait("window.closed", match={"id": window["id"]}, after=before)


def test_a_program_that_says_nothing_of_itself_is_ready_when_it_is_still(service: Service, server: XServer) -> None:
    before = service.last()
    terminal = server.start("xterm")
    window = service.wait("window.appeared", match={"class": "xterm"}, after=before)
    ready = service.did({"type": "wait", "event": "app.ready", "match": {"class": "xterm"}})
    assert ready["results"][0]["event"]["accessible"] is False
    terminal.kill()
    service.wait("window.closed", match={"id": window["id"]}, after=before)


def test_a_window_that_is_not_there_never_gets_ready(service: Service) -> None:
    asked = {"event": "app.ready", "match": {"class": "nothing"}, "within_ms": 50}
    answer = service.client.post("/v1/wait", json=asked)
    assert (answer.status_code, answer.json()["error"]) == (408, "wait")


def test_readiness_is_told_to_all_who_listen(service: Service, server: XServer) -> None:
    need_programs("mousepad")
    before = service.last()
    editor = server.start("mousepad", "--disable-server")
    answer = service.did({"type": "wait", "event": "window.appeared", "match": {"class": "mousepad"}, "after": before})
    window = answer["results"][0]["event"]["id"]
    ready = service.wait("app.ready", match={"id": window})
    events, _ = service.part.log.since(before)
    assert [event for event in events if event["event"] == "app.ready"] == [ready]
    service.did({"type": "type", "text": "at once"})
    found = service.client.post(
        "/v1/accessibility/find", json={"window": window, "role": "text", "states": ["multi line"]}
    ).json()
    assert found["nodes"][0]["text"] == "at once"
    editor.kill()
    service.wait("window.closed", match={"id": window}, after=before)
