"""Names with a port of their own: an address that must not be reached is refused there as on the ports of the web."""

import json
import time
from collections.abc import Iterator

import pytest

from deskyard.wire.gateway_settings import parse
from tests.gateway.egress_lab import D1, PUBLIC, EgressLab, run_lab
from tests.gateway.support import wait_for
from tests.gateway.test_egress import REBINDING, V6, answered, fast
from tests.unit.gateway.support import document

INSIDE = ("loopback.test", "metadata.test", "private2.test", "private3.test", "this-network.test", "multicast.test")
OWN = ("gateway.test", "uplink.test", "host.test", "desktop.test", "forward.test")
RULES = {
    **dict.fromkeys((*INSIDE, *OWN), "address"),
    # Its only addresses are of IPv6, or it has none.
    **dict.fromkeys((*V6, "mapped-public.test", "nothing.test"), "unresolvable"),
}
RECORDS = {
    **{name: {"A": [REBINDING[name]]} for name in (*INSIDE, *OWN)},
    **{name: {"AAAA": [address]} for name, address in V6.items()},
    "mapped-public.test": {"AAAA": [f"::ffff:{PUBLIC}"]},
    "nothing.test": {"A": []},
    "*": {"A": [PUBLIC]},
}


@pytest.fixture(scope="module", params=[[], ["10.0.0.0/8"]], ids=["plain", "excepted"])
def lab(request: pytest.FixtureRequest) -> Iterator[EgressLab]:
    """A locked gateway with a port of its own for each name; no Plan would make these exceptions."""
    wish = document("locked", ("allowed.test", "git.test:22", *(f"{name}:22" for name in RULES)))
    wish["egress_rules"]["exceptions"] = request.param
    with run_lab(fast(parse(json.dumps(wish))), RECORDS) as running:
        yield running


def test_a_name_with_a_port_that_points_inside_is_refused_with_its_reason(lab: EgressLab) -> None:
    addresses = {forward.name: forward.address for forward in lab.settings.egress_rules.forwards}
    assert answered(lab.ask([{"kind": "tcp", "to": addresses["git.test"], "port": 22}])) == [True]
    before = lab.hits()
    jobs = [{"kind": "tcp", "to": addresses[name], "port": 22} for name in RULES]

    def refusals() -> dict[str, str]:
        assert answered(lab.ask(jobs)) == [False] * len(jobs)
        time.sleep(0.5)
        return {event["target"]: event["rule"] for event in lab.events() if event["address"] == D1}

    wanted = {f"{name}:22": rule for name, rule in RULES.items()}
    wait_for("the events", lambda: wanted.items() <= refusals().items(), 20)
    # What was carried is told as no refusal.
    assert refusals().keys() == wanted.keys()
    assert lab.hits() == before
