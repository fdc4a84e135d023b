"""One connection to the gateway serves many questions, and goes with its workspace; sshd is real."""

import json
import time
from collections.abc import Iterator

import pytest

from deskyard.access import gateway_program
from deskyard.errors import ConfigError, SiteError
from deskyard.plan.workspace import GATEWAY
from deskyard.wire import session_requests
from tests.desktop.lab import Lab

SECONDS = 30.0
# A session service that answers with what it was asked, and a program that says that it was started.
SERVICE = """
import json, os, socket, sys
path = "/run/deskyard-session/admin.sock"
os.makedirs(os.path.dirname(path), exist_ok=True)
line = socket.socket(socket.AF_UNIX)
line.bind(path)
os.chmod(path, 0o600)
line.listen()
os.fork() and os._exit(0)
os.setsid()
os.dup2(os.open("/dev/null", os.O_RDWR), 0), os.dup2(0, 1), os.dup2(0, 2)
while True:
    asking, _ = line.accept()
    request = json.loads(asking.makefile("rb").read())
    refused = {"field": "routes", "value": "x", "reason": "no", "remedy": "yes"}
    answer = {"error": refused} if request.get("routes") == ["x"] else {"result": [request]}
    asking.sendall(json.dumps(answer).encode())
    asking.close()
"""
PROGRAM = '#!/bin/sh\nprintf \'{"started": "%s"}\' "$*"\n'


@pytest.fixture
def gateway(lab: Lab) -> Iterator[Lab]:
    lab.do(GATEWAY, f"cat >/usr/bin/deskyard-gateway <<'END'\n{PROGRAM}END\nchmod 755 /usr/bin/deskyard-gateway")
    lab.link.close()
    yield lab
    lab.link.close()
    lab.do(GATEWAY, "pkill -f admin.sock; rm -rf /usr/bin/deskyard-gateway /run/deskyard-session", check=False)


def serve(lab: Lab) -> None:
    lab.do(GATEWAY, f"python3 - <<'END'\n{SERVICE}END")


def accepted(lab: Lab) -> int:
    """How often sshd of the gateway let the manager in."""
    count = "journalctl -t sshd -t sshd-session | grep -c 'Accepted publickey for deskyard' || true"
    return int(lab.do(GATEWAY, count).stdout)


def gone(lab: Lab) -> None:
    """Wait until ssh has taken the socket away: it answers first."""
    until = time.monotonic() + SECONDS
    while lab.link.control.exists():
        assert time.monotonic() < until, lab.link.control
        time.sleep(0.02)


def test_the_service_is_asked_by_one_connection_and_no_program_starts(gateway: Lab) -> None:
    serve(gateway)
    before = accepted(gateway)
    for number in range(4):
        request = session_requests.grant("dev1", None, "drive", number, "ada")
        assert gateway_program.ask_service(gateway.link, request, ["never"]) == [request]
    assert accepted(gateway) == before + 1
    assert gateway.link.control.is_socket()
    refused = session_requests.grant("dev1", ["x"], "drive", 1, "ada")
    with pytest.raises(ConfigError, match="routes = 'x': no"):
        gateway_program.ask_service(gateway.link, refused, ["never"])


def test_closed_the_connection_is_gone_and_the_next_question_makes_another(gateway: Lab) -> None:
    assert gateway_program.ask(gateway.link, ["list"]) == {"started": "list"}
    before = accepted(gateway)
    # As a destroyed workspace has it: the files of the way are gone already.
    way = gateway.link.config.read_text()
    gateway.link.config.unlink()
    gateway.link.close()
    gone(gateway)
    gateway.link.config.write_text(way)
    gateway.link.close()
    assert gateway_program.ask(gateway.link, ["list"]) == {"started": "list"}
    assert accepted(gateway) == before + 1


def test_without_a_service_its_program_answers(gateway: Lab) -> None:
    answer = gateway_program.ask_service(gateway.link, session_requests.listing(), ["list", "x"])
    assert answer == {"started": "list x"}


def test_a_gateway_without_socat_is_asked_by_its_program(gateway: Lab) -> None:
    serve(gateway)
    gateway.do(GATEWAY, "mv /usr/bin/socat /usr/bin/socat.away")
    try:
        assert gateway_program.ask_service(gateway.link, session_requests.listing(), ["list"]) == {"started": "list"}
    finally:
        gateway.do(GATEWAY, "mv /usr/bin/socat.away /usr/bin/socat")


def test_a_new_key_of_the_gateway_ends_the_connection_that_was_made_with_the_old_one(gateway: Lab) -> None:
    gateway_program.ask(gateway.link, ["list"])
    pinned = gateway.link.known_hosts.read_text()
    key = next(line for line in pinned.splitlines() if line.startswith("lab.gateway ")).partition(" ")[2]
    gateway.link.pin(GATEWAY, key)
    assert gateway.link.control.is_socket()
    try:
        gateway.link.pin(GATEWAY, "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
        gone(gateway)
        with pytest.raises(SiteError):
            gateway_program.ask(gateway.link, ["list"])
    finally:
        gateway.link.known_hosts.write_text(pinned)


def test_a_connection_that_breaks_is_made_anew(gateway: Lab) -> None:
    gateway_program.ask(gateway.link, ["list"])
    gateway.do(GATEWAY, "pkill -u deskyard -f 'sshd.*deskyard'")
    until = time.monotonic() + SECONDS
    while True:
        try:
            assert gateway_program.ask(gateway.link, ["list"]) == {"started": "list"}
            return
        except SiteError:
            assert time.monotonic() < until, json.dumps({"control": str(gateway.link.control)})
