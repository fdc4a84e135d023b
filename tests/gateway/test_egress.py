"""A locked workspace against a hostile desktop: names on the list and nothing else, whatever it says or asks.

The numbers in names of tests are those of the threats in SPECIFICATION.md.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from deskyard.wire.gateway_settings import Settings
from tests.gateway.egress_guest import client_hello, query
from tests.gateway.egress_lab import (
    D1,
    GATEWAY,
    HOST,
    METADATA,
    OTHER,
    PRIVATE,
    PUBLIC,
    SECURE,
    UPLINK,
    USER,
    EgressLab,
    job,
    run_lab,
)
from tests.gateway.support import wait_for
from tests.unit.gateway.support import parsed

REBINDING = {
    "loopback.test": "127.0.0.1",
    "metadata.test": METADATA,
    "metadata2.test": "100.100.100.200",
    "private.test": PRIVATE,
    "private2.test": "172.16.5.5",
    "private3.test": "192.168.9.9",
    "this-network.test": "0.0.0.0",
    "multicast.test": "224.0.0.5",
    "gateway.test": GATEWAY,
    "uplink.test": UPLINK,
    "host.test": HOST,
    "desktop.test": D1,
    "forward.test": "10.80.1.200",
}
V6 = {
    "mapped.test": "::ffff:127.0.0.1",
    "loopback6.test": "::1",
    "ula.test": "fd00:ec2::254",
    "nat64.test": "64:ff9b::1",
}
ALLOWED = ("allowed.test", "*.suffix.test", "secure.test", "tls-only.test:443", "http-only.test:80", "git.test:22")
RECORDS: dict[str, Any] = {
    **{name: {"A": [address]} for name, address in REBINDING.items()},
    **{name: {"AAAA": [address]} for name, address in V6.items()},
    "allowed.test": {"A": [PUBLIC]},
    "secure.test": {"A": [SECURE]},
    "changes.test": {"A": [PUBLIC]},
    "flips.test": {"A": [PUBLIC, METADATA], "flips": True},
    "both.test": {"A": [PUBLIC, METADATA]},
    "a.suffix.test": {"A": [OTHER]},
    # All others are there too: only the list keeps them away.
    "*": {"A": [PUBLIC]},
}


def fast(settings: Settings) -> Settings:
    """The same without a bound on new connections, which has its own test."""
    rates = dict.fromkeys(settings.egress_rules.rates, 100_000)
    return replace(settings, egress_rules=replace(settings.egress_rules, rates=rates))


@pytest.fixture(scope="module")
def lab() -> Iterator[EgressLab]:
    """A locked gateway that no test leaves changed."""
    names = (*ALLOWED, *REBINDING, *V6, "changes.test", "flips.test", "both.test")
    with run_lab(fast(parsed("locked", names)), RECORDS) as running:
        yield running


def without(*words: str) -> Callable[[str], str]:
    """Take the lines out that hold all of these words."""
    return lambda text: "".join(
        line for line in text.splitlines(keepends=True) if not all(word in line for word in words)
    )


def answered(results: list[dict[str, Any]]) -> list[bool]:
    """Which of the attempts reached a server outside."""
    return [result["outcome"] == "answer" and "outside " in result["text"] for result in results]


def hello(sni: bytes | None, **more: Any) -> dict[str, Any]:
    return {"kind": "hello", "to": GATEWAY, "port": 443, "sni": None if sni is None else sni.hex(), **more}


def dns(name: str, kind: int = 1) -> dict[str, Any]:
    return {"kind": "dns", "to": GATEWAY, "port": 53, "name": name, "type": kind}


# What must work.


def test_names_on_the_list_are_reached_and_no_other(lab: EgressLab) -> None:
    tls = {
        "allowed.test": True,
        "a.suffix.test": True,
        "b.a.suffix.test": True,
        "tls-only.test": True,
        "suffix.test": False,
        "notsuffix.test": False,
        "sub.allowed.test": False,
        "allowed.test.evil.test": False,
        "evil.test": False,
        "http-only.test": False,
        "git.test": False,
    }
    http = {**tls, "tls-only.test": False, "http-only.test": True}
    assert answered(lab.ask([job("hello", name) for name in tls])) == list(tls.values())
    assert answered(lab.ask([job("http", name) for name in http])) == list(http.values())


def test_tls_is_end_to_end(lab: EgressLab) -> None:
    authority = str(lab.run_folder / "server.pem")
    (answer,) = lab.ask([{"kind": "tls", "to": GATEWAY, "port": 443, "name": "secure.test", "authority": authority}])
    assert answer["text"] == f"outside {SECURE}:443\n"


def test_a_name_with_a_port_has_an_address_of_its_own(lab: EgressLab) -> None:
    (forward,) = lab.settings.egress_rules.forwards
    (answer,) = lab.ask([dns("git.test")])
    assert answer["text"] == f"0 {forward.address}"
    results = lab.ask([{"kind": "tcp", "to": forward.address, "port": port} for port in (22, 23, 8080)])
    assert answered(results) == [True, False, False]
    assert [result["outcome"] for result in results[1:]] == ["refused", "refused"]
    assert answered(lab.ask([job(kind, "git.test", forward.address) for kind in ("hello", "http")])) == [False, False]


def test_port_80_keeps_to_the_list_request_by_request(lab: EgressLab) -> None:
    def request(name: str) -> str:
        return f"GET / HTTP/1.1\r\nHost: {name}\r\n\r\n"

    say = (request("allowed.test") + request("evil.test") + request("a.suffix.test")).encode().hex()
    (answer,) = lab.ask([{"kind": "tcp", "to": GATEWAY, "port": 80, "say": say}])
    # The first answer may come alone; what counts is that nothing came from the wrong server.
    assert answer["text"].startswith("HTTP/1.1 200")
    assert "evil.test" not in [name for name in lab.asked() if name == "evil.test"]


def test_port_80_takes_no_upgrade_along(lab: EgressLab) -> None:
    say = b"GET / HTTP/1.1\r\nHost: allowed.test\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n".hex()
    attempt = {"kind": "tcp", "to": GATEWAY, "port": 80, "say": say}
    (kept,) = lab.ask([attempt])
    assert kept["text"].endswith(f"outside {PUBLIC}:80\n")
    with lab.weaker(egress=without("del-header")):
        (weak,) = lab.ask([attempt])
    assert weak["text"].endswith(" upgrade\n")


# Names.


CASE_24: dict[str, bytes | None] = {
    "no SNI": None,
    "empty": b"",
    "NUL inside": b"allowed.test\0.evil.test",
    "NUL at the end": b"allowed.test\0",
    "line end": b"allowed.test\n",
    "carriage return": b"allowed.test\r",
    "space": b"allowed.test ",
    "trailing dot": b"allowed.test.",
    "leading dot": b".suffix.test",
    "double dot": b"a..suffix.test",
    "underscore": b"a_b.suffix.test",
    "star": b"*.suffix.test",
    "IDN in UTF-8": "b\u00fccher.suffix.test".encode(),
    "IPv4 literal": PUBLIC.encode(),
    "IPv6 literal": b"::ffff:198.51.100.7",
    "decimal address": b"3325256711",
    "hexadecimal address": b"0xc6336407",
    "notexample for *.example": b"notsuffix.test",
    "the suffix itself": b"suffix.test",
    "a name below an exact one": b"sub.allowed.test",
    "the list's name in front": b"allowed.test.evil.test",
    "label of 64": b"a" * 64 + b".suffix.test",
    "name of 300": b"a." * 144 + b"suffix.test",
    "hyphen first": b"-a.suffix.test",
}


@pytest.mark.parametrize("sni", CASE_24.values(), ids=CASE_24.keys())
def test_24_odd_server_names_are_refused_at_once(lab: EgressLab, sni: bytes | None) -> None:
    (answer,) = lab.ask([hello(sni)])
    assert answer["outcome"] == "closed"


def test_24_case_does_not_matter(lab: EgressLab) -> None:
    assert answered(lab.ask([hello(b"ALLOWED.test"), hello(b"A.Suffix.TEST"), hello(b"EVIL.test")])) == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("pieces", [1, 7, 40])
def test_25_split_hello_is_no_way_around(lab: EgressLab, pieces: int) -> None:
    results = lab.ask([hello(name, pieces=pieces, pause=0.001) for name in (b"allowed.test", b"evil.test")])
    assert answered(results) == [True, False]


def test_25_a_dribbled_or_missing_hello_ends(lab: EgressLab) -> None:
    results = lab.ask([hello(b"allowed.test", pieces=1, pause=0.2, seconds=60), {**hello(None), "kind": "tcp"}])
    assert answered(results) == [False, False]
    assert "silent" not in {result["outcome"] for result in results}


def test_25_hello_over_two_records_is_refused(lab: EgressLab) -> None:
    whole = client_hello(b"allowed.test")[5:]
    split = b"".join(b"\x16\3\1" + len(part).to_bytes(2, "big") + part for part in (whole[:30], whole[30:]))
    (answer,) = lab.ask([{"kind": "tcp", "to": GATEWAY, "port": 443, "say": split.hex()}])
    assert not answered([answer])[0]


@pytest.mark.parametrize("say", [b"SSH-2.0-x\r\n", b"GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n", bytes(300)])
def test_other_protocols_on_443_are_refused(lab: EgressLab, say: bytes) -> None:
    (answer,) = lab.ask([{"kind": "tcp", "to": GATEWAY, "port": 443, "say": say.hex()}])
    assert answer["outcome"] == "closed"


# HTTP as a proxy.

CASE_16 = {
    "CONNECT": "CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n",
    "CONNECT of an allowed name": "CONNECT allowed.test:22 HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
    "absolute form": "GET http://evil.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
    "absolute form, Host first": "GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
    "other port": "GET / HTTP/1.1\r\nHost: allowed.test:22\r\n\r\n",
    "port 0": "GET / HTTP/1.1\r\nHost: allowed.test:0\r\n\r\n",
    "user in front": "GET / HTTP/1.1\r\nHost: allowed.test@evil.test\r\n\r\n",
    "two hosts": "GET / HTTP/1.1\r\nHost: allowed.test\r\nHost: evil.test\r\n\r\n",
    "no host": "GET / HTTP/1.1\r\n\r\n",
    "HTTP/1.0 without host": "GET / HTTP/1.0\r\n\r\n",
    "address": f"GET / HTTP/1.1\r\nHost: {PUBLIC}\r\n\r\n",
    "private address": f"GET / HTTP/1.1\r\nHost: {PRIVATE}\r\n\r\n",
    "metadata": f"GET http://{METADATA}/latest/ HTTP/1.1\r\nHost: {METADATA}\r\n\r\n",
    "TRACE": "TRACE / HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
    "HTTP/2 preface": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


@pytest.mark.parametrize("say", CASE_16.values(), ids=CASE_16.keys())
def test_16_gateway_is_no_open_proxy(lab: EgressLab, say: str) -> None:
    before = lab.hits()
    (answer,) = lab.ask([{"kind": "tcp", "to": GATEWAY, "port": 80, "say": say.encode().hex()}])
    assert not answered([answer])[0]
    assert answer["outcome"] == "closed" or re.match(r"HTTP/1.[01] (400|403|405)", answer["text"])
    assert lab.hits() == before


def test_23_host_on_port_80_is_the_name_that_counts(lab: EgressLab) -> None:
    results = lab.ask([job("http", "allowed.test"), job("http", "evil.test"), job("http", "evil.test:80")])
    assert answered(results) == [True, False, False]


# Addresses.


@pytest.mark.parametrize("name", [*REBINDING, *V6])
def test_28_a_name_that_points_inside_is_refused(lab: EgressLab, name: str) -> None:
    before = lab.hits()
    results = lab.ask([job("hello", name), job("http", name)])
    assert answered(results) == [False, False]
    assert results[0]["outcome"] == "closed"
    assert results[1]["text"].startswith("HTTP/1.1 403")
    assert lab.hits() == before


def test_28_what_is_checked_is_what_is_connected_to(lab: EgressLab) -> None:
    for _ in range(6):
        lab.ask([job("hello", "flips.test"), job("http", "flips.test"), job("hello", "both.test")])
        time.sleep(0.4)
    assert not [hit for hit in lab.hits() if hit.startswith(METADATA)]


def test_29_an_address_is_not_remembered_for_a_name(lab: EgressLab) -> None:
    assert lab.outcome("hello", "changes.test") == "answer"
    lab.set_records(changes_test={"A": [PRIVATE]})
    try:
        # HAProxy keeps an answer for a second.
        wait_for("the new address", lambda: lab.outcome("hello", "changes.test") == "closed")
    finally:
        lab.set_records(changes_test={"A": [PUBLIC]})
    assert not [hit for hit in lab.hits() if hit.startswith(PRIVATE)]


def test_20_27_addresses_are_refused_whoever_is_behind_them(lab: EgressLab) -> None:
    before = lab.hits()
    tcp = [
        {"kind": "tcp", "to": to, "port": port}
        for to in (PUBLIC, OTHER, SECURE, METADATA, PRIVATE, HOST)
        for port in (22, 53, 80, 443, 853, 8080)
    ]
    named = [job("hello", "allowed.test", to) for to in (PUBLIC, OTHER)]
    results = lab.ask([*tcp, *named])
    # A reset, not a wait, and not from there.
    assert {result["outcome"] for result in results} == {"refused"}
    assert lab.hits() == before


def test_22_26_no_other_resolver_and_no_quic(lab: EgressLab) -> None:
    before = lab.asked()
    there = [(to, port) for to in (HOST, PUBLIC, UPLINK) for port in (53, 443, 853)]
    attempts = [{"kind": "udp", "to": to, "port": port, "seconds": 1} for to, port in there]
    attempts += [{**dns("good.test"), "to": HOST, "seconds": 1}]
    assert {answer["outcome"] for answer in lab.ask(attempts)} == {"silent"}
    assert lab.asked() == before


@pytest.mark.parametrize("port", [21, 22, 25, 8700, 8701, 9999])
def test_gateway_has_no_other_service_for_desktops(lab: EgressLab, port: int) -> None:
    results = lab.ask([{"kind": "tcp", "to": to, "port": port} for to in (GATEWAY, UPLINK)])
    assert {result["outcome"] for result in results} == {"refused"}


# DNS.


def test_21_26_names_are_answered_here_or_nowhere(lab: EgressLab) -> None:
    before = lab.asked()
    web = {name: f"0 {GATEWAY}" for name in ("allowed.test", "a.suffix.test", "x.y.suffix.test", "d1.suffix.test")}
    absent = {name: "3 0" for name in ("evil.test", "suffix.test", "sub.allowed.test", "notsuffix.test", "a.b.c.d.e")}
    tunnel = {f"{'x' * 60}.{n:032x}.tunnel.test": "3 0" for n in range(20)}
    wanted = {**web, **absent, **tunnel}
    assert [answer["text"] for answer in lab.ask([dns(name) for name in wanted])] == list(wanted.values())
    # TXT, NULL, MX, AAAA, HTTPS, SVCB, ANY-less: nothing but the address of an allowed name.
    kinds = (16, 10, 15, 28, 65, 64)
    assert {answer["text"] for answer in lab.ask([dns(n, k) for n in web for k in kinds])} == {"0 0"}
    assert {answer["text"] for answer in lab.ask([dns(n, k) for n in absent for k in kinds])} == {"3 0"}
    assert lab.asked() == before


# Refusals as events.


def test_every_refusal_is_an_event_with_the_way_to_allow_it(lab: EgressLab) -> None:
    (forward,) = lab.settings.egress_rules.forwards
    over_tcp = query("over-tcp.test", 1)
    attempts = [
        job("hello", "news.test"),
        job("http", "papers.test"),
        dns("mail.test"),
        job("hello", "private.test"),
        {"kind": "tcp", "to": PUBLIC, "port": 2222},
        {"kind": "udp", "to": PUBLIC, "port": 443, "seconds": 0.2},
        {"kind": "udp", "to": PUBLIC, "port": 853, "seconds": 0.2},
        {"kind": "tcp", "to": GATEWAY, "port": 2323},
        {"kind": "tcp", "to": forward.address, "port": 2424},
        {"kind": "tcp", "to": GATEWAY, "port": 53, "say": (len(over_tcp).to_bytes(2, "big") + over_tcp).hex()},
    ]
    wanted = {
        ("news.test:443", "list"): "./inv egress.allow demo news.test",
        ("papers.test:80", "list"): "./inv egress.allow demo papers.test",
        ("mail.test", "name"): "./inv egress.allow demo mail.test",
        ("private.test:443", "address"): "",
        (f"{PUBLIC}:2222", "direct"): "./inv egress.allow demo NAME:2222",
        (f"{PUBLIC}:443/udp", "quic"): "",
        (f"{PUBLIC}:853/udp", "resolver"): "",
        (f"{GATEWAY}:2323", "gateway"): "",
        ("over-tcp.test", "name"): "./inv egress.allow demo over-tcp.test",
        ("git.test:2424", "port"): "./inv egress.allow demo git.test:2424",
    }

    def refusals() -> dict[tuple[str, str], str]:
        # The kernel tells of a desktop only so often: what other tests provoked may hide these for a while.
        lab.ask(attempts)
        time.sleep(0.5)
        mine = [event for event in lab.events() if event["desktop"] == "d1" and event["address"] == D1]
        return {(event["target"], event["rule"]): event["allow"] for event in mine}

    wait_for("the events", lambda: wanted.items() <= refusals().items())


def test_a_flood_of_refusals_does_not_fill_the_disk(lab: EgressLab) -> None:
    before = len(lab.events())
    for _ in range(10):
        lab.ask([{"kind": "tcp", "to": PUBLIC, "port": port} for port in range(1000, 1100)])
    # 1,000 refused; the kernel tells 200 at once and 20 in a second.
    assert len(lab.events()) - before < 500


def test_browser_is_told_what_to_do(lab: EgressLab) -> None:
    (answer,) = lab.ask([job("http", "forbidden.test")])
    head, _, page = answer["text"].partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 403")
    assert "./inv egress.allow demo forbidden.test" in page
    (odd,) = lab.ask([job("http", "<script>alert(1)</script>.test")])
    assert "script>" not in odd["text"]


# Each guard alone, and what gets through without it.


def ports_of(lab: EgressLab, name: str) -> list[bool]:
    return answered(lab.ask([job("hello", name), job("http", name)]))


def test_weakened_list_is_seen(lab: EgressLab) -> None:
    assert ports_of(lab, "evil.test") == [False, False]
    with lab.weaker(egress=without("unless listed")):
        assert ports_of(lab, "evil.test") == [True, True]
    assert ports_of(lab, "evil.test") == [False, False]


def test_weakened_suffix_is_seen(lab: EgressLab) -> None:
    with lab.weaker(egress=lambda text: text.replace("-m end .suffix.test", "-m end suffix.test")):
        assert ports_of(lab, "notsuffix.test") == [True, True]


def test_weakened_shape_is_seen(lab: EgressLab) -> None:
    assert ports_of(lab, "a_b.suffix.test") == [False, False]
    with lab.weaker(egress=without("txn.asked) -m reg")):
        assert ports_of(lab, "a_b.suffix.test") == [True, True]


def test_either_guard_of_addresses_holds_alone(lab: EgressLab) -> None:
    def open_kernel(text: str) -> str:
        head, mark, tail = text.partition("chain from_egress {")
        return head + mark + "\n\t\taccept" + tail

    def open_router(text: str) -> str:
        return without("txn.to) -m ip")(text)

    with lab.weaker(egress=open_router):
        assert ports_of(lab, "private.test") == [False, False]
    with lab.weaker(firewall=open_kernel):
        assert ports_of(lab, "private.test") == [False, False]
    assert not [hit for hit in lab.hits() if hit.startswith(PRIVATE)]
    with lab.weaker(egress=open_router, firewall=open_kernel):
        assert ports_of(lab, "private.test") == [True, True]


CONNECT = """
import json, socket, sys
def ask(address, port):
    try:
        socket.create_connection((address, port), 2).close()
        return True
    except OSError:
        return False
print(json.dumps([ask(*one) for one in json.loads(sys.argv[1])]))
"""


@pytest.mark.parametrize("account", [USER, "root"])
def test_only_the_router_reaches_the_world_and_only_its_ports(lab: EgressLab, account: str) -> None:
    lab.nets.serve("gw", ("tcp", "127.0.0.1", 8700))
    lab.nets.serve("d1", ("tcp", "", 6080), ("tcp", "", 9999))
    mine = account == USER
    wanted = {
        (PUBLIC, 80): mine,
        (PUBLIC, 443): mine,
        (PUBLIC, 22): mine,  # for git.test:22
        (PUBLIC, 8080): False,
        (PRIVATE, 80): False,
        (METADATA, 80): False,
        (HOST, 80): False,
        ("127.0.0.1", 8700): not mine,
        (D1, 6080): not mine,
        (D1, 9999): False,
    }
    argv = ["setpriv", f"--reuid={account}", "--clear-groups", "/usr/bin/python3", "-c", CONNECT]
    found = json.loads(lab.nets.run("gw", *argv, json.dumps(list(wanted))))
    assert dict(zip(wanted, found, strict=True)) == wanted


def test_either_guard_of_dns_holds_alone(lab: EgressLab) -> None:
    question = dns("secret-data.tunnel.test")

    def asks(text: str) -> str:
        return text.replace("local=/#/", f"server={HOST}")

    def lets(text: str) -> str:
        return text.replace('\t\toif "lo" accept\n\t\tmeta nfproto ipv6', "\t\taccept\n\t\tmeta nfproto ipv6")

    with lab.weaker(dns=asks):
        lab.ask([{**question, "seconds": 1}])
    with lab.weaker(firewall=lets):
        lab.ask([{**question, "seconds": 1}])
    assert question["name"] not in lab.asked()
    with lab.weaker(dns=asks, firewall=lets):
        lab.ask([{**question, "seconds": 1}])
    assert question["name"] in lab.asked()


def test_either_guard_of_direct_connections_holds_alone(lab: EgressLab) -> None:
    direct = [{"kind": "tcp", "to": PUBLIC, "port": 8080, "say": b"hello".hex(), "seconds": 2}]

    def forwards(text: str) -> str:
        text = re.sub(r"\tchain prerouting \{.*?\n\t\}\n", "", text, flags=re.DOTALL)
        return re.sub(r"(chain forward \{\n[^\n]*policy )drop;.*?\n\t\}", r"\1accept;\n\t}", text, flags=re.DOTALL)

    def kernel(forward: int) -> None:
        lab.nets.run("gw", "sysctl", "-q", "-w", f"net.ipv4.ip_forward={forward}")

    try:
        kernel(1)
        assert answered(lab.ask(direct)) == [False]
        kernel(0)
        with lab.weaker(firewall=forwards):
            assert answered(lab.ask(direct)) == [False]
            kernel(1)
            assert answered(lab.ask(direct)) == [True]
    finally:
        kernel(0)
