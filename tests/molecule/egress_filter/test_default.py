"""A locked workspace: a desktop reaches the names on the list, by name, and nothing else."""

import json
from collections.abc import Callable
from typing import Any

from deskyard.lab.hosts import METADATA, OUTSIDE_NAME, PRIVATE, PUBLIC
from deskyard.wire.gateway_settings import Settings
from tests.gateway.test_dns import ASK
from tests.molecule.conftest import Eventually

# What the far side says on a port first, or what comes back for a line of HTTP.
TALK = """
import socket, sys
line = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5); line.settimeout(10)
if len(sys.argv) > 3:
    line.sendall(f"GET / HTTP/1.1\\r\\nHost: {sys.argv[3]}\\r\\nConnection: close\\r\\n\\r\\n".encode())
print(line.recv(4096).decode("latin-1"))
"""


def answer(desktop: Any, settings: Settings, name: str) -> Any:
    asked = desktop.check_output("python3 -c %s %s %s", ASK, settings.workspace_address, json.dumps([name]))
    return json.loads(asked)[name]


def test_name_with_a_port_is_carried_to_the_far_side(desktop: Any, settings: Settings, eventually: Eventually) -> None:
    eventually(lambda: answer(desktop, settings, OUTSIDE_NAME) is not None, "a lease and an answer")
    (forward,) = settings.egress_rules.forwards
    assert answer(desktop, settings, OUTSIDE_NAME) == [0, forward.address]
    assert "hello" in desktop.check_output("python3 -c %s %s 22", TALK, forward.address)


def test_other_names_do_not_exist_and_are_refused_by_name(desktop: Any, settings: Settings) -> None:
    assert answer(desktop, settings, "evil.test") == [3, None]
    refused = desktop.check_output("python3 -c %s %s 80 evil.test", TALK, settings.workspace_address)
    assert refused.startswith("HTTP/1.1 403")


def test_addresses_are_reached_by_nobody(connects: Callable[..., dict[str, bool]], settings: Settings) -> None:
    addresses = (PUBLIC, METADATA, PRIVATE, settings.host_address)
    asked = [f"{address}:{port}" for address in addresses for port in (22, 53, 80, 443)]
    assert connects(*asked) == dict.fromkeys(asked, False)
