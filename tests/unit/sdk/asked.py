"""Requests of the SDK held against OpenAPI documents, and a desktop that is asked and answers as its document says."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
from deskyard_sdk.door import Door
from websockets.asyncio.client import ClientConnection

from tests.support.answers_described import DOCUMENT, JSON, Described
from tests.support.json_schema import objection

# It is a time, and base64 too.
TEXT = "2026-11-30T12:00:00Z"
# Fields of which the type does not say what the service takes again.
MEANT = {"space": "shot:1", "region": [0, 0, 8, 6]}
STREAM = 'event: output\ndata: {"stream": "stdout", "offset": 0, "data": ""}\n\n'
SAMPLES = {"string": TEXT, "integer": 1, "number": 1.5, "boolean": True, "null": None}


def sample(schema: dict[str, Any], within: tuple[str, ...] = ()) -> Any:
    """A value with all that a schema of a desktop names; what holds itself is there once."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return sample(DOCUMENT["components"]["schemas"][name], (*within, name))
    if several := schema.get("anyOf") or schema.get("oneOf"):
        return sample(several[0], within)
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema["type"] if isinstance(schema["type"], str) else schema["type"][0]
    if kind == "array":
        again = schema["items"].get("$ref", "").rpartition("/")[2] in within
        return [] if again else [sample(schema["items"], within)] * 2
    if kind == "object":
        parts = schema.get("properties", {})
        return {name: MEANT.get(name) or sample(part, within) for name, part in parts.items()}
    return SAMPLES[kind]


@dataclass(frozen=True)
class Asked:
    """A request: its operation, empty for one that is not described, and what it gave, by name."""

    line: str
    operation: dict[str, Any]
    query: dict[str, str]
    body: Any

    @property
    def name(self) -> str:
        """The operation's own name."""
        return str(self.operation.get("operationId", ""))

    @property
    def fields(self) -> set[str]:
        """What was given in the query and in an object."""
        return set(self.query) | (set(self.body) if isinstance(self.body, dict) else set())


def noted(described: Described, method: str, url: httpx.URL, content: bytes = b"", media_type: str = "") -> Asked:
    """The request of a method, by the document that describes what may be asked."""
    operation = described.operation(method, url.path) or {}
    return Asked(
        f"{method} {url.path}", operation, dict(url.params), json.loads(content) if media_type == JSON else content
    )


def objections(request: Asked, document: Mapping[str, Any]) -> Iterator[str]:
    """In what a request is not as its operation is described."""
    if not request.operation:
        yield f"{request.line} is not described"
    described = {each["name"]: each for each in request.operation.get("parameters", ()) if each["in"] == "query"}
    yield from (f"{name} is not described" for name in set(request.query) - set(described))
    yield from (
        f"{name} is lacking" for name, each in described.items() if each["required"] and name not in request.query
    )
    for name in request.query.keys() & described.keys():
        yield from _against(
            _spoken(request.query[name], described[name]["schema"]), described[name]["schema"], document
        )
    content = request.operation.get("requestBody", {}).get("content", {})
    if isinstance(request.body, bytes):
        if request.body and not set(content) - {JSON}:
            yield "bytes are not described"
    elif JSON not in content:
        yield "an object is not described"
    else:
        yield from _against(request.body, content[JSON]["schema"], document)


def _against(value: Any, schema: dict[str, Any], document: Mapping[str, Any]) -> Iterator[str]:
    if found := objection(value, {**schema, "components": document["components"]}):
        yield found


def _spoken(text: str, schema: dict[str, Any]) -> Any:
    """The value of a text in a query; a text that is none of its type stays one."""
    kinds = {each.get("type") for each in schema.get("anyOf", [schema])}
    if "boolean" in kinds and text in ("true", "false"):
        return text == "true"
    for kind, read in (("integer", int), ("number", float)):
        if kind in kinds:
            try:
                return read(text)
            except ValueError:
                continue
    return [text] if "array" in kinds else text


def operations(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The operations of a document by their names."""
    return {each["operationId"]: each for item in document["paths"].values() for each in item.values()}


def never_given(
    document: Mapping[str, Any], asked: Iterable[Asked], not_called: Collection[str]
) -> set[tuple[str, str]]:
    """Operations with the fields of their query and body that no request gave."""
    given: dict[str, set[str]] = defaultdict(set)
    for request in asked:
        given[request.name] |= request.fields
    lacking = set()
    for name, operation in operations(document).items():
        described = {each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"}
        for content in operation.get("requestBody", {}).get("content", {}).values():
            described |= _properties(content["schema"], document)
        lacking |= {(name, field) for field in described - given[name] if name not in not_called}
    return lacking


def _properties(schema: dict[str, Any], document: Mapping[str, Any]) -> set[str]:
    found = set(schema.get("properties", ()))
    for part in schema.get("anyOf", ()):
        found |= _properties(part, document)
    if "$ref" in schema:
        found |= _properties(document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], document)
    return found


class NotingDoor(Door):
    """A way to no desktop at all: it notes what is asked, and answers with all that the document describes."""

    def __init__(self) -> None:
        client = httpx.AsyncClient(transport=httpx.MockTransport(self._answer))
        super().__init__(client, "http://desk", {}, None)
        self.asked: list[Asked] = []
        self._described = Described(DOCUMENT)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        media_type = request.headers.get("content-type", "")
        self.asked.append(noted(self._described, request.method, request.url, request.content, media_type))
        status, response = next(iter(self.asked[-1].operation.get("responses", {"404": {}}).items()))
        kinds = response.get("content", {})
        if JSON in kinds:
            return httpx.Response(int(status), json=sample(kinds[JSON]["schema"]))
        return httpx.Response(int(status), text=STREAM if "text/event-stream" in kinds else "{}\n")

    async def socket(self, path: str) -> ClientConnection:
        """Note that a WebSocket was asked for; there is none."""
        self.asked.append(noted(self._described, "x-websocket", httpx.URL(self.base + path)))
        return None  # type: ignore[return-value]
