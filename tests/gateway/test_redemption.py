"""Right tickets open whatever false ones are tried from the same address, and the forwarder says whom each is from."""

import csv
import http.client
import json
import signal
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from deskyard.site.libvirt import forward
from deskyard.site.libvirt.forward import Forward
from tests.gateway.conftest import run_gateway
from tests.gateway.support import HOSTNAME, Gateway, wait_for
from tests.support.ports import free_ports

FORWARDER, CLIENT, OTHER = "127.0.0.7", "127.0.0.8", "127.0.0.9"
FALSE = "A" * 43
PROXY_LINE = b"PROXY TCP4 10.9.9.9 10.0.0.2 1234 443\r\n"
MOST = 5


def redeem(gateway: Gateway, ticket: str, port: int, address: str) -> int:
    """The status of a redemption at this port, by a client with this address."""
    with connect(gateway, port, address) as line:
        return ask(gateway, line, ticket)


def connect(gateway: Gateway, port: int, address: str, first: bytes = b"") -> ssl.SSLSocket:
    """A connection over TLS; `first` is sent before."""
    line = socket.create_connection(("127.0.0.1", port), 20, source_address=(address, 0))
    line.sendall(first)
    return gateway.trust.wrap_socket(line, server_hostname=HOSTNAME)


def ask(gateway: Gateway, line: ssl.SSLSocket, ticket: str) -> int:
    """The status of a redemption over an open connection, which stays open."""
    requests = http.client.HTTPConnection(HOSTNAME)
    requests.sock = line
    fields = {"Host": gateway.authority, "Origin": gateway.origin}
    requests.request("POST", "/redeem", json.dumps({"ticket": ticket}), fields)
    answer = requests.getresponse()
    answer.read()
    return answer.status


@contextmanager
def forwarded(gateway: Gateway, folder: Path) -> Iterator[int]:
    """This machine's forwarder before the gateway; the port that it leads there."""
    (port,) = free_ports(1)
    target = f"127.0.0.1:{gateway.layout.listen_port} source {FORWARDER}"
    (folder / "forward.cfg").write_text(Forward("local", "demo", "127.0.0.1", port, "").configuration(target))
    with (folder / "forward.log").open("w") as log:
        process = subprocess.Popen(["haproxy", "-db", "-f", str(folder / "forward.cfg")], stdout=log, stderr=log)
    try:
        wait_for("the forwarder", lambda: forward.takes_connections("127.0.0.1", port))
        yield port
    finally:
        process.kill()
        process.wait(10)


def test_66_right_ticket_opens_while_its_address_is_over_the_limit_of_false_ones() -> None:
    with run_gateway(Gateway(false_tickets_per_minute=MOST)) as gateway:
        right = [gateway.grant("d1")["ticket"] for _ in range(3)]
        assert [gateway.redeem(FALSE)[0] for _ in range(MOST + 1)] == [403] * MOST + [429]
        assert [gateway.redeem(ticket)[0] for ticket in right] == [200] * 3
        # It opened once; and the next false one is refused as the last.
        assert gateway.redeem(right[0])[0] == gateway.redeem(FALSE)[0] == 429


@pytest.mark.parametrize("threads", [8, pytest.param(64, marks=pytest.mark.deep)], ids=["sample", "deep"])
def test_66_right_ticket_opens_in_the_middle_of_a_flood_from_its_own_address(threads: int) -> None:
    with run_gateway(Gateway(false_tickets_per_minute=MOST)) as gateway:
        over = threading.Event()
        tried = []

        def flood(_: int) -> None:
            while not over.is_set():
                with suppress(OSError, http.client.HTTPException), gateway.connect() as line:
                    while not over.is_set():
                        tried.append(ask(gateway, line, FALSE))

        with ThreadPoolExecutor(threads) as pool:
            floods = [pool.submit(flood, number) for number in range(threads)]
            try:
                wait_for("the flood", lambda: tried.count(429) > 50)
                assert [gateway.redeem(gateway.grant("d1")["ticket"])[0] for _ in range(5)] == [200] * 5
                # Pages are not behind it.
                assert gateway.request("GET", "/")[0].status == 200
            finally:
                over.set()
        assert [flood.exception() for flood in floods] == [None] * threads


def test_66_flood_of_false_tickets_is_counted_in_the_audit_and_not_written_down_each_time() -> None:
    with run_gateway(Gateway(false_tickets_per_minute=MOST)) as gateway:
        for _ in range(5 * MOST):
            gateway.redeem(FALSE)
        refused = [line for line in gateway.audit() if line["event"] == "refuse"]
        assert len(refused) <= MOST + 1
        assert refused[-1]["status"] == 429


def test_66_clients_behind_the_forwarder_are_told_apart_and_listed_by_their_own_addresses(tmp_path: Path) -> None:
    with run_gateway(Gateway(false_tickets_per_minute=MOST, forwarder=FORWARDER)) as gateway:
        with forwarded(gateway, tmp_path) as port:
            statuses = [redeem(gateway, FALSE, port, CLIENT) for _ in range(MOST + 1)]
            assert statuses == [403] * MOST + [429]
            assert redeem(gateway, FALSE, port, OTHER) == 403
            granted = gateway.grant("d1")
            assert redeem(gateway, granted["ticket"], port, CLIENT) == 200
        (used,) = [session for session in gateway.listing() if session["id"] == granted["id"]]
        assert used["address"] == CLIENT


def forge(gateway: Gateway, port: int) -> None:
    """Say as a client that the connection is from somebody else, which must fail."""
    with pytest.raises(OSError), connect(gateway, port, CLIENT, PROXY_LINE):
        pass


def test_66_nobody_but_the_forwarder_says_whom_a_connection_is_from(tmp_path: Path) -> None:
    with run_gateway(Gateway(forwarder=FORWARDER)) as gateway, forwarded(gateway, tmp_path) as port:
        door = gateway.layout.listen_port
        # Past the forwarder, and through it: what is sent first is no TLS.
        forge(gateway, door)
        forge(gateway, port)
        with connect(gateway, door, FORWARDER, PROXY_LINE) as believed:
            assert ask(gateway, believed, FALSE) == 403
        assert [event["address"] for event in gateway.audit() if event["event"] == "refuse"] == ["10.9.9.9"]
        # The forwarder that says nothing is not let in as itself.
        with pytest.raises(OSError), connect(gateway, door, FORWARDER):
            pass


def test_66_door_that_believes_everybody_is_noticed() -> None:
    def weaken(text: str) -> str:
        good = f"if {{ src {FORWARDER} }}"
        assert good in text
        return text.replace(good, f"if {{ src {FORWARDER} {CLIENT} }}")

    with run_gateway(Gateway(forwarder=FORWARDER, weaken=weaken)) as weak, pytest.raises(pytest.fail.Exception):
        forge(weak, weak.layout.listen_port)


def test_one_client_of_the_forwarder_leaves_room_for_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forward, "MOST_OF_ONE", MOST)
    with run_gateway(Gateway(forwarder=FORWARDER)) as gateway, forwarded(gateway, tmp_path) as port:
        held = [connect(gateway, port, CLIENT) for _ in range(MOST)]
        with pytest.raises(OSError), connect(gateway, port, CLIENT):
            pass
        assert redeem(gateway, FALSE, port, OTHER) == 403
        for line in held:
            line.close()


def answer(gateway: Gateway, command: str) -> str:
    """What the door's HAProxy answers to a command."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(gateway.layout.proxy_run / "worker.sock"))
        line.sendall(f"{command}\n".encode())
        return b"".join(iter(lambda: line.recv(65536), b"")).decode()


def backend(gateway: Gateway, name: str, column: str) -> int:
    """What HAProxy counts of one of the door's backends."""
    rows = csv.DictReader(answer(gateway, "show stat").removeprefix("# ").splitlines())
    return next(int(row[column]) for row in rows if (row["pxname"], row["svname"]) == (name, "BACKEND"))


def test_66_false_tickets_are_counted_by_address_and_no_other_request_is() -> None:
    with run_gateway(Gateway()) as gateway:
        assert gateway.request("GET", "/d/d1/nothing")[0].status == 404
        assert gateway.request("GET", "/")[0].status == 200
        assert "used:0" in answer(gateway, "show table false_tickets")
        assert gateway.redeem(FALSE)[0] == 403
        counted = answer(gateway, "show table false_tickets")
        assert "used:1" in counted
        assert "http_err_rate(60000)=1" in counted


def test_66_tickets_wait_behind_each_other_and_nothing_else_does() -> None:
    with run_gateway(Gateway()) as gateway:
        assert gateway.request("GET", "/")[0].status == 200
        assert backend(gateway, "redemption", "stot") == 0
        pages = backend(gateway, "session_service", "stot")
        assert gateway.redeem(FALSE)[0] == 403
        assert backend(gateway, "redemption", "stot") == 1
        assert backend(gateway, "session_service", "stot") == pages


@contextmanager
def halted(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """A process that does nothing until the end of the block."""
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def test_66_ticket_of_a_quiet_address_is_looked_at_before_those_of_one_that_floods() -> None:
    crowd, at_once = 40, 20  # at once: of the backend's server
    with run_gateway(Gateway(false_tickets_per_minute=MOST)) as gateway, ThreadPoolExecutor(crowd + 1) as pool:
        port, service = gateway.layout.listen_port, gateway.processes[0]
        with connect(gateway, port, CLIENT) as line:
            assert [ask(gateway, line, FALSE) for _ in range(MOST + 1)][-1] == 429
        log = gateway.root / "haproxy.log"
        before = len(log.read_text().splitlines())
        with halted(service):
            flood = [pool.submit(redeem, gateway, FALSE, port, CLIENT) for _ in range(crowd)]
            wait_for("a queue", lambda: backend(gateway, "redemption", "qcur") == crowd - at_once)
            quiet = pool.submit(redeem, gateway, FALSE, port, OTHER)
            wait_for("one more", lambda: backend(gateway, "redemption", "qcur") == crowd - at_once + 1)
        assert quiet.result() == 403
        assert {request.result() for request in flood} == {429}
        order = wait_for("all of it in the log", lambda: len(asked := redeemed(log, before)) == crowd + 1 and asked)
        assert order.index(OTHER) <= at_once + 5, order


def redeemed(log: Path, start: int) -> list[str]:
    """Who redeemed, in the order in which HAProxy was done with it."""
    lines = log.read_text().splitlines()[start:]
    return [address for line in lines if "path=/redeem" in line for address in (CLIENT, OTHER) if f"{address}:" in line]
