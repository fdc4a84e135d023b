"""Real answers of the service, held against its OpenAPI document, which may say neither less nor more."""

import copy
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from deskyard.computer.display.pictures import png
from tests.computer.desktop import ANSWERS, PATIENCE, Recorder, Service, XServer
from tests.computer.test_devtools import Desk, desk
from tests.computer.test_recording import recorded
from tests.support.answers_described import DOCUMENT, JSON, Described
from tests.support.requirements import need_programs

__all__ = ["desk"]  # a fixture, taken from there
DEVTOOLS = {"describeDevtools", "startDevtools", "endDevtools"}
WINDOWS = {"windows": [], "untrusted": ["title"], "event": 7}


def operations() -> set[str]:
    """The operations that are requests, and no sockets."""
    return {
        operation["operationId"]
        for item in DOCUMENT["paths"].values()
        for operation in item.values()
        if "responses" in operation
    }


class Asking:
    """Requests that must be done; that they are answered as described is looked at for each (`as_described`)."""

    def __init__(self, service: Service) -> None:
        self._client = service.client

    def __call__(self, method: str, path: str, **given: Any) -> Any:
        answer = self._client.request(method, f"/v1/{path}", **given)
        assert answer.is_success or answer.status_code == 304, (method, path, answer.text)
        return answer.json() if answer.headers.get("content-type") == JSON else answer.content

    def post(self, path: str, /, **fields: Any) -> Any:
        return self("POST", path, json=fields)

    def begins(self, path: str, /, **query: Any) -> None:
        """Read the first event of a stream of them."""
        with self._client.stream("GET", f"/v1/{path}", params=query) as stream:
            assert next(stream.iter_lines())


def on_the_screen(ask: Asking, recorder: Recorder) -> None:
    """All that is about the screen, but for recordings and programs' trees."""
    state = ask("GET", "screen", headers={"accept": JSON})["state"]
    ask("GET", "screen", headers={"accept": JSON}, params={"if_changed": state})
    for format in ("png", "jpeg", "webp"):
        ask("GET", "screen", params={"format": format})
    moves = [
        {"type": "move", "x": 1, "y": 1},
        {"type": "type", "text": "a", "read_back": True},
        {"type": "wait", "ms": 1},
    ]
    waits = {"event": "region.changed", "within_ms": 1}
    ask.post("act", actions=moves, wait=waits, id="document-1", **{"return": {"format": "jpeg"}})
    ask.post("act", actions=[{"type": "wait", "event": "screen.settled", "quiet_ms": 1}])
    ask.post("wait", event="screen.settled", quiet_ms=1)
    ask("GET", "windows")
    ask.post("windows/tile", windows=[recorder.id])
    ask.post(f"windows/{recorder.id}/raise")
    ask("PUT", "clipboard", json={"text": "text"})
    ask("GET", "clipboard")
    drawn = png(Image.new("RGB", (2, 2)))
    ask("PUT", "clipboard", content=drawn, headers={"content-type": "image/png"})
    ask("GET", "clipboard", params={"format": "png"})
    ask("GET", "drive")
    ask.post("drive", driver="agent")
    ask("GET", "privacy")
    ask.begins("events")
    ask("GET", "applications")
    ask.post("launch", command=["true"], wait="nothing")
    for shows in ({}, {"region": [0, 0, 20, 20]}, {"window": recorder.id}):
        stream = ask.post("streams", **shows)["id"]
        ask("GET", f"streams/{stream}")
        ask(
            "GET",
            "streams",
            headers={"x-deskyard-session": "s1", "x-deskyard-scopes": "see", "x-deskyard-page": "https://h/d/d1/"},
        )
        ask("DELETE", f"streams/{stream}")


def at_work(ask: Asking, folder: Path) -> None:
    """All that is about files and processes."""
    file, inner = f"{folder}/file", f"{folder}/inner"
    ask("PUT", "files/content", params={"path": file}, content=b"text")
    ask("GET", "files/content", params={"path": file})
    ask("GET", "files/content", params={"path": file}, headers={"range": "bytes=1-2"})
    ask("GET", "files/entry", params={"path": file})
    ask.post("files/directory", path=inner)
    ask.post("files/move", source=file, destination=f"{inner}/file")
    Path(file).symlink_to(f"{inner}/file")
    ask("GET", "files", params={"path": str(folder), "depth": 2})
    watch = ask.post("files/watches", path=str(folder))["id"]
    ask("GET", "files/watches")
    ask("DELETE", f"files/watches/{watch}")
    ask.begins("files/events", path=str(folder))
    ask("DELETE", "files", params={"path": inner, "recursive": True})
    ask.post("processes/run", command=["false"])
    ask.post("processes/run", command=["sleep", "60"], timeout=0.01, encoding="base64")
    number = ask.post("processes", command=["cat"], stdin=True, tag="document", terminal=True)["id"]
    ask("GET", "processes")
    ask("GET", f"processes/{number}")
    ask("POST", f"processes/{number}/stdin", content=b"text\n")
    ask.post(f"processes/{number}/terminal", columns=90, rows=30)
    ask.begins(f"processes/{number}/output")
    ask.post(f"processes/{number}/signal", signal="TERM")
    ask("DELETE", f"processes/{number}")


def in_a_program(ask: Asking, service: Service, server: XServer) -> None:
    """All that is about programs' trees, with one that has them."""
    before = service.last()
    process = server.start("mousepad", "--disable-server")
    window = service.wait("window.appeared", match={"class": "mousepad"}, after=before)["id"]
    service.wait("app.ready", match={"id": window})
    ask("GET", "accessibility", params={"window": window, "details": "true"})
    (text,) = ask.post("accessibility/find", role="text", window=window)["nodes"]
    ask.post("accessibility/focus", node=text["id"])
    ask.post("accessibility/set", node=text["id"], text="new")
    menu = ask.post("accessibility/find", role="menu", window=window)["nodes"][0]
    ask.post("accessibility/invoke", node=menu["id"])
    before = service.last()
    os.killpg(process.pid, signal.SIGKILL)
    service.wait("window.closed", match={"id": window}, after=before)


def test_each_operation_is_answered_as_it_is_described(
    service: Service, server: XServer, recorder: Recorder, tmp_path: Path
) -> None:
    need_programs("mousepad", "/usr/libexec/at-spi-bus-launcher")
    ANSWERS.seen.clear()
    ask = Asking(service)
    with recorded(service):
        on_the_screen(ask, recorder)
        first = ask("GET", "recordings")["recordings"][0]["id"]
        ask("GET", f"recordings/{first}")
        for kind in ("frames", "actions"):
            ask("GET", f"recordings/{first}/{kind}")
            ask("GET", f"recordings/{first}/{kind}", headers={"range": "bytes=0-0"})
        in_a_program(ask, service, server)
    at_work(ask, tmp_path)
    assert operations() - DEVTOOLS - ANSWERS.seen == set()


def test_browser_is_answered_as_it_is_described(desk: Desk) -> None:
    ANSWERS.seen.clear()
    ask = Asking(desk)
    ask("DELETE", "devtools")
    assert ask("GET", "devtools") == {"running": False, "path": "/v1/devtools"}
    assert ask.post("devtools")["pages"]
    ask("GET", "devtools")
    assert ANSWERS.seen == DEVTOOLS


def test_refusals_are_answered_as_they_are_described(service: Service) -> None:
    ask = service.client.request
    assert ask("GET", "/v1/screen", params={"region": "x"}).status_code == 400
    assert ask("POST", "/v1/act", json={"actions": [{"type": "move", "x": -1, "y": 0}]}).status_code == 400
    failed = ask(
        "POST",
        "/v1/act",
        json={"actions": [{"type": "wait", "ms": 1}, {"type": "wait", "event": "person.took", "within_ms": 1}]},
    )
    assert (failed.status_code, [result["ok"] for result in failed.json()["results"]]) == (408, [True, False])
    assert ask("GET", "/v1/processes/99999").status_code == 404
    assert ask("GET", "/v1/drive", headers={"x-deskyard-session": "s", "x-deskyard-scopes": "act"}).status_code == 403


def test_service_that_answers_otherwise_is_noticed() -> None:
    described = Described(DOCUMENT)

    def objection(status: int = 200, kind: str = JSON, **changes: Any) -> str:
        body = {name: value for name, value in {**WINDOWS, **changes}.items() if value is not None}
        return described.objection("GET", "/v1/windows", status, kind, json.dumps(body).encode())

    assert objection() == ""
    for wrong in ({"event": "7"}, {"event": None}, {"more": 1}, {"windows": [{"id": 1}]}):
        assert objection(**wrong), wrong
    assert "image/png" in objection(kind="image/png")
    assert "201" in objection(status=201)
    assert objection(status=404)


LOSSES: list[Callable[[dict[str, Any]], object]] = [
    lambda schemas: schemas["Windows"]["properties"].pop("untrusted"),
    lambda schemas: schemas["Windows"]["properties"].update(event={"type": "string"}),
    lambda schemas: schemas["Windows"]["required"].append("more"),
]


@pytest.mark.parametrize("change", LOSSES)
def test_document_that_says_otherwise_is_noticed(service: Service, change: Callable[[dict[str, Any]], object]) -> None:
    weaker = copy.deepcopy(DOCUMENT)
    change(weaker["components"]["schemas"])
    with httpx.Client(base_url=service.url, timeout=PATIENCE) as client:
        answer = client.get("/v1/windows")
    asked = ("GET", "/v1/windows", 200, JSON, answer.content)
    assert Described(DOCUMENT).objection(*asked) == ""
    assert Described(weaker).objection(*asked)
