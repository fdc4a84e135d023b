"""Upgrades that are begun and never finished (case 42): the door holds them, goes on, and lets go of them in time."""

import os
import resource
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from deskyard.gateway.machine.layout import Layout
from deskyard.plan.workspace import GATEWAY_MEMORY_MIB
from tests.bench.load import upgrade_head
from tests.gateway.conftest import run_gateway
from tests.gateway.support import HOSTNAME, Gateway, wait_for
from tests.support.requirements import missing

SAMPLE, DEEP = 300, 10_000
SOURCES = 20
# In the 5 s that it has as built this machine, which plays both sides, opens fewer than an attacker can.
AS_BUILT, SAMPLE_SECONDS, DEEP_SECONDS = ("timeout http-request 5s", "timeout client 10s"), 20, 180
OPENERS = 8


def patient(gateway_file: str, seconds: int) -> str:
    """HAProxy waits longer for the end of a request; of this machine's open files it takes what it gets."""
    for line in AS_BUILT:
        assert line in gateway_file
        gateway_file = gateway_file.replace(line, f"{line.rpartition(' ')[0]} {seconds}s")
    return gateway_file.replace("global\n", "global\n    no strict-limits\n", 1)


def half_open(gateway: Gateway, number: int, head: bytes) -> socket.socket:
    """A connection from one of the source addresses: TLS is there, the request is not all there."""
    source = f"127.0.3.{number % SOURCES + 1}"
    line = socket.create_connection(("127.0.0.1", gateway.layout.listen_port), 120, (source, 0))
    with gateway.trust.wrap_socket(line, server_hostname=HOSTNAME) as secure:
        secure.sendall(head)
        # It goes on without this side's part of TLS, which would take as much memory as the door's.
        return socket.socket(fileno=os.dup(secure.fileno()))


@contextmanager
def half_opened(gateway: Gateway, count: int) -> Iterator[list[socket.socket]]:
    """So many of them, each with a good cookie and without the end of its head."""
    _, cookie = gateway.session("d1")
    head = upgrade_head("/d/d1/vnc", gateway.authority, Origin=gateway.origin, Cookie=cookie).removesuffix(b"\r\n")
    lines: list[socket.socket] = []
    try:
        with ThreadPoolExecutor(OPENERS) as pool:
            for line in pool.map(lambda number: half_open(gateway, number, head), range(count)):
                lines.append(line)
        yield lines
    finally:
        for line in lines:
            line.close()


def at_the_door(gateway: Gateway) -> int:
    """Connections that HAProxy holds."""
    (worker,) = gateway.workers()
    shown = gateway.ask_master(f"@!{worker} show info")
    return int(next(line for line in shown.splitlines() if line.startswith("CurrConns:")).split()[1])


def memory_mib(gateway: Gateway) -> float:
    """What HAProxy's worker has of this machine's memory."""
    (worker,) = gateway.workers()
    status = Path(f"/proc/{worker}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1]) / 1024


def ended(line: socket.socket) -> bool:
    """Whether the door ends this connection; what it still says is read away."""
    line.settimeout(2 * DEEP_SECONDS)
    try:
        while line.recv(4096):
            pass
    except ConnectionResetError:
        pass
    return True


@pytest.mark.parametrize(
    ("count", "seconds"),
    [(SAMPLE, SAMPLE_SECONDS), pytest.param(DEEP, DEEP_SECONDS, marks=pytest.mark.deep)],
    ids=["sample", "deep"],
)
def test_half_open_upgrades_hold_up_nobody_and_are_gone_in_time(count: int, seconds: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count + 1000:
        missing(f"{count + 1000} open files, this machine allows {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    room = {"door_sockets": Layout.door_sockets}
    try:
        with run_gateway(Gateway(changes=room, weaken=lambda text: patient(text, seconds))) as gateway:
            _, cookie = gateway.session("d1")
            opened = gateway.upgrade(cookie=cookie)
            opened.read_until(b"|")
            before, empty = at_the_door(gateway), memory_mib(gateway)
            with half_opened(gateway, count) as lines:
                assert at_the_door(gateway) >= before + count
                assert opened.echo("goes on") == "goes on"
                _, other = gateway.session("d2")
                new = gateway.upgrade("/d/d2/terminal", other)
                new.read_until(b"|")
                assert new.echo("new") == "new"
                full = memory_mib(gateway)
                print(f"{count} half-open: {empty:.0f} -> {full:.0f} MiB")
                # A gateway that is full of them still fits its machine.
                assert empty + (full - empty) / count * Layout.door_sockets < GATEWAY_MEMORY_MIB
                assert all(ended(line) for line in lines)
            wait_for("the door to be free of them", lambda: at_the_door(gateway) <= before + 1)
            assert (opened.echo("still here"), new.echo("here too")) == ("still here", "here too")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_door_without_room_would_hold_up_the_next() -> None:
    """What the test above rules out: here half-open upgrades take all the room there is."""
    room = 40
    with run_gateway(
        Gateway(changes={"door_sockets": room}, weaken=lambda text: patient(text, DEEP_SECONDS))
    ) as gateway:
        with half_opened(gateway, room):
            line = socket.create_connection(("127.0.0.1", gateway.layout.listen_port), 3)
            with pytest.raises(TimeoutError), line:
                gateway.trust.wrap_socket(line, server_hostname=HOSTNAME)
        assert gateway.request("GET", "/healthz")[0].status == 200
