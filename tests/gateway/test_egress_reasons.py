"""Why the router refuses, told right for each way to be refused; what it carries is told as no refusal."""

import itertools
import json
import signal
from collections.abc import Iterator

import pytest

from deskyard.wire.gateway_settings import parse
from tests.gateway.egress_lab import D1, GATEWAY, HOST, PRIVATE, PUBLIC, QUEUED, EgressLab, job, run_lab
from tests.gateway.support import wait_for
from tests.gateway.test_egress import V6, answered, fast
from tests.unit.gateway.support import document

# In the site's exceptions: only the router itself keeps a desktop from these.
OWN = {"gateway.test": GATEWAY, "uplink.test": "10.80.1.250", "host.test": HOST, "desktop.test": D1}
WITHOUT_IPV4 = {**V6, "mapped-public.test": f"::ffff:{PUBLIC}"}
INSIDE = {"metadata.test": "169.254.169.254", "excepted.test": PRIVATE}
LONG = f"{'a.' * 130}suffix.test"
RECORDS = {
    **{name: {"A": [address]} for name, address in {**OWN, **INSIDE}.items()},
    **{name: {"AAAA": [address]} for name, address in WITHOUT_IPV4.items()},
    "nothing.test": {"A": []},
    "*": {"A": [PUBLIC]},
}
ADDRESSED = {**dict.fromkeys((*OWN, "metadata.test"), "address"), **dict.fromkeys(WITHOUT_IPV4, "unresolvable")}
BY_NAME = {**ADDRESSED, "nothing.test": "unresolvable", "evil.test": "list"}
NAMELESS = {"a_b.suffix.test": "no-dns-name", "allowed.test_": "no-dns-name", LONG: "no-dns-name"}
NUMBERS = itertools.count()
CARRIED = ("allowed.test", "excepted.test")


@pytest.fixture(scope="module")
def lab() -> Iterator[EgressLab]:
    """A locked gateway whose site excepts even the gateway's own network, which no Plan would."""
    names = ("allowed.test", "*.suffix.test", "excepted.test", "nothing.test", *ADDRESSED)
    wish = document("locked", names)
    wish["egress_rules"]["exceptions"] = ["10.0.0.0/8"]
    with run_lab(fast(parse(json.dumps(wish))), RECORDS) as running:
        yield running


def settled(lab: EgressLab) -> list[dict[str, str]]:
    """The refusals of all that was asked for so far: they are told in order, so one more is waited for."""
    name = f"settled-{next(NUMBERS)}.test"
    lab.ask([job("hello", name)])
    wait_for("its refusal", lambda: f"{name}:443" in {event["target"] for event in lab.events()}, 20)
    return lab.events()


def refused(lab: EgressLab, attempts: list[dict[str, object]], wanted: set[tuple[str, str]]) -> None:
    """Nothing of this gets through, and each is told with its reason and with no other."""
    before, reached = len(settled(lab)), lab.hits()
    assert not any(answered(lab.ask(attempts)))
    # The last one is what it was settled with.
    refusals = settled(lab)[before:-1]
    assert {(event["target"], event["rule"]) for event in refusals if event["address"] == D1} == wanted
    assert lab.hits() == reached


def test_tls_is_refused_with_the_reason(lab: EgressLab) -> None:
    attempts = [job("hello", name) for name in (*BY_NAME, *NAMELESS, None)]
    attempts.append({"kind": "tcp", "to": GATEWAY, "port": 443, "say": b"SSH-2.0-x\r\n".hex()})
    wanted = {(f"{name}:443", rule) for name, rule in BY_NAME.items()}
    refused(lab, attempts, wanted | {(f"{GATEWAY}:443", rule) for rule in ("no-dns-name", "no-name", "no-tls")})


def test_http_is_refused_with_the_reason(lab: EgressLab) -> None:
    attempts = [job("http", name) for name in (*BY_NAME, *NAMELESS, "allowed.test:22")]
    attempts.append({"kind": "tcp", "to": GATEWAY, "port": 80, "say": b"GET / HTTP/1.0\r\n\r\n".hex()})
    wanted = {(f"{name}:80", rule) for name, rule in BY_NAME.items()} | {("allowed.test:80", "port")}
    refused(lab, attempts, wanted | {(f"{GATEWAY}:80", rule) for rule in ("no-dns-name", "no-name")})


def test_what_is_refused_while_the_watcher_is_busy_is_told_when_it_goes_on(lab: EgressLab) -> None:
    names = [f"behind-{number}.test" for number in range(QUEUED // 8)]
    before = len(settled(lab))
    lab.watcher.send_signal(signal.SIGSTOP)
    try:
        assert not any(answered(lab.ask([job("http", name) for name in names])))
    finally:
        lab.watcher.send_signal(signal.SIGCONT)
    wanted = {f"{name}:80" for name in names}
    wait_for("the events", lambda: wanted <= {event["target"] for event in lab.events()[before:]}, 20)


@pytest.mark.parametrize("method", ["CONNECT", "TRACE"])
def test_methods_of_proxies_are_none_of_the_routers(lab: EgressLab, method: str) -> None:
    target = "allowed.test:80" if method == "CONNECT" else "/"
    say = f"{method} {target} HTTP/1.1\r\nHost: allowed.test:80\r\n\r\n"
    (answer,) = lab.ask([{"kind": "tcp", "to": GATEWAY, "port": 80, "say": say.encode().hex()}])
    assert answer["text"].startswith("HTTP/1.1 405")


def test_what_is_carried_is_told_as_no_refusal(lab: EgressLab) -> None:
    before = len(settled(lab))
    assert all(answered(lab.ask([job(kind, name) for kind in ("hello", "http") for name in CARRIED])))
    # The last one is what it was settled with.
    assert settled(lab)[before:-1] == []
