"""The SDK's calls of Mission Control held against its OpenAPI document: requests, what can be given, words, answers.

And how answers are read that come in pieces, or not at all.
"""

import asyncio
import contextlib
import inspect
import json
import types
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

import httpx
import pytest
from deskyard_sdk import DesktopError
from deskyard_sdk.mission import AsyncMissionControl, forms

from deskyard.host.places import tree
from deskyard.lab.api_changes import PROMISED
from tests.support.answers_described import Described
from tests.unit.sdk.asked import Asked, never_given, noted, objections, operations

DOCUMENT: dict[str, Any] = json.loads((tree() / PROMISED).read_text())
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]
ANSWER = {"state": "done", "items": [], "id": "op_1", "result": {"link": "https://x"}}
SAMPLES: Mapping[Any, Any] = {str: "some", int: 1, float: 1, bool: True}
# What an argument has to be where its type does not say it.
GIVEN = {
    "days": 30,
    "for_": "8h",
    "id": "lab.first",
    "rules": [{"kind": "desktop.not-ready", "enabled": True, "number": 1}],
    "selector": {"workspace": "lab"},
    "sent": {"conversationId": "cv_1", "operationId": "op_1", "messageId": "ms_1"},
}
# What browsers and supervisors call, what a passkey signs, and what has two names for people's sake.
FOR_BROWSERS = ("/api/enrol", "/api/sign-", "/api/intents", "/healthz", "/readyz")
BY_PASSKEY = [
    ("POST", "/api/keys"),
    ("POST", "/api/people"),
    ("POST", "/api/people/{id}/link"),
    ("DELETE", "/api/people/{id}"),
    ("DELETE", "/api/me/passkeys/{id}"),
]
TWICE = [("DELETE", "/api/desktops/{id}"), ("DELETE", "/api/workspaces/{id}")]
SIGNED = {"intent", "sealTo"}
# Lists are read to their ends.
PARTS = {"after", "limit"}
NAMES = {"DesktopState": "Desktop", "Fleet": "FleetAnswer"}
# What the stream of events says is no answer of the document.
NOT_DESCRIBED = {"News"}
# They ask nothing of it, or what others here ask.
NOT_TRIED = {"connect", "close", "open"}


def value(name: str, kind: Any, turn: int = 0) -> Any:
    """A value for an argument, of its name or else of its type; of known words another at each turn."""
    if name in GIVEN:
        return GIVEN[name]
    if get_origin(kind) is Literal:
        return get_args(kind)[turn % len(get_args(kind))]
    if get_origin(kind) in (types.UnionType, Union):
        return value(name, get_args(kind)[0], turn)
    if get_origin(kind) is Sequence:
        return [value(name, get_args(kind)[0], turn)]
    if get_origin(kind) is Mapping:
        return {"free": 1} if get_args(kind)[1] is int else {"name": "first"}
    return "op_1" if is_typeddict(kind) else SAMPLES[kind]


async def asked_by(method: str, whole: bool = True, turn: int = 0) -> Sequence[Asked]:
    """What a method asks, with all of its arguments, or with those alone that it needs."""
    found: list[Asked] = []
    described = Described(DOCUMENT)

    def answer(request: httpx.Request) -> httpx.Response:
        media_type = request.headers.get("content-type", "")
        found.append(noted(described, request.method, request.url, request.content, media_type))
        return httpx.Response(200, json=ANSWER)

    call = getattr(AsyncMissionControl, method)
    kinds = get_type_hints(call)
    wanted = {
        parameter.name: value(parameter.name, kinds[parameter.name], turn)
        for parameter in list(inspect.signature(call).parameters.values())[1:]
        if whole or parameter.default is parameter.empty
    }
    client = httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="https://lab")
    async with AsyncMissionControl(client, None) as sdk:
        going = call(sdk, **wanted)
        if inspect.isasyncgen(going):
            async for _ in going:
                pass
        else:
            await going
    return found


def methods() -> Sequence[str]:
    """The names of its calls."""
    found = {name for name, _ in inspect.getmembers(AsyncMissionControl, inspect.isroutine) if name[0] != "_"}
    return sorted(found - NOT_TRIED)


def words_in(method: str) -> int:
    """How many words the argument of a method takes that takes the most of them, or 1."""
    return max(1, *(len(literal_of(kind)) for kind in get_type_hints(getattr(AsyncMissionControl, method)).values()))


@pytest.fixture(scope="module")
def asked() -> Sequence[Asked]:
    """What all calls ask, with all of their arguments and each word that these take."""

    async def every() -> Sequence[Asked]:
        turns = [(name, turn) for name in methods() for turn in range(words_in(name))]
        return [request for name, turn in turns for request in await asked_by(name, turn=turn)]

    return asyncio.run(every())


@pytest.mark.parametrize("method", methods())
def test_a_call_with_what_it_needs_asks_for_an_operation_as_it_is_described(method: str) -> None:
    requests = asyncio.run(asked_by(method, whole=False))
    assert requests
    assert [found for request in requests for found in objections(request, DOCUMENT)] == []


def test_a_call_with_all_of_its_arguments_and_any_word_asks_as_it_is_described(asked: Sequence[Asked]) -> None:
    once = {(request.line, str(request.query), str(request.body)): request for request in asked}
    assert {line: found for (line, *_), request in once.items() if (found := list(objections(request, DOCUMENT)))} == {}


def test_each_operation_for_programs_has_a_method_that_can_give_each_of_its_fields(asked: Sequence[Asked]) -> None:
    others = {each["operationId"] for method, path, each in described() if is_for_no_program(method, path)}
    assert set(operations(DOCUMENT)) - {request.name for request in asked} == others
    lacking = never_given(DOCUMENT, asked, others)
    assert {field for _, field in lacking} == {*SIGNED, *PARTS, "head"}
    # The audit is checked part by part: each answer has the head that the next request goes on from.
    assert {name for name, field in lacking if field == "head"} == {"verify_api_audit_verify_get"}


def described() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in DOCUMENT["paths"].items():
        for method, operation in item.items():
            yield method.upper(), path, operation


def is_for_no_program(method: str, path: str) -> bool:
    return path.startswith(FOR_BROWSERS) or (method, path) in {*BY_PASSKEY, *TWICE}


def words_of(schema: dict[str, Any]) -> set[str]:
    """The words that a field takes; none where it takes any."""
    if "$ref" in schema:
        return words_of(SCHEMAS[schema["$ref"].rpartition("/")[2]])
    inner = [*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())]
    return {*schema.get("enum", ()), *([schema["const"]] if "const" in schema else ())}.union(*map(words_of, inner))


def test_each_word_that_a_request_may_have_can_be_given(asked: Sequence[Asked]) -> None:
    given: dict[tuple[str, str], set[str]] = defaultdict(set)
    for request in asked:
        for field, content in {**request.query, **(request.body if isinstance(request.body, dict) else {})}.items():
            given[request.name, field] |= {str(each) for each in (content if isinstance(content, list) else [content])}
    known: dict[tuple[str, str], set[str]] = {}
    for name, operation in operations(DOCUMENT).items():
        fields = {each["name"]: each["schema"] for each in operation.get("parameters", ()) if each["in"] == "query"}
        for content in operation.get("requestBody", {}).get("content", {}).values():
            fields |= properties(content["schema"])
        known |= {(name, field): words for field, schema in fields.items() if (words := words_of(schema))}
    assert len(known) > 10
    calls = {request.name for request in asked}
    assert {at: words - given[at] for at, words in known.items() if at[0] in calls and words - given[at]} == {}


def properties(schema: dict[str, Any]) -> dict[str, Any]:
    """The fields of an object, which may be one of several."""
    if "$ref" in schema:
        return properties(SCHEMAS[schema["$ref"].rpartition("/")[2]])
    found = dict(schema.get("properties", {}))
    for part in schema.get("anyOf", ()):
        found |= properties(part)
    return found


FORMS = {name: form for name, form in vars(forms).items() if is_typeddict(form) and name not in NOT_DESCRIBED}


@pytest.mark.parametrize("name", FORMS)
def test_form_has_the_fields_and_words_of_its_answer(name: str) -> None:
    described = SCHEMAS[NAMES.get(name, name)]["properties"]
    hints = get_type_hints(FORMS[name])
    assert set(hints) == set(described)
    for field, kind in hints.items():
        words = words_of(described[field]) if "$ref" not in described[field] else set()
        assert literal_of(kind) == words, field


def literal_of(kind: Any) -> set[str]:
    """The words that a type knows."""
    if get_origin(kind) is Literal:
        return set(get_args(kind))
    return set().union(*map(literal_of, get_args(kind)))


@contextlib.asynccontextmanager
async def answered(*answers: httpx.Response | Exception) -> AsyncIterator[AsyncMissionControl]:
    """A Mission Control that gives these answers in their order, and the last of them from then on."""
    left = list(answers)

    def answer(_: httpx.Request) -> httpx.Response:
        found = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(found, Exception):
            raise found
        return found

    client = httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="https://lab")
    async with AsyncMissionControl(client, None) as sdk:
        yield sdk


async def in_pieces(text: str) -> AsyncIterator[bytes]:
    content = text.encode()
    for start in range(0, len(content), 5):
        yield content[start : start + 5]


async def all_of(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_what_comes_line_by_line_may_hold_any_character_within_its_lines(end: str) -> None:
    text = "a\u2028b\u2029c\u0085d ü"
    said = json.dumps({"text": text}, ensure_ascii=False)

    async def read() -> tuple[list[Any], list[Any]]:
        events = end.join(["id: 7", "event: message", f"data: {said}", "", ": alive", "event: message", "data: {}", ""])
        async with answered(httpx.Response(200, content=in_pieces(events))) as sdk:
            heard = await all_of(sdk.events())
        async with answered(httpx.Response(200, content=in_pieces(end.join([said, "{}"])))) as sdk:
            return heard, await all_of(sdk.export_audit())

    heard, lines = asyncio.run(read())
    assert [news["data"] for news in heard] == lines == [{"text": text}, {}]
    assert heard[0]["id"] == "7"


@pytest.mark.parametrize("answer", ["<p>Sign in", "data: <p>"])
def test_what_is_no_answer_of_mission_control_is_said_to_be_none(answer: str) -> None:
    async def read(call: str) -> None:
        async with answered(httpx.Response(200, text=answer)) as sdk:
            found = getattr(sdk, call)()
            await (all_of(found) if inspect.isasyncgen(found) else found)

    for call in ("me", "export_audit", *(["events"] if answer.startswith("data") else [])):
        with pytest.raises(DesktopError, match="does not answer") as refused:
            asyncio.run(read(call))
        assert (refused.value.field, refused.value.status) == ("url", 0)


PASSING: Sequence[httpx.Response | Exception] = [
    httpx.ConnectError("refused"),
    httpx.Response(200, text="<p>Sign in"),
    *(httpx.Response(status) for status in (429, 502, 503, 504)),
]


async def waited(*answers: httpx.Response | Exception, seconds: float = 3600) -> Any:
    async with answered(*answers) as sdk:
        return await sdk.wait("op_1", seconds)


def test_an_operation_is_waited_for_while_mission_control_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deskyard_sdk.mission.client.AGAIN_SECONDS", 0.001)
    assert asyncio.run(waited(*PASSING, httpx.Response(200, json=ANSWER)))["state"] == "done"
    for refused in (401, 403, 404, 500):
        with pytest.raises(DesktopError) as raised:
            asyncio.run(waited(httpx.Response(refused)))
        assert raised.value.status == refused


def test_a_wait_that_is_not_answered_ends_with_its_time() -> None:
    with pytest.raises(DesktopError) as raised:
        asyncio.run(waited(httpx.Response(503), seconds=1))
    assert raised.value.status == 503


def test_the_last_second_of_a_wait_is_held_by_who_answers() -> None:
    asked: list[str] = []

    async def ask() -> None:
        def answer(request: httpx.Request) -> httpx.Response:
            asked.append(request.headers["prefer"])
            return httpx.Response(200, json={**ANSWER, "state": "running", "why": None, "progress": None})

        client = httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="https://lab")
        async with AsyncMissionControl(client, None) as sdk:
            await sdk.wait("op_1", 0.1)

    with pytest.raises(DesktopError, match="wait longer"):
        asyncio.run(ask())
    assert asked[0] == "wait=1"
