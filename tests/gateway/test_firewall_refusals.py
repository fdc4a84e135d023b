"""How the firewall refuses: a desktop is told at once and in its own name, whoever forges an address hears nothing."""

import json
import sys
from collections.abc import Iterator

import pytest

from tests.gateway.egress_guest import query
from tests.gateway.egress_lab import D1, GATEWAY, PUBLIC, EgressLab, run_lab
from tests.gateway.support import wait_for
from tests.gateway.test_egress import fast
from tests.unit.gateway.support import parsed

FORGED = "10.80.1.77"
# Connects from an address; prints what became of it.
KNOCK = """
import json, socket, sys
line = socket.socket(); line.settimeout(1.5); line.bind((sys.argv[1], 0))
try:
    line.connect((sys.argv[2], int(sys.argv[3]))); print(json.dumps("open"))
except ConnectionRefusedError:
    print(json.dumps("refused"))
except OSError:
    print(json.dumps("silent"))
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[EgressLab]:
    """A locked workspace with a desktop that has an address of its own choice as well."""
    with run_lab(fast(parsed("locked", ("allowed.test",))), {"*": {"A": [PUBLIC]}}) as running:
        running.nets.run("d1", "ip", "address", "add", f"{FORGED}/25", "dev", "eth0")
        yield running


def knock(lab: EgressLab, source: str, address: str, port: int) -> str:
    """What a connection from this address comes to."""
    return str(json.loads(lab.nets.run("d1", sys.executable, "-c", KNOCK, source, address, str(port))))


@pytest.mark.parametrize(("address", "port"), [(GATEWAY, 9999), (PUBLIC, 80), (GATEWAY, 22)])
def test_desktop_is_refused_at_once_and_a_forged_address_hears_nothing(lab: EgressLab, address: str, port: int) -> None:
    assert knock(lab, D1, address, port) == "refused"
    assert knock(lab, FORGED, address, port) == "silent"


def test_refusals_are_told_of_desktops_alone(lab: EgressLab) -> None:
    knock(lab, FORGED, GATEWAY, 4001)
    knock(lab, D1, GATEWAY, 4002)

    def refusals() -> dict[str, str]:
        return {event["target"]: event["address"] for event in lab.events()}

    wait_for("the event", lambda: f"{GATEWAY}:4002" in refusals())
    assert refusals()[f"{GATEWAY}:4002"] == D1
    assert FORGED not in refusals().values()


@pytest.mark.parametrize("timestamps", [0, 1])
def test_names_asked_for_over_tcp_are_told(lab: EgressLab, timestamps: int) -> None:
    """With timestamps the header of TCP is longer, and the answer lies elsewhere."""
    lab.nets.run("gw", "sysctl", "-q", "-w", f"net.ipv4.tcp_timestamps={timestamps}")
    name = f"over-tcp-{timestamps}.test"
    asked = query(name, 1)
    lab.ask([{"kind": "tcp", "to": GATEWAY, "port": 53, "say": (len(asked).to_bytes(2, "big") + asked).hex()}])
    wait_for("the event", lambda: (name, "name") in {(event["target"], event["rule"]) for event in lab.events()})
