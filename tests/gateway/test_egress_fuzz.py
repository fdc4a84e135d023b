"""Generated names, through the real HAProxy and the real dnsmasq, against an oracle that knows only the promise."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.gateway import egress_oracle as oracle
from tests.gateway.egress_lab import GATEWAY, PUBLIC, EgressLab, run_lab
from tests.gateway.test_egress import answered, fast, hello
from tests.unit.gateway.support import parsed

LIST = (
    "allowed.test",
    "two.parts.example",
    "xn--bcher-kva.example",
    "*.suffix.test",
    "*.deep.er.example",
    "*.a-b.test",
)
EXACT = frozenset(entry.encode() for entry in LIST if not entry.startswith("*."))
SUFFIXES = frozenset(entry.removeprefix("*.").encode() for entry in LIST if entry.startswith("*."))
NAMES = [*EXACT, *SUFFIXES, *(b"www." + suffix for suffix in SUFFIXES), b"evil.test"]
SAMPLE, DEEP, AT_ONCE = 500, 100_000, 250
COUNTS = [SAMPLE, pytest.param(DEEP, marks=pytest.mark.deep)]


@pytest.fixture(scope="module")
def lab() -> Iterator[EgressLab]:
    """A locked gateway; outside every name exists."""
    with run_lab(fast(parsed("locked", LIST)), {"*": {"A": [PUBLIC]}}) as running:
        yield running


def batches(seed: int, count: int) -> Iterator[list[bytes]]:
    found = oracle.inputs(seed, count, NAMES)
    return (found[at : at + AT_ONCE] for at in range(0, count, AT_ONCE))


def disagreements(given: list[bytes], wanted: list[bool], found: list[bool]) -> list[tuple[bytes, bool, bool]]:
    return [case for case in zip(given, wanted, found, strict=True) if case[1] != case[2]]


@pytest.mark.parametrize("count", COUNTS)
def test_server_names_pass_exactly_when_the_oracle_says_so(lab: EgressLab, count: int, random_seed: int) -> None:
    passed = 0
    for given in batches(random_seed, count):
        wanted = [oracle.may_pass(name, EXACT, SUFFIXES) for name in given]
        found = answered(lab.ask([hello(name) for name in given]))
        assert disagreements(given, wanted, found) == []
        passed += sum(wanted)
    assert count * 0.05 < passed < count * 0.95


@pytest.mark.parametrize(
    ("was", "becomes"), [("-m end .", "-m end "), ("unless listed", "unless { always_true }")], ids=["dot", "list"]
)
def test_oracle_sees_a_weaker_router(lab: EgressLab, was: str, becomes: str, random_seed: int) -> None:
    (given,) = batches(random_seed + 3, AT_ONCE)
    wanted = [oracle.may_pass(name, EXACT, SUFFIXES) for name in given]
    with lab.weaker(egress=lambda text: text.replace(was, becomes)):
        found = answered(lab.ask([hello(name) for name in given]))
    assert disagreements(given, wanted, found) != []


@pytest.mark.parametrize("count", COUNTS)
def test_hosts_pass_exactly_when_the_oracle_says_so(lab: EgressLab, count: int, random_seed: int) -> None:
    for given in batches(random_seed + 1, count):
        # A line end in it would be another header; HAProxy's parser has its own view of those.
        given = [name.replace(b"\r", b"").replace(b"\n", b"") for name in given]
        wanted = [oracle.host_may_pass(name, EXACT, SUFFIXES) for name in given]
        said = [b"GET / HTTP/1.1\r\nHost: " + name + b"\r\nConnection: close\r\n\r\n" for name in given]
        jobs: list[dict[str, Any]] = [
            {"kind": "tcp", "to": GATEWAY, "port": 80, "say": opening.hex()} for opening in said
        ]
        assert disagreements(given, wanted, answered(lab.ask(jobs))) == []


@pytest.mark.parametrize("count", COUNTS)
def test_names_are_answered_exactly_when_the_oracle_says_so(lab: EgressLab, count: int, random_seed: int) -> None:
    before = len(lab.asked())
    for given in batches(random_seed + 2, count):
        # What cannot be put into a question is left out: an empty or long label, a long name.
        asked = [
            name.decode("latin-1")
            for name in given
            if len(name) < 250 and all(0 < len(label) < 64 for label in name.split(b"."))
        ]
        wanted = [oracle.may_pass(name.encode("latin-1"), EXACT, SUFFIXES) for name in asked]
        results = lab.ask([{"kind": "dns", "to": GATEWAY, "port": 53, "name": name, "seconds": 20} for name in asked])
        found = [result["text"] == f"0 {GATEWAY}" for result in results]
        # dnsmasq answers more than the oracle below a suffix (a_b.suffix.test); the router refuses those.
        wrong = [
            disagreement
            for disagreement in disagreements([name.encode("latin-1") for name in asked], wanted, found)
            if disagreement[1] or not any(disagreement[0].lower().endswith(b"." + suffix) for suffix in SUFFIXES)
        ]
        assert wrong == []
    assert len(lab.asked()) == before
