"""The OpenAPI document of a desktop's service says what the service is."""

import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient

from deskyard.errors import ConfigError
from deskyard.host.places import tree
from deskyard.lab import desktop_api
from deskyard.wire.computer import SCOPES

DOCUMENT: dict[str, Any] = json.loads((tree() / desktop_api.PLACE).read_text())


@pytest.fixture(scope="module")
def service() -> Starlette:
    """All parts but the protocol of E2B; nothing of them runs."""
    return desktop_api.service()


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


def test_answers_of_the_document_are_those_of_the_code() -> None:
    desktop_api.require(tree())


def test_each_answer_is_typed() -> None:
    for _, path, operation in described():
        for response in operation.get("responses", {}).values():
            for media_type, content in response.get("content", {}).items():
                schema = content["schema"]
                typed = (
                    "$ref" in schema or "anyOf" in schema
                    if media_type == "application/json"
                    else schema["type"] == "string"
                )
                assert typed, (path, media_type, schema)


CHANGES: list[Callable[[dict[str, Any]], object]] = [
    lambda document: document["components"]["schemas"]["Windows"]["properties"].pop("event"),
    lambda document: answer(document, "/v1/drive").update(schema={"type": "object"}),
    lambda document: answer(document, "/v1/drive").update(schema={"$ref": "#/components/schemas/Windows"}),
    lambda document: document["components"]["schemas"].update(More={"type": "object"}),
]


def answer(document: dict[str, Any], path: str) -> Any:
    return document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]


@pytest.mark.parametrize("change", CHANGES)
def test_document_that_says_otherwise_than_the_code_is_noticed_and_mended(
    tmp_path: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    weaker = copy.deepcopy(DOCUMENT)
    change(weaker)
    (tmp_path / "sdk").mkdir()
    (tmp_path / desktop_api.PLACE).write_text(json.dumps(weaker))
    with pytest.raises(ConfigError, match=r"check\.api --write"):
        desktop_api.require(tmp_path)
    assert desktop_api.write(tmp_path) and not desktop_api.write(tmp_path)
    assert json.loads((tmp_path / desktop_api.PLACE).read_text()) == DOCUMENT


def test_path_that_is_said_to_answer_with_no_json_is_refused(tmp_path: Path) -> None:
    weaker = copy.deepcopy(DOCUMENT)
    del weaker["paths"]["/v1/drive"]["get"]["responses"]["200"]["content"]
    (tmp_path / "sdk").mkdir()
    (tmp_path / desktop_api.PLACE).write_text(json.dumps(weaker))
    for asked in (desktop_api.require, desktop_api.write):
        with pytest.raises(ConfigError, match="GET /v1/drive"):
            asked(tmp_path)
