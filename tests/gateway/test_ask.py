"""Names that a person is asked about: held at the gateway, released by an answer, and nothing a desktop can do.

Witnesses: curl and its TLS from a desktop's namespace, HAProxy, dnsmasq and nftables of the gateway, a server outside.
"""

import socket
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deskyard.gateway.egress.ask import first_bytes, line
from deskyard.gateway.egress.ask.first_bytes import Peer
from deskyard.gateway.egress.ask.hold import HELD_PER_DESKTOP
from deskyard.gateway.egress.ask.tickets import TICKETS_PER_DESKTOP
from deskyard.gateway.machine.layout import Layout
from tests.gateway.egress_guest import client_hello
from tests.gateway.egress_lab import D1, GATEWAY, OTHER, PRIVATE, PUBLIC, SECURE, EgressLab, job, run_lab
from tests.gateway.support import wait_for
from tests.support.requirements import need_programs
from tests.unit.gateway.support import parsed

ASK = ("secure.test", "*.asked.test", "private.test")
RECORDS: dict[str, Any] = {
    "secure.test": {"A": [SECURE]},
    "private.test": {"A": [PRIVATE]},
    "*": {"A": [PUBLIC]},
}


@pytest.fixture(scope="module")
def lab() -> Iterator[EgressLab]:
    """A locked gateway that asks; each test takes names of its own."""
    need_programs("curl")
    settings = parsed("locked", ("allowed.test", "own.asked.test"))
    rules = settings.egress_rules
    fast = dict.fromkeys(rules.rates, 100_000)
    with run_lab(replace(settings, egress_rules=replace(rules, rates=fast, ask=ASK)), RECORDS) as running:
        yield running


def place(lab: EgressLab) -> Layout:
    return Layout(root=lab.root)


def tickets(lab: EgressLab, name: str) -> list[dict[str, Any]]:
    found = line.ask(place(lab).ask_socket, {"command": "list"})
    return [ticket for ticket in found if ticket["name"] == name]


def raised(lab: EgressLab, name: str, held: int = 1) -> dict[str, Any]:
    """The newest ticket for a name, when so many connections wait for it."""
    wait_for(f"the ticket for {name}", lambda: [t for t in tickets(lab, name)[-1:] if t["held"] == held])
    return tickets(lab, name)[-1]


def decide(lab: EgressLab, ticket: dict[str, Any], *answer: str) -> dict[str, Any]:
    decided: dict[str, Any] = lab.cli("decide", ticket["id"], *answer, "--actor", "ann")
    return decided


def curl(lab: EgressLab, url: str, desktop: str = "d1") -> subprocess.Popen[str]:
    """A desktop's curl, as an agent would use it; what it says is on its output."""
    host = url.split("/")[2]
    resolve = [word for port in (80, 443) for word in ("--resolve", f"{host}:{port}:{GATEWAY}")]
    authority = ["--cacert", str(lab.run_folder / "server.pem")]
    return lab.popen(desktop, "curl", "-sS", "--stderr", "-", "--max-time", "60", *authority, *resolve, url)


def said(process: subprocess.Popen[str]) -> str:
    return process.communicate(timeout=60)[0]


def tried(lab: EgressLab, name: str, kind: str = "hello", seconds: float = 8.0) -> str:
    """What came of a try: outside (it was reached), alert, closed, silent (it was held)."""
    (answer,) = lab.ask([job(kind, name, seconds=seconds)])
    if "outside " in answer["text"]:
        return "outside"
    return "alert" if answer["text"].startswith("\x15\x03") else str(answer["outcome"])


def mode(path: Path) -> int:
    """Who may use a file; none may before it is there."""
    return stat.S_IMODE(path.stat().st_mode) if path.exists() else 0


def held(lab: EgressLab, name: str, kind: str = "hello") -> dict[str, Any]:
    """The ticket of a try that waited and left again."""
    assert tried(lab, name, kind, 0.3) == "silent"
    return raised(lab, name, held=0)


def test_a_held_connection_goes_on_when_a_person_allows_it(lab: EgressLab) -> None:
    client = curl(lab, "https://secure.test/")
    ticket = raised(lab, "secure.test")
    assert (ticket["desktop"], ticket["address"], ticket["port"], ticket["state"]) == ("d1", D1, 443, "waiting")
    assert ticket["since"] < ticket["held_until"] < ticket["until"]
    assert f"{SECURE}:443" not in lab.hits()
    decided = decide(lab, ticket, "--once", "--reason", "an invoice")
    assert decided["answer"]["verdict"] == "once"
    # The certificate is the server's own: TLS goes through from end to end.
    assert said(client) == f"outside {SECURE}:443\n"
    (used,) = tickets(lab, "secure.test")
    assert used["state"] == "used"


def test_once_is_one_connection(lab: EgressLab) -> None:
    decide(lab, held(lab, "once.asked.test"), "--once")
    assert tried(lab, "once.asked.test") == "outside"
    assert tried(lab, "once.asked.test", seconds=0.3) == "silent"
    assert [ticket["state"] for ticket in tickets(lab, "once.asked.test")] == ["used", "waiting"]


def test_an_answer_for_a_time_is_for_that_desktop_name_and_port(lab: EgressLab) -> None:
    decide(lab, held(lab, "time.asked.test"), "--for", "900")
    assert [tried(lab, "time.asked.test") for _ in range(2)] == ["outside", "outside"]
    assert tried(lab, "time.asked.test", "http", 0.3) == "silent"
    assert tried(lab, "other.asked.test", seconds=0.3) == "silent"
    other = curl(lab, "https://time.asked.test/", "research-2")
    wait_for("its own ticket", lambda: tickets(lab, "time.asked.test")[-1]["desktop"] == "research-2")
    other.kill()


def test_plain_http_is_held_too_and_a_refusal_says_why(lab: EgressLab) -> None:
    client = curl(lab, "http://web.asked.test/")
    decide(lab, raised(lab, "web.asked.test"), "--always")
    assert said(client) == f"outside {PUBLIC}:80\n"
    client = curl(lab, "http://no.asked.test/")
    decide(lab, raised(lab, "no.asked.test"), "--refuse", "--reason", "not this shop")
    answer = said(client)
    assert "was refused by a person: not this shop" in answer
    assert "http://ask.deskyard/" in answer


def test_a_refusal_is_an_alert_of_tls_stands_for_a_while_and_is_in_the_log(lab: EgressLab) -> None:
    client = curl(lab, "https://never.asked.test/")
    ticket = raised(lab, "never.asked.test")
    assert "error" in lab.cli("decide", ticket["id"], "--refuse")  # without a reason
    decide(lab, ticket, "--refuse", "--reason", "no")
    assert "access denied" in said(client)
    assert tried(lab, "never.asked.test") == "alert"
    wait_for("the refusals", lambda: [e for e in lab.events() if e["target"] == "never.asked.test:443"][1:])
    assert {e["rule"] for e in lab.events() if e["target"] == "never.asked.test:443"} == {"refused"}


def test_taking_an_answer_back_closes_what_is_open(lab: EgressLab) -> None:
    ticket = held(lab, "open.asked.test")
    decide(lab, ticket, "--always")
    script = (
        "import socket, sys; line = socket.create_connection((sys.argv[1], 443));"
        "line.sendall(bytes.fromhex(sys.argv[2])); print(line.recv(99)[:7], flush=True); print(line.recv(99))"
    )
    hello = client_hello(b"open.asked.test").hex()
    client = lab.popen("d1", "python3", "-c", script, GATEWAY, hello)
    assert client.stdout is not None
    assert client.stdout.readline() == "b'outside'\n"
    decide(lab, ticket, "--refuse", "--reason", "it sends too much")
    assert client.stdout.readline() == "b''\n"


def test_a_closed_name_is_refused_whatever_a_person_answered(lab: EgressLab) -> None:
    decide(lab, held(lab, "budget.asked.test"), "--always")
    assert tried(lab, "budget.asked.test") == "outside"
    waiting = curl(lab, "https://later.asked.test/")
    ticket = raised(lab, "later.asked.test")
    before = lab.asked()
    lab.cli("close", "*.asked.test")
    try:
        assert tried(lab, "budget.asked.test") == "closed"
        # What waited has ended, and its answer opens nothing.
        assert "outside" not in said(waiting)
        decide(lab, ticket, "--always")
        assert tried(lab, "later.asked.test") == "closed"
        assert lab.asked() == before
    finally:
        lab.cli("reopen", "*.asked.test")
    assert tried(lab, "later.asked.test") == "outside"


def test_a_name_of_its_own_on_the_list_is_not_asked_about(lab: EgressLab) -> None:
    assert tried(lab, "own.asked.test") == "outside"
    assert tried(lab, "allowed.test") == "outside"
    assert tried(lab, "asked.test") == "closed"  # the wildcard is for names below it
    assert not tickets(lab, "own.asked.test") + tickets(lab, "allowed.test") + tickets(lab, "asked.test")


def test_names_are_answered_by_the_gateway_and_asked_of_nobody_else(lab: EgressLab) -> None:
    names = ("secure.test", "deep.x.asked.test", "ask.deskyard")
    answers = lab.ask([{"kind": "dns", "to": GATEWAY, "port": 53, "name": name} for name in names])
    assert [answer["text"] for answer in answers] == [f"0 {GATEWAY}"] * 3
    assert "deep.x.asked.test" not in lab.asked()


def test_an_allowed_name_still_leads_to_no_private_address(lab: EgressLab) -> None:
    decide(lab, held(lab, "private.test"), "--always")
    assert tried(lab, "private.test") == "closed"
    assert f"{PRIVATE}:443" not in lab.hits()
    wait_for("the refusal", lambda: [e for e in lab.events() if e["rule"] == "address"])


def test_the_page_tells_a_desktop_of_its_own_tickets_alone(lab: EgressLab) -> None:
    held(lab, "mine.asked.test")
    mine, theirs = (said(curl(lab, "http://ask.deskyard/", name)) for name in ("d1", "research-2"))
    assert "mine.asked.test:443  waits for a person" in mine
    assert "90 seconds" in theirs
    assert "mine.asked.test" not in theirs
    assert said(curl(lab, "http://ask.deskyard/none.asked.test")) == "Nothing was asked about none.asked.test.\n"


def test_tickets_and_answers_are_lines_of_the_audits_chain(lab: EgressLab) -> None:
    ticket = held(lab, "chain.asked.test")
    decide(lab, ticket, "--for", "60", "--reason", "a test")

    def lines() -> list[dict[str, Any]]:
        return [entry for entry in lab.cli("audit") if entry.get("ticket") == ticket["id"]]

    wait_for("both lines", lambda: len(lines()) == 2)
    shown = [(entry["event"], entry["result"], entry["desktop"], entry["target"]) for entry in lines()]
    expected = [("ask", result, "d1", "chain.asked.test:443") for result in ("raised", "for")]
    assert sorted(shown) == sorted(expected)
    (decision,) = [entry for entry in lines() if entry["result"] == "for"]
    assert (decision["by"], decision["seconds"], decision["reason"]) == ("ann", 60, "a test")
    assert lab.cli("audit", "--verify")["ok"]


def test_tickets_can_be_followed_without_asking_again(lab: EgressLab) -> None:
    ticket = held(lab, "follow.asked.test")
    stream = line.follow(place(lab).ask_socket)
    mine = (found["state"] for found in stream if found["id"] == ticket["id"])
    assert next(mine) == "waiting"
    decide(lab, ticket, "--once")
    assert next(mine) == "allowed"
    assert tried(lab, "follow.asked.test") == "outside"
    assert next(mine) == "used"


def test_what_was_answered_outlives_the_process_and_a_gateway_without_it_refuses(lab: EgressLab) -> None:
    decide(lab, held(lab, "kept.asked.test"), "--always")
    process = next(p for p in lab.processes if p.args[-1] == "ask")  # type: ignore[index]
    process.kill()
    process.wait(10)
    assert tried(lab, "kept.asked.test") == "closed"
    place(lab).hold_socket.unlink()
    lab.processes.remove(process)
    lab.start_program("ask")
    # The router may connect once the socket has its mode, the last step before it serves.
    wait_for("what holds connections", lambda: mode(place(lab).hold_socket) == 0o660)
    assert tried(lab, "kept.asked.test") == "outside"


# What a desktop tries, as root of its own machine.


def test_a_desktop_fills_neither_the_list_of_tickets_nor_the_gateway(lab: EgressLab) -> None:
    names = [f"n{number}.asked.test" for number in range(TICKETS_PER_DESKTOP + 15)]
    results = lab.ask([job("hello", name, seconds=1.5) for name in names])
    refused = [result for result in results if result["text"].startswith("\x15\x03")]
    assert len(refused) >= len(names) - HELD_PER_DESKTOP
    found = line.ask(place(lab).ask_socket, {"command": "list"})
    waiting = [ticket for ticket in found if ticket["state"] == "waiting" and ticket["desktop"] == "d1"]
    assert len(waiting) <= TICKETS_PER_DESKTOP
    rules = {event["rule"] for event in lab.events() if event["target"].startswith("n")}
    assert rules & {"held", "tickets"}
    # The other desktop is still heard.
    other = curl(lab, "https://heard.asked.test/", "research-2")
    decide(lab, raised(lab, "heard.asked.test"), "--refuse", "--reason", "heard")
    assert "access denied" in said(other)


def test_a_desktop_reaches_neither_line_of_the_service_nor_its_answers(lab: EgressLab) -> None:
    listening = lab.nets.run("gw", "ss", "-H", "-lntup").splitlines()
    pid = next(p.pid for p in lab.processes if p.args[-1] == "ask")  # type: ignore[index]
    assert not [text for text in listening if f"pid={pid}," in text]
    # A forged header of HAProxy's is no hello, whatever name or desktop it claims.
    forged = Peer("10.80.1.11", 4000, GATEWAY, 443).header("allowed.test") + client_hello(b"forged.asked.test")
    answers = lab.ask(
        [
            {"kind": "tcp", "to": GATEWAY, "port": 443, "say": forged.hex()},
            {"kind": "tcp", "to": GATEWAY, "port": 80, "say": forged.hex()},
            *({"kind": "tcp", "to": GATEWAY, "port": port, "say": ""} for port in (22, 8700, 8702, 8703)),
        ]
    )
    assert not [answer for answer in answers if "outside" in answer["text"]]
    assert not tickets(lab, "forged.asked.test")
    posted = b"POST /decide HTTP/1.1\r\nHost: ask.deskyard\r\nContent-Length: 2\r\n\r\n{}"
    before = line.ask(place(lab).ask_socket, {"command": "list"})
    lab.ask([{"kind": "tcp", "to": GATEWAY, "port": 80, "say": posted.hex()}])
    after = line.ask(place(lab).ask_socket, {"command": "list"})
    assert [t["state"] for t in before] == [t["state"] for t in after]


def test_a_connection_that_was_allowed_for_a_name_carries_no_other(lab: EgressLab) -> None:
    """Whatever what holds connections believes: the second HAProxy reads the name again."""
    peer = Peer(D1, 4000, GATEWAY, 443)

    def through(approved: str, asked: bytes) -> bytes:
        with socket.socket(socket.AF_UNIX) as end:
            end.settimeout(10)
            end.connect(str(place(lab).released_socket(443)))
            end.sendall(peer.header(approved) + client_hello(asked))
            return end.recv(99)

    assert through("a.asked.test", b"a.asked.test").startswith(b"outside")
    assert through("a.asked.test", b"b.asked.test") == b""
    assert through("allowed.test", b"allowed.test") == b""  # not a name that a person is asked about
    wait_for("the refusal", lambda: [e for e in lab.events() if e["rule"] == "other-name"])
    assert OTHER not in str(lab.hits())
    assert first_bytes.server_name(client_hello(b"A.asked.TEST")[5:]) == "a.asked.test"


def test_a_plain_request_that_was_allowed_for_a_name_carries_no_other(lab: EgressLab) -> None:
    peer = Peer(D1, 4001, GATEWAY, 80)

    def through(approved: str, *host: str) -> bytes:
        with socket.socket(socket.AF_UNIX) as end:
            end.settimeout(10)
            end.connect(str(place(lab).released_socket(80)))
            lines = ["GET / HTTP/1.0", *(f"Host: {name}" for name in host), "", ""]
            end.sendall(peer.header(approved) + "\r\n".join(lines).encode())
            return end.recv(99).partition(b"\r\n")[0].partition(b" ")[2]

    before = len(lab.events())
    assert through("c.asked.test", "c.asked.test").startswith(b"200")
    assert through("c.asked.test", "d.asked.test").startswith(b"403")
    assert through("allowed.test", "allowed.test").startswith(b"403")  # not a name that a person is asked about
    assert through("c.asked.test").startswith(b"400")
    reasons = {"other-name", "list", "no-name"}
    wait_for("the refusals", lambda: {event["rule"] for event in lab.events()[before:]} >= reasons)
