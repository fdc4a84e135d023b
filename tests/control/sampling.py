"""Calls of an API as schemathesis makes them up, each sent by several callers, and what is wrong with the answers.

One sample is sent by all callers in turn, the mightiest last: what the others change would otherwise hide in its work.
"""

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import httpx
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi import checks

BASE = "http://mission.localhost:9443"
# Streams that never end are no answers; tests/control/test_events.py reads them.
ENDLESS = {"/api/events"}

# Of every answer, to whomever.
CONFORMS: list[Any] = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
# Not ready is what it is there to say.
NOT_READY = {("GET /readyz", 503)}
# What others are refused says nothing about the data that they sent.
TAKES: list[Any] = [checks.negative_data_rejection, checks.missing_required_header]

# By which the API knows who asks.
CREDENTIALS = ("authorization", "cookie")

# What is replaced of a sample as it is sent.
CHANGED = ("path_parameters", "headers", "cookies")
_MADE: dict[tuple[str, str, int, int], list[tuple[Case, dict[str, Any]]]] = {}

Judge = Callable[[Case, httpx.Response], str | None]


@dataclass(frozen=True)
class Caller:
    """Who calls, and what no answer to it may be: the reason, or None where the answer may stand."""

    name: str
    client: httpx.Client
    judge: Judge = lambda _case, _answer: None
    # Only where everything is allowed does an answer say whether valid data is taken, and invalid data is not.
    may_everything: bool = False
    # Which calls it sends.
    calls: Callable[[str], bool] = lambda _call: True

    @property
    def is_somebody(self) -> bool:
        """Whether it shows a key or a session."""
        return any(name in self.client.headers for name in CREDENTIALS)


@dataclass
class Sample:
    """How many calls were sent, what answered them by caller and status class, and what is wrong."""

    sent: int = 0
    answers: dict[tuple[str, str], set[int]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def note(self, case: Case, who: Caller, answer: httpx.Response, reason: str) -> None:
        """Keep what is wrong, with all that sends the same call again."""
        request = answer.request
        line = f"{request.method} {request.url.raw_path.decode()} by {who.name}: {answer.status_code}"
        self.wrong.append(f"{line}\n  sent {request.content[:300]!r}\n  got {answer.text[:300]!r}\n  {reason}")


def sample(
    document: dict[str, Any],
    callers: Sequence[Caller],
    number: int,
    examples: int,
    known: Mapping[str, Mapping[str, str]] | None = None,
    only: str | None = None,
) -> Sample:
    """Send `examples` samples of each call of a document, from a seed.

    `known` has, by path, names of what is there: half of the samples ask for these, since nobody would guess them.
    """
    found = Sample()
    schema = schemathesis.openapi.from_dict(document)
    digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.path in ENDLESS or (only is not None and operation.label != only):
            continue
        there = (known or {}).get(operation.path, {})
        for case in _cases(operation, digest, number, examples):
            _fill(case, there, found.sent)
            _send(case, callers, found)
    return found


def _cases(operation: Any, document: str, number: int, examples: int) -> Iterator[Case]:
    """Samples of a call of a document: what its form allows, and what it does not.

    To make them up is half of what a sample costs: those of the same seed are kept, and given out as they were made.
    """
    key = (document, operation.label, number, examples)
    if key not in _MADE:
        made = _made_up(operation, number, examples)
        _MADE[key] = [(case, {name: getattr(case, name) for name in CHANGED}) for case in made]
    for case, parts in _MADE[key]:
        for name, value in parts.items():
            if getattr(case, name) is not value:
                setattr(case, name, value)
        yield case


def _made_up(operation: Any, number: int, examples: int) -> list[Case]:
    made: list[Case] = []
    for mode in GenerationMode:
        strategy = operation.as_strategy(generation_mode=mode)

        @seed(number)
        @settings(
            max_examples=examples,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=strategy)
        def collect(case: Case) -> None:
            made.append(case)

        # Of a call that takes nothing, nothing is invalid.
        with contextlib.suppress(Unsatisfiable):
            collect()
    return made


def _fill(case: Case, there: Mapping[str, str], count: int) -> None:
    """Ask for what is there in every other sample."""
    if there and count % 2 == 0:
        case.path_parameters = {**case.path_parameters, **there}


def _drop_credentials(case: Case) -> None:
    """Take the credentials that were made up out of a sample: in place of the caller's they would make nobody of it.

    Out of the sample, not of the request alone: schemathesis judges by the sample whether something invalid was sent.
    """
    case.headers = type(case.headers)({k: v for k, v in case.headers.items() if k.lower() not in CREDENTIALS})
    case.cookies = {}


def _send(case: Case, callers: Sequence[Caller], found: Sample) -> None:
    # Nobody comes first, with the credentials that were made up.
    for who in sorted(callers, key=lambda who: who.is_somebody):
        if not who.calls(case.operation.label):
            continue
        if who.is_somebody:
            _drop_credentials(case)
        wanted = case.as_transport_kwargs(base_url=BASE)
        if "data" in wanted:
            wanted["content"] = wanted.pop("data")
        headers = {name: value for name, value in wanted.pop("headers").items() if value is not None}
        cookies = wanted.pop("cookies", None)
        if cookies:
            headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in cookies.items())
        try:
            answer = who.client.request(**wanted, headers=headers)
        except (httpx.LocalProtocolError, httpx.InvalidURL, UnicodeError):
            # No client can send it.
            continue
        found.sent += 1
        # What is too large is refused whatever stands in it, which the check does not count as refused.
        is_judged = who.may_everything and answer.status_code != HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        asked = CONFORMS + (TAKES if is_judged else [])
        if (case.operation.label, answer.status_code) in NOT_READY:
            asked = asked[1:]
        found.answers.setdefault((who.name, case.operation.label), set()).add(answer.status_code)
        if (reason := who.judge(case, answer)) is not None:
            found.note(case, who, answer, reason)
        try:
            case.validate_response(answer, checks=asked)
        except FailureGroup as failures:
            for failure in failures.exceptions:
                found.note(case, who, answer, f"{failure.title}: {failure.message}")
