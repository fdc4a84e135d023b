"""The list of a locked workspace changes without a gap, for a time, for once, and whole or not at all."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.gateway.egress_guest import client_hello
from tests.gateway.egress_lab import GATEWAY, PUBLIC, TREE, EgressLab, job, run_lab
from tests.gateway.support import wait_for
from tests.gateway.test_egress import answered, dns, fast
from tests.unit.gateway.support import parsed

RECORDS: dict[str, Any] = {"*": {"A": [PUBLIC]}}
SAMPLE, DEEP = 20, 1000

# Holds one connection for an allowed name and says something on it whenever it is told to.
HOLD = """
import socket, sys
line = socket.create_connection((sys.argv[1], 443), 10); line.sendall(bytes.fromhex(sys.argv[2])); line.settimeout(20)
print(line.recv(100).decode().strip(), flush=True)
for word in sys.stdin:
    line.sendall(b"still here")
    print(line.recv(100).decode().strip(), flush=True)
"""


# Says half a greeting, the rest when it is told to, and what came of it.
EARLY = """
import socket, sys
line = socket.create_connection((sys.argv[1], 443), 10); line.settimeout(20)
hello = bytes.fromhex(sys.argv[2]); line.sendall(hello[:20])
print("connected", flush=True)
sys.stdin.readline()
try:
    line.sendall(hello[20:])
    answer = line.recv(100)
except OSError:
    answer = b""
print("answer" if answer.startswith(b"outside") else "ended", flush=True)
"""


@pytest.fixture(scope="module")
def running() -> Iterator[EgressLab]:
    """A locked gateway whose list the tests change."""
    with run_lab(fast(parsed("locked", ("allowed.test", "git.test:22"))), RECORDS) as lab:
        yield lab


@pytest.fixture
def lab(running: EgressLab) -> Iterator[EgressLab]:
    """The same with the declared list, also after a test that failed."""
    yield running
    running.reset()


def reached(lab: EgressLab, name: str) -> list[bool]:
    return answered(lab.ask([job("hello", name), job("http", name)]))


def entries(lab: EgressLab) -> list[str]:
    return [entry["entry"] for entry in lab.cli("egress")["allowed"]]


def said_again(holder: subprocess.Popen[str]) -> bool:
    """Whether the held connection still reaches its server."""
    assert holder.stdin is not None
    assert holder.stdout is not None
    holder.stdin.write("\n")
    holder.stdin.flush()
    return holder.stdout.readline().startswith("outside ")


@pytest.mark.parametrize("count", [SAMPLE, pytest.param(DEEP, marks=pytest.mark.deep)])
def test_31_no_forbidden_packet_passes_while_the_list_changes(lab: EgressLab, count: int) -> None:
    holder = lab.popen("d1", sys.executable, "-c", HOLD, GATEWAY, client_hello(b"allowed.test").hex())
    changes = lab.popen("gw", sys.executable, str(TREE / "tests/gateway/egress_changes.py"), str(count))
    assert holder.stdout is not None
    assert holder.stdout.readline().startswith("outside ")
    asked = len(lab.asked())
    forbidden = [
        job("hello", "evil.test"),
        job("http", "evil.test"),
        job("hello", "allowed.test", PUBLIC),
        {"kind": "tcp", "to": PUBLIC, "port": 8080},
        {"kind": "udp", "to": PUBLIC, "port": 53, "seconds": 0.05},
    ]
    rounds = 0
    while changes.poll() is None:
        results = lab.ask([*forbidden, job("hello", "allowed.test"), job("http", "allowed.test")])
        assert answered(results) == [False] * len(forbidden) + [True, True], results
        # The server outside ends connections that say nothing for long.
        assert said_again(holder), f"the open connection ended in round {rounds}"
        rounds += 1
    assert changes.returncode == 0
    assert changes.stdout is not None
    assert len(changes.stdout.read().split()) == count
    assert rounds >= count // 10
    assert said_again(holder)
    assert lab.asked()[asked:].count("evil.test") == 0
    assert not [hit for hit in lab.hits() if hit.endswith(":8080")]


def test_a_name_is_allowed_for_a_time_and_ends_by_itself(lab: EgressLab) -> None:
    assert reached(lab, "news.test") == [False, False]
    # Long enough to be seen while the machine has much else to do.
    state = lab.cli("allow", "news.test", "--for", "15", "--actor", "ada")
    (mine,) = [entry for entry in state["allowed"] if entry["entry"] == "news.test"]
    assert (mine["declared"], mine["once"], mine["actor"]) == (False, False, "ada")
    assert mine["until"]
    assert reached(lab, "news.test") == [True, True]
    assert lab.ask([dns("news.test")])[0]["text"] == f"0 {GATEWAY}"
    wait_for("the end", lambda: reached(lab, "news.test") == [False, False], 60)
    wait_for("its name to go", lambda: lab.ask([dns("news.test")])[0]["text"] == "3 0")
    assert reached(lab, "allowed.test") == [True, True]


def test_what_ended_while_the_gateway_was_off_is_not_there_again(lab: EgressLab) -> None:
    lab.cli("allow", "late.test", "--for", "3600")
    path = lab.root / "var/lib/deskyard-egress/grants.json"
    document = json.loads(path.read_text())
    document["granted"][0]["until"] = int(time.time()) - 5
    path.write_text(json.dumps(document))
    # The files still hold the name, as after a boot; the watcher puts that right.
    wait_for("the end", lambda: reached(lab, "late.test") == [False, False], 60)


def test_once_ends_with_the_first_connection(lab: EgressLab) -> None:
    lab.cli("allow", "once.test", "--once")
    assert reached(lab, "allowed.test") == [True, True]
    assert "once.test" in entries(lab)
    assert answered(lab.ask([job("hello", "once.test")])) == [True]
    wait_for("the end", lambda: "once.test" not in entries(lab))
    assert reached(lab, "once.test") == [False, False]


def test_a_port_is_allowed_and_forbidden_at_run_time(lab: EgressLab) -> None:
    lab.cli("allow", "code.test:22")
    (answer,) = lab.ask([dns("code.test")])
    address = answer["text"].split()[1]
    assert address not in (GATEWAY, lab.settings.egress_rules.forwards[0].address)
    assert answered(lab.ask([{"kind": "tcp", "to": address, "port": 22}])) == [True]
    lab.cli("forbid", "code.test:22")
    (after,) = lab.ask([{"kind": "tcp", "to": address, "port": 22}])
    assert after["outcome"] == "refused"


def closed(lab: EgressLab) -> list[tuple[str, str]]:
    return [(row["entry"], row["reason"]) for row in lab.cli("egress")["closed"]]


def test_a_closed_name_is_reached_by_nobody_whatever_allows_it_until_it_is_reopened(lab: EgressLab) -> None:
    lab.cli("allow", "*.models.test")
    names = ("allowed.test", "a.models.test", "b.models.test")
    assert [reached(lab, name) for name in names] == [[True, True]] * 3
    state = lab.cli("close", "allowed.test", "*.models.test", "--reason", "budget", "--actor", "ada")
    assert {(row["entry"], row["reason"], row["actor"]) for row in state["closed"]} == {
        ("allowed.test", "budget", "ada"),
        ("*.models.test", "budget", "ada"),
    }
    assert [reached(lab, name) for name in names] == [[False, False]] * 3
    lab.cli("allow", "a.models.test", "--for", "900")
    assert reached(lab, "a.models.test") == [False, False]
    # New settings are no way around, and neither is the watcher's next start.
    rules = lab.settings.egress_rules.with_entries(("allowed.test", "third.test", "a.models.test"))
    lab.apply(replace(lab.settings, egress_rules=rules))
    assert [reached(lab, name) for name in ("allowed.test", "a.models.test")] == [[False, False]] * 2
    assert reached(lab, "third.test") == [True, True]
    wait_for("the refusals", lambda: {e["target"] for e in lab.events() if e["rule"] == "closed"} >= {
        "allowed.test:443", "allowed.test:80", "b.models.test:443"
    })  # fmt: skip
    assert not [event["allow"] for event in lab.events() if event["rule"] == "closed" and event["allow"]]
    lab.cli("reopen", "allowed.test", "--reason", "budget")
    assert (reached(lab, "allowed.test"), reached(lab, "a.models.test")) == ([True, True], [False, False])


def test_what_was_open_ends_when_a_name_is_closed(lab: EgressLab) -> None:
    holder = lab.popen("d1", sys.executable, "-c", HOLD, GATEWAY, client_hello(b"allowed.test").hex())
    assert holder.stdout is not None
    assert holder.stdout.readline().startswith("outside ")
    assert said_again(holder)
    # Half a greeting: the list has not judged it yet.
    hello = client_hello(b"allowed.test")
    early = lab.popen("d1", sys.executable, "-c", EARLY, GATEWAY, hello.hex())
    assert early.stdin is not None
    assert early.stdout is not None
    assert early.stdout.readline() == "connected\n"
    lab.cli("close", "allowed.test")
    early.stdin.write("\n")
    early.stdin.flush()
    assert early.stdout.readline() == "ended\n"
    assert not said_again(holder)
    assert reached(lab, "allowed.test") == [False, False]


def test_what_was_closed_for_a_reason_is_not_reopened_without_it(lab: EgressLab) -> None:
    lab.cli("close", "allowed.test", "--reason", "budget")
    lab.cli("close", "allowed.test")
    assert closed(lab) == [("allowed.test", "budget"), ("allowed.test", "")]
    lab.cli("reopen", "allowed.test")
    assert (closed(lab), reached(lab, "allowed.test")) == ([("allowed.test", "budget")], [False, False])
    refused = lab.cli("reopen", "allowed.test")["error"]
    assert (refused["field"], refused["reason"], refused["remedy"]) == (
        "name",
        "is not closed",
        "choose one of: none is",
    )
    lab.cli("close", "allowed.test", "--reason", "budget")
    assert closed(lab) == [("allowed.test", "budget")]
    lab.cli("reopen", "allowed.test", "--reason", "budget")
    assert (closed(lab), reached(lab, "allowed.test")) == ([], [True, True])


def test_a_name_with_a_port_of_its_own_is_closed_there_too(lab: EgressLab) -> None:
    git = {"kind": "tcp", "to": lab.settings.egress_rules.forwards[0].address, "port": 22}
    assert answered(lab.ask([git])) == [True]
    lab.cli("close", "git.test")
    assert answered(lab.ask([git])) == [False]
    wait_for("the refusal", lambda: ("git.test:22", "closed") in {(e["target"], e["rule"]) for e in lab.events()})
    lab.cli("reopen", "git.test")
    assert answered(lab.ask([git])) == [True]


def test_a_page_says_that_a_name_is_closed(lab: EgressLab) -> None:
    lab.cli("close", "allowed.test")
    (answer,) = lab.ask([job("http", "allowed.test")])
    assert "allowed.test is closed for now" in answer["text"] and "./inv egress.list demo" in answer["text"]
    assert "egress.allow" not in answer["text"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("allowed.test:443", "has a port"),
        ("Allowed.test", "DNS name"),
        ("10.0.0.1", "an address"),
        ("*.test", "top-level"),
    ],
)
def test_what_cannot_be_closed_changes_nothing(lab: EgressLab, name: str, reason: str) -> None:
    refused = lab.cli("close", "allowed.test", name)["error"]
    assert (refused["field"], refused["value"]) == ("name", name) and reason in refused["reason"]
    assert refused["remedy"]
    assert (closed(lab), reached(lab, "allowed.test")) == ([], [True, True])


def test_declared_names_can_be_forbidden_until_the_next_settings(lab: EgressLab) -> None:
    lab.cli("forbid", "allowed.test")
    assert reached(lab, "allowed.test") == [False, False]
    lab.cli("allow", "other.test")
    assert entries(lab) == ["git.test:22", "other.test"]
    # The same settings again change nothing; other ones are the truth.
    lab.apply(lab.settings)
    assert entries(lab) == ["git.test:22", "other.test"]
    rules = lab.settings.egress_rules.with_entries(("allowed.test", "third.test"))
    lab.apply(replace(lab.settings, egress_rules=rules))
    assert entries(lab) == ["allowed.test", "third.test"]


def test_30_a_malformed_list_is_refused_whole(lab: EgressLab) -> None:
    for name, why in (("*.com", "top-level"), ("..", "empty label"), (".x", "empty label"), (PUBLIC, "address")):
        assert why in lab.cli("allow", name)["error"]["reason"]
    document = json.loads(lab.settings.as_json())
    for allow in (["evil.test", "..x"], ["evil.test", "*.com"], [f"n{n}.evil.test" for n in range(10_000)]):
        document["egress_rules"]["allow"] = allow
        assert "egress_rules" in lab.cli("apply", stdin=json.dumps(document))["error"]["field"]
    assert entries(lab) == ["allowed.test", "git.test:22"]
    assert reached(lab, "evil.test") == [False, False]
    assert reached(lab, "allowed.test") == [True, True]


@pytest.mark.parametrize("program", ["haproxy", "dnsmasq", "nft"])
def test_30_a_list_that_its_program_refuses_leaves_the_last_good_one(lab: EgressLab, program: str) -> None:
    broken = lab.run_folder / "bin" / program
    broken.write_text("#!/bin/sh\necho made to fail; exit 1\n")
    broken.chmod(0o755)
    answer = lab.cli("allow", "evil.test")
    assert "made to fail" in answer["error"]["reason"]
    assert "last good configuration" in answer["error"]["remedy"]
    broken.unlink()
    assert entries(lab) == ["allowed.test", "git.test:22"]
    assert reached(lab, "evil.test") == [False, False]
    assert reached(lab, "allowed.test") == [True, True]


def test_refusals_are_shown_as_they_happen(lab: EgressLab) -> None:
    follower = lab.popen("gw", sys.executable, "-m", "deskyard.gateway", "denied", "--follow", "--json")
    assert follower.stdout is not None
    for kind, name in (("hello", "first.test:443"), ("http", "second.test:80")):
        lab.outcome(kind, name.partition(":")[0])
        while json.loads(follower.stdout.readline())["target"] != name:
            pass
    done = lab.run("gw", [sys.executable, "-m", "deskyard.gateway", "denied"])
    assert "d1  second.test:80  list: is not on the list  -> ./inv egress.allow demo second.test" in done.stdout


def test_new_connections_are_bounded_by_the_tier(lab: EgressLab) -> None:
    many = [job("hello", "allowed.test") for _ in range(40)]
    assert all(answered(lab.ask(many)))
    slow = dict.fromkeys(lab.settings.egress_rules.rates, 2)
    lab.apply(replace(lab.settings, egress_rules=replace(lab.settings.egress_rules, rates=slow)))
    results = lab.ask(many)
    assert 0 < sum(answered(results)) < len(many)
    assert {result["outcome"] for result in results} == {"answer", "refused"}
    wait_for("the event", lambda: "rate" in {event["rule"] for event in lab.events()})


def test_the_router_that_dies_opens_nothing(lab: EgressLab) -> None:
    done: subprocess.CompletedProcess[str] = lab.run("gw", ["systemctl", "stop", "deskyard-egress.service"])
    assert done.returncode == 0
    results = lab.ask(
        [job("hello", "allowed.test"), job("http", "evil.test"), {"kind": "tcp", "to": PUBLIC, "port": 80}]
    )
    lab.run("gw", ["systemctl", "reload-or-restart", "deskyard-egress.service"])
    assert {result["outcome"] for result in results} == {"refused"}
    wait_for("the router", lambda: reached(lab, "allowed.test") == [True, True])
