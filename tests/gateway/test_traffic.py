"""Bytes and connections of a locked workspace are counted for each desktop and name, whatever a desktop does.

Witnesses: clients in the desktops' namespaces, which count for themselves what they sent and received.
"""

import contextlib
import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deskyard.gateway.egress import traffic
from deskyard.gateway.egress.ask import line
from deskyard.gateway.egress.counters import OTHERS, ROWS_BELOW
from deskyard.gateway.machine.layout import Layout
from tests.gateway.egress_guest import client_hello
from tests.gateway.egress_lab import GATEWAY, PUBLIC, SECURE, EgressLab, job, run_lab
from tests.gateway.support import wait_for
from tests.gateway.test_egress import answered, fast
from tests.gateway.test_egress_changes import entries
from tests.unit.gateway.support import parsed

ALLOW = ("allowed.test", "*.made.test", "own.made.test", "secure.test", "git.test:22", "a.test", "b.test", "c.test")
RECORDS: dict[str, Any] = {"secure.test": {"A": [SECURE]}, "*": {"A": [PUBLIC]}}
Counts = tuple[int, int, int]

# Says so many bytes for each line it reads, and at the end all that it sent and received.
CLIENT = """
import json, socket, sys
line = socket.create_connection((sys.argv[1], 443), 80); hello = bytes.fromhex(sys.argv[2])
line.sendall(hello); sent, received = len(hello), len(line.recv(65536))
print(received, flush=True)
for word in sys.stdin:
    line.sendall(bytes(int(word))); sent += int(word)
    received += len(line.recv(65536))
    print(received, flush=True)
line.shutdown(socket.SHUT_WR)
while data := line.recv(65536): received += len(data)
print(json.dumps([1, sent, received]), flush=True)
"""
# The same with TLS from end to end; it counts what is on the line, not what is in it.
TLS_CLIENT = """
import json, socket, ssl, sys
line = socket.create_connection((sys.argv[1], 443), 80)
came, goes = ssl.MemoryBIO(), ssl.MemoryBIO()
tls = ssl.create_default_context(cafile=sys.argv[2]).wrap_bio(came, goes, server_hostname="secure.test")
sent = received = 0
def step(do, *arguments):
    global sent, received
    while True:
        waits = False
        try: do(*arguments)
        except ssl.SSLWantReadError: waits = True
        data = goes.read(); line.sendall(data); sent += len(data)
        if not waits: return
        data = line.recv(65536); received += len(data); came.write(data)
        if not data: raise EOFError
step(tls.do_handshake)
step(tls.write, bytes(1000))
step(tls.read, 100)
line.shutdown(socket.SHUT_WR)
while data := line.recv(65536): received += len(data)
print(json.dumps([1, sent, received]))
"""
# Sends first what a proxy would say of another desktop, then a hello.
LIAR = """
import socket, sys
line = socket.create_connection((sys.argv[1], 443), 80)
line.sendall(b"PROXY TCP4 10.80.1.11 10.80.1.1 4000 443\\r\\n" + bytes.fromhex(sys.argv[2]))
print(line.recv(100))
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[EgressLab]:
    """A locked gateway; each test has names of its own."""
    settings = fast(parsed("locked", ALLOW))
    rules = replace(settings.egress_rules, ask=("*.asked.test",))
    with run_lab(replace(settings, egress_rules=rules), RECORDS) as running:
        yield running


def place(lab: EgressLab) -> Path:
    return Layout(root=lab.root).traffic_file


def counted(lab: EgressLab, name: str, desktop: str = "d1") -> Counts:
    rows = [row for row in traffic.read(place(lab)) if (row["desktop"], row["name"]) == (desktop, name)]
    return (sum(r["connections"] for r in rows), sum(r["sent"] for r in rows), sum(r["received"] for r in rows))


def names(lab: EgressLab, desktop: str) -> list[str]:
    return [row["name"] for row in traffic.read(place(lab)) if row["desktop"] == desktop]


def begun(lab: EgressLab, name: str, desktop: str = "d1") -> subprocess.Popen[str]:
    return lab.popen(desktop, sys.executable, "-c", CLIENT, GATEWAY, client_hello(name.encode()).hex())


def client(lab: EgressLab, name: str, desktop: str = "d1") -> subprocess.Popen[str]:
    """A client whose connection has reached its server."""
    process = begun(lab, name, desktop)
    heard(process)
    return process


def heard(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def say(process: subprocess.Popen[str], size: int) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{size}\n")
    process.stdin.flush()
    heard(process)


def ended(process: subprocess.Popen[str]) -> Counts:
    """What a client counted itself, when its connection is over."""
    connections, sent, received = json.loads(process.communicate(timeout=60)[0].splitlines()[-1])
    return connections, sent, received


def test_what_was_sent_and_received_is_counted_to_the_byte(lab: EgressLab) -> None:
    first = client(lab, "allowed.test")
    say(first, 100_000)
    script = [sys.executable, "-c", TLS_CLIENT, GATEWAY, str(lab.run_folder / "server.pem")]
    sums = ended(first)
    wait_for("the counts", lambda: counted(lab, "allowed.test")[1] >= sums[1])
    # One more than this test's: the lab waits with a request until the router is there.
    assert counted(lab, "allowed.test")[1:] >= sums[1:]
    days = {row["day"] for row in lab.cli("traffic")["traffic"] if row["name"] == "allowed.test"}
    began = (lab.run_folder / "layout.json").stat().st_mtime
    assert days <= {traffic.day(began), traffic.day(time.time())}
    tls = ended(lab.popen("d1", *script))
    assert tls[1] > 1000  # and what TLS itself takes
    wait_for("the counts of TLS", lambda: counted(lab, "secure.test") == tls)


def test_two_desktops_are_kept_apart(lab: EgressLab) -> None:
    mine, theirs = client(lab, "a.test"), client(lab, "a.test", "research-2")
    say(mine, 5000)
    wanted = ended(mine), ended(theirs)
    assert wanted[0] != wanted[1]
    wait_for("both", lambda: (counted(lab, "a.test"), counted(lab, "a.test", "research-2")) == wanted)


def test_an_open_connection_is_counted_before_it_ends(lab: EgressLab) -> None:
    stream = client(lab, "b.test")
    say(stream, 70_000)
    wait_for("what was sent so far", lambda: counted(lab, "b.test")[1] > 70_000)
    say(stream, 20_000)
    wait_for("what was sent since", lambda: counted(lab, "b.test")[1] > 90_000)
    assert stream.poll() is None
    sums = ended(stream)
    wait_for("all of it", lambda: counted(lab, "b.test") == sums)


def test_a_new_list_keeps_what_was_counted_and_goes_on_with_what_is_open(lab: EgressLab) -> None:
    stream, over = client(lab, "c.test"), client(lab, "c.test", "research-2")
    before = ended(over)
    wait_for("the one that ended", lambda: counted(lab, "c.test", "research-2") == before)
    say(stream, 30_000)
    wait_for("the open one", lambda: counted(lab, "c.test")[1] > 30_000)
    lab.cli("allow", "new.test")
    assert "new.test" in entries(lab)
    say(stream, 10_000)
    wait_for("the open one in the old worker", lambda: counted(lab, "c.test")[1] > 40_000)
    second = client(lab, "c.test")
    sums = ended(second)
    wait_for("the one in the new worker", lambda: counted(lab, "c.test")[0] == 2)
    wait_for("its bytes", lambda: counted(lab, "c.test")[1] == len(client_hello(b"c.test")) + 40_000 + sums[1])
    assert counted(lab, "c.test", "research-2") == before
    stream.kill()


def test_a_watcher_that_is_started_anew_counts_nothing_twice(lab: EgressLab) -> None:
    stream = client(lab, "again.made.test")
    say(stream, 10_000)
    wait_for("the open one", lambda: counted(lab, "again.made.test")[1] > 10_000)
    restart_watcher(lab)
    say(stream, 1000)
    wait_for("what came since", lambda: counted(lab, "again.made.test")[1] > 11_000)
    sums = ended(stream)
    wait_for("all of it, once", lambda: counted(lab, "again.made.test") == sums)


def restart_watcher(lab: EgressLab) -> None:
    (watcher,) = [p for p in lab.processes if p.poll() is None and p.args[-1:] == ["watch"]]  # type: ignore[index]
    watcher.kill()
    watcher.wait(10)
    socket = lab.root / "run/deskyard-egress-watch/events.sock"
    socket.unlink()
    lab.start_program("watch")
    wait_for("the watcher", socket.exists)


def test_requests_on_port_80_and_names_with_a_port_are_counted_too(lab: EgressLab) -> None:
    (forward,) = lab.settings.egress_rules.forwards
    results = lab.ask([job("http", "web.made.test"), {"kind": "tcp", "to": forward.address, "port": 22}])
    assert answered(results) == [True, True]
    wait_for("the request", lambda: counted(lab, "web.made.test")[0] == 1)
    assert min(counted(lab, "web.made.test")[1:]) > 0
    wait_for("the other", lambda: counted(lab, "git.test:22") == (1, 0, len(f"outside {PUBLIC}:22\r\n")))


def test_what_was_refused_is_not_counted_and_what_a_person_allowed_is_counted_once(lab: EgressLab) -> None:
    held = begun(lab, "wait.asked.test")
    ticket = wait_for("the ticket", lambda: line.ask(Layout(root=lab.root).ask_socket, {"command": "list"}))[0]
    lab.cli("decide", ticket["id"], "--for", "900", "--actor", "ann")
    heard(held)
    sums = ended(held)
    results = lab.ask([job("hello", "evil.test"), job("hello", "x.asked.test\n")])
    assert [result["outcome"] for result in results] == ["closed", "closed"]
    wait_for("the allowed one", lambda: counted(lab, "wait.asked.test") == sums)
    assert not [name for name in names(lab, "d1") if name in ("evil.test", "x.asked.test")]


def test_a_desktop_cannot_count_for_another(lab: EgressLab) -> None:
    hello = client_hello(b"liar.made.test").hex()
    lies = [b"research-2/allowed.test", b"allowed.test gpt0=1", b"research-2\\ liar.made.test", b"..made.test"]
    results = lab.ask([{"kind": "hello", "to": GATEWAY, "port": 443, "sni": lie.hex()} for lie in lies])
    assert answered(results) == [False] * len(lies)
    assert lab.popen("d1", sys.executable, "-c", LIAR, GATEWAY, hello).communicate(timeout=60)[0] == "b''\n"
    sums = ended(client(lab, "liar.made.test"))
    wait_for("the honest one", lambda: counted(lab, "liar.made.test") == sums)
    assert "liar.made.test" not in names(lab, "research-2")


def test_made_up_names_share_a_row_and_push_none_out(lab: EgressLab) -> None:
    sums = ended(client(lab, "real.made.test"))
    wait_for("a name below the wildcard", lambda: counted(lab, "real.made.test") == sums)
    many = [job("hello", f"n{number}.made.test", seconds=60) for number in range(ROWS_BELOW + 50)]
    assert all(answered(lab.ask(many)))
    wait_for("the rest in one row", lambda: counted(lab, OTHERS)[0] >= 50)
    wait_for("all", lambda: made_up(lab) >= len(many))
    assert len([name for name in names(lab, "d1") if name not in (*ALLOW, OTHERS)]) == ROWS_BELOW
    # One that was there stays; one that is listed itself gets its row; another desktop has room of its own.
    own, theirs = ended(client(lab, "own.made.test")), ended(client(lab, "theirs.made.test", "research-2"))
    again = ended(client(lab, "real.made.test"))
    wait_for("the listed one", lambda: counted(lab, "own.made.test") == own)
    wait_for("the other desktop's", lambda: counted(lab, "theirs.made.test", "research-2") == theirs)
    both = tuple(map(sum, zip(sums, again, strict=True)))
    wait_for("the one that was there", lambda: counted(lab, "real.made.test") == both)
    assert OTHERS not in names(lab, "research-2")
    # Also when a new worker has room for other names.
    lab.cli("allow", "newer.test")
    before = counted(lab, OTHERS)[0]
    assert all(answered(lab.ask([job("hello", f"m{number}.made.test", seconds=60) for number in range(20)])))
    wait_for("the new ones among the rest", lambda: counted(lab, OTHERS)[0] >= before + 20)
    assert not [name for name in names(lab, "d1") if name.startswith("m")]


def made_up(lab: EgressLab) -> int:
    rows = traffic.read(place(lab))
    return sum(row["connections"] for row in rows if row["name"].startswith("n") or row["name"] == OTHERS)


def test_traffic_that_cannot_be_written_down_is_made_up_for_and_holds_up_nothing(lab: EgressLab) -> None:
    start = counted(lab, "own.made.test")
    log = lab.run_folder / "watch.log"
    with contextlib.closing(sqlite3.connect(place(lab), timeout=60, isolation_level=None)) as other:
        other.execute("begin exclusive")
        sums = ended(client(lab, "own.made.test"))
        wait_for("the word of it", lambda: "traffic is not written down" in log.read_text())
        lab.ask([job("hello", "late.test")])
        wait_for("a refusal", lambda: [event for event in lab.events() if event["target"] == "late.test:443"])
    both = tuple(map(sum, zip(start, sums, strict=True)))
    wait_for("all of it", lambda: counted(lab, "own.made.test") == both)


def test_a_day_is_asked_for_and_a_wrong_one_is_named(lab: EgressLab) -> None:
    answer = lab.cli("traffic", "--since", "2999-01-01")
    assert (answer["workspace"], answer["egress"], answer["traffic"]) == ("demo", "locked", [])
    error = lab.cli("traffic", "--since", "2026-02-30")["error"]
    assert (error["field"], error["value"], error["reason"]) == ("since", "2026-02-30", "is no day")
