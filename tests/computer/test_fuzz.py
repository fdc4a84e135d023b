"""Requests of all wrong kinds: each is answered with what is wrong, and nothing is typed that was not asked."""

import copy
import json
import logging
import random
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

import httpx
import pytest

from tests.computer.desktop import Recorder, Service

SAMPLE, ALL, PROGRESS = 3_000, 100_000, 2000
log = logging.getLogger(__name__)
# With --log-cli-level=INFO a long run says how far it is: that alone, not each request.
logging.getLogger("httpx").setLevel(logging.WARNING)
# None of these is a key, a program, a file or an address: a request with one of them is wrong, or harmless.
ODD: list[Any] = [
    None, True, False, -1, 0, 1, 2**31, 2**63, 2**70, -0.5, 1e308, float("nan"), float("inf"), "", "\0", "\ud800",
    "no such thing", "x" * 5000, "../../nowhere", "%s%n", "🎉🎉🎉", "window:1", "shot:000000000000", "norm1000", [], {},
    [[[[[[[[]]]]]]]], [None] * 200, {"type": {"type": {}}}, ["type"],
]  # fmt: skip
SCOPES = ("see", "act", "see,act", "", "none", "see,act,no such scope")
Template = tuple[str, str, Any]


def templates(window: int) -> list[Template]:
    """Requests that would be right: what is done by them is seen by the window, or leaves no trace."""
    place = {"x": 20, "y": 20, "space": f"window:{window}"}
    wait = {"event": "window.appeared", "match": {"title": "never"}, "within_ms": 1}
    actions = [
        {"type": "type", "text": "xyz"},
        {"type": "click", **place, "button": "left", "count": 1, "modifiers": ["shift"]},
        {"type": "move", **place}, {"type": "scroll", **place, "dx": 1, "dy": -1}, wait | {"type": "wait"},
        {"type": "drag", "path": [{"x": 30, "y": 30}, {"x": 40, "y": 50}], "space": f"window:{window}"},
        {"type": "key", "keys": "no such key"}, {"type": "hold", "keys": "no such key", "ms": 1},
        {"type": "up", **place, "button": "left"},
    ]  # fmt: skip
    picture = {"format": "jpeg", "max": 200, "region": [0, 0, 100, 100], "cursor": True}
    find = {"role": "button", "name": "none", "states": ["showing"], "within_ms": 5}
    return [
        *(("POST", "/v1/act", {"actions": [action], "id": ""}) for action in actions),
        ("POST", "/v1/act", {"actions": actions[:3], "return": picture, "wait": wait}),
        ("GET", "/v1/screen?format=jpeg&scale=0.1&region=0,0,50,50&cursor=true&if_changed=1", None),
        ("POST", "/v1/wait", wait),
        ("POST", "/v1/wait", {"event": "screen.settled", "quiet_ms": 1, "region": [0, 0, 9, 9], "within_ms": 5}),
        ("POST", f"/v1/windows/{window}/focus", {}), ("POST", "/v1/windows/0/no-such-thing", {"x": 1}),
        ("GET", "/v1/windows", None), ("GET", "/v1/drive", None), ("POST", "/v1/drive", {"driver": "agent"}),
        ("GET", "/v1/clipboard", None), ("PUT", "/v1/clipboard", {"text": "clip"}),
        ("GET", "/v1/clipboard?format=png", None), ("GET", "/v1/accessibility?depth=1&nodes=1&within_ms=5", None),
        ("POST", "/v1/accessibility/find", find),
        ("POST", "/v1/accessibility/invoke", {"node": "no/node", "action": ""}),
        ("POST", "/v1/accessibility/set", {"node": "no/node", "text": "t"}),
        ("POST", "/v1/launch", {"application": "none"}),
        ("POST", "/v1/launch", {"open": "/no/such/file", "within_ms": 1}), ("GET", "/v1/streams", None),
        ("POST", "/v1/streams", {"region": [0, 0, 10, 10]}), ("DELETE", "/v1/streams/none", None),
        ("GET", "/v1/recordings?after=0&most=1", None), ("GET", "/v1/recordings/1/frames", None),
        ("GET", "/v1/privacy", None), ("PUT", "/v1/privacy", {"on": True, "seconds": 1}),
        ("GET", "/v1/files?path=/", None), ("POST", "/v1/processes", {"command": "no-such-program"}),
        ("GET", "/v1/nothing", None), ("PATCH", "/v1/act", {}),
    ]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each part of a document."""
    yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*path, key))


def spoilt(chance: random.Random, document: Any) -> Any:
    """The document with one part that is odd, missing, or too much."""
    whole = [copy.deepcopy(document)]
    path = chance.choice(list(places(document)))
    holder: Any = whole
    for key in (0, *path)[:-1]:
        holder = holder[key]
    key = (0, *path)[-1]
    match chance.randrange(4):
        case 0 if isinstance(holder, dict):
            del holder[key]
        case 1 if isinstance(holder[key], dict):
            holder[key][chance.choice(("no such field", ""))] = chance.choice(ODD)
        case _:
            holder[key] = copy.deepcopy(chance.choice(ODD))
    return whole[0]


def impatient(document: Any) -> Any:
    """The document, in which nothing is waited for longer than a moment."""
    if isinstance(document, dict):
        said = document.get("within_ms")
        if "within_ms" in document or {"event", "role", "name", "application", "open"} & set(document):
            document["within_ms"] = 1 if said is None or (type(said) in (int, float) and said > 1) else said
        for inner in document.values():
            impatient(inner)
    elif isinstance(document, list):
        for inner in document:
            impatient(inner)
    return document


class Fuzzer:
    """Sends requests by chance, and keeps what was really to be typed."""

    def __init__(self, service: Service, window: int, chance: random.Random) -> None:
        self._client = service.client
        self._chance = chance
        self._templates, self._window = templates(window), window
        self._done: set[tuple[str, str]] = set()  # sessions with their ids of batches
        self.typed = ""
        self.statuses: Counter[int] = Counter()

    def once(self) -> None:
        """One request and its answer."""
        method, url, document = self._chance.choice(self._templates)
        for _ in range(self._chance.randrange(4) if document is not None else 0):
            document = impatient(spoilt(self._chance, document))
        headers = {"content-type": "application/json"}
        if url.startswith(("/v1/files", "/v1/processes")) or self._chance.random() < 0.3:
            headers |= {"x-deskyard-session": "s" * 24, "x-deskyard-scopes": self._chance.choice(SCOPES)}
        content = b"" if document is None else json.dumps(document).encode()
        if content and self._chance.random() < 0.1:
            content = content[: self._chance.randrange(len(content))] + self._chance.randbytes(3)
            document = None
        request = f"{method} {url} {content[:300]!r}"
        try:
            answer = self._client.request(method, self._url(url), content=content, headers=headers)
        except httpx.TransportError as error:
            raise AssertionError(f"{request}: after {self.statuses.total()} answers: {error!r}") from error
        self.statuses[answer.status_code] += 1
        self._check(answer, request, document, headers.get("x-deskyard-session", ""))

    def _url(self, url: str) -> str:
        path, _, query = url.partition("?")
        if not query or self._chance.random() < 0.5:
            return url
        fields = dict(field.split("=") for field in query.split("&"))
        fields[self._chance.choice([*fields, "unknown"])] = str(self._chance.choice(ODD))[:200]
        return f"{path}?{httpx.QueryParams({name: value.encode('utf-8', 'replace') for name, value in fields.items()})}"

    def _check(self, answer: httpx.Response, request: str, document: Any, session: str) -> None:
        said = answer.json() if answer.headers.get("content-type", "") == "application/json" else {}
        # A program that holds its accessible names back is no failure of the service.
        assert answer.status_code < 500 or answer.status_code == 504, (
            f"{request}: {answer.status_code} {answer.text[:300]}"
        )
        if answer.status_code >= 400 and answer.status_code not in (404, 405) and "results" not in said:
            assert {"error", "reason", "remedy"} <= set(said), f"{request}: {answer.status_code} {answer.text[:300]}"
        id = document.get("id") if isinstance(document, dict) else None
        if id and isinstance(id, str) and "results" in said:
            if (session, id) in self._done:
                return  # answered from memory, and done no second time
            self._done.add((session, id))
        for result in said.get("results", ()):
            if result["type"] == "type" and result["ok"]:
                self.typed += document["actions"][result["action"]]["text"]
        if any(result["type"] in ("click", "drag", "scroll") for result in said.get("results", ())):
            # A place whose space was taken away is beside the window, which loses the keyboard then.
            self._client.post(f"/v1/windows/{self._window}/focus").raise_for_status()


def fuzz(service: Service, recorder: Recorder, seed: int, number: int) -> None:
    fuzzer = Fuzzer(service, recorder.id, random.Random(seed))
    for done in range(number):
        if done % PROGRESS == 0:
            log.info("%d of %d requests, seed %d: %s", done, number, seed, dict(fuzzer.statuses))
        fuzzer.once()
    for stream in service.client.get("/v1/streams").json()["streams"]:
        service.client.delete(stream["path"])
    service.did({"type": "type", "text": "end"})
    recorder.until(lambda: recorder.text.endswith("end"), "the last text")
    wanted = fuzzer.typed + "end"
    pairs = enumerate(zip_longest(recorder.text, wanted))
    at = next((place for place, (came, meant) in pairs if came != meant), len(wanted))
    assert recorder.text == wanted, f"from {at} on {recorder.text[at:][:40]!r} in place of {wanted[at:][:40]!r}"
    assert service.client.get("/healthz").text == "ok\n"
    assert recorder.id in [window["id"] for window in service.windows()]
    assert {200, 400, 403, 404, 408} <= set(fuzzer.statuses), fuzzer.statuses


def test_wrong_requests_are_named_and_nothing_is_typed_that_was_not_asked(service: Service, recorder: Recorder) -> None:
    # Always the same ones: what is new is looked for by the deep run.
    fuzz(service, recorder, 20261126, SAMPLE)


@pytest.mark.deep
def test_a_hundred_thousand_wrong_requests(service: Service, recorder: Recorder, random_seed: int) -> None:
    fuzz(service, recorder, random_seed, ALL)
