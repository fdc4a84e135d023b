"""The OpenAPI document of a desktop's service says what the service is."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient

from deskyard.computer.accessibility.part import Accessibility
from deskyard.computer.application import Part, create
from deskyard.computer.devtools.part import Devtools
from deskyard.computer.display.part import Display
from deskyard.computer.launch.part import Launch
from deskyard.computer.recording.part import Recordings
from deskyard.computer.streaming.part import Streaming
from deskyard.computer.work.part import Work
from deskyard.wire.computer import SCOPES

DOCUMENT: dict[str, Any] = json.loads((Path(__file__).resolve().parents[3] / "sdk/openapi.json").read_text())


@pytest.fixture(scope="module")
def service() -> Starlette:
    """All parts but the protocol of E2B, which has a document of its own; nothing of them runs."""
    display = Display(":99")
    streaming = Streaming(":99")
    parts: list[Part] = [display, Accessibility(display, ""), Launch(display), Devtools(display)]
    return create([*parts, streaming, Recordings(streaming), Work()], display.privacy)


def described() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Method, path and operation; WEBSOCKET is the method of those."""
    for path, item in DOCUMENT["paths"].items():
        for name, operation in item.items():
            yield "WEBSOCKET" if name == "x-websocket" else name.upper(), path, operation


def test_each_path_of_the_service_is_described_and_no_other(service: Starlette) -> None:
    found = set()
    for route in service.routes:
        if isinstance(route, WebSocketRoute):
            found.add(("WEBSOCKET", route.path))
        elif isinstance(route, Route) and route.path != "/healthz":
            found |= {(method, route.path) for method in (route.methods or ()) if method != "HEAD"}
    # What a gateway says to the service is no part of what programs ask.
    assert found - {("PUT", "/v1/privacy"), ("PUT", "/v1/sessions")} == {
        (method, path) for method, path, _ in described()
    }


def test_each_operation_has_a_name_of_its_own_and_the_parameters_of_its_path() -> None:
    names = [operation["operationId"] for _, _, operation in described()]
    assert len(names) == len(set(names)) > 40
    for _, path, operation in described():
        inside = {parameter["name"] for parameter in operation.get("parameters", ()) if parameter["in"] == "path"}
        assert inside == set(re.findall(r"{(\w+)}", path)), path


@pytest.mark.parametrize(
    ("method", "path", "scope"),
    [(method, path, operation["x-scope"]) for method, path, operation in described() if method != "WEBSOCKET"],
)
def test_operation_needs_the_scope_that_it_names(service: Starlette, method: str, path: str, scope: str) -> None:
    others = ",".join(sorted(set(SCOPES) - {scope}))
    headers = {"x-deskyard-session": "s" * 24, "x-deskyard-scopes": others}
    answer = TestClient(service).request(method, re.sub(r"{\w+}", "1", path), headers=headers)
    assert (answer.status_code, answer.json()["error"], answer.json()["value"]) == (403, "scope", scope)
