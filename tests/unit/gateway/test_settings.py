"""The gateway understands the Plan's settings exactly, and refuses anything else whole."""

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from deskyard.errors import GatewayError
from deskyard.gateway.config import render
from deskyard.wire.gateway_settings import parse
from tests.unit.gateway.support import document, parsed, planned


def test_settings_of_the_plan_come_through_unchanged() -> None:
    assert json.loads(parsed().as_json()) == document()
    assert parsed() == planned()


def test_recorded_desktops_alone_are_named_so_that_gateways_of_before_understand_the_rest() -> None:
    settings = parsed()
    first, *others = settings.desktops
    recorded = replace(settings, desktops=(replace(first, recorded=True), *others))
    assert [desktop.get("recorded") for desktop in json.loads(recorded.as_json())["desktops"]] == [True, None]
    assert parse(recorded.as_json()) == recorded and recorded.digest != settings.digest
    assert "recorded" not in settings.as_json()


def test_programs_come_to_the_desktops_alone_that_have_a_service_for_them() -> None:
    sent = document()
    del sent["desktops"][1]["routes"]["computer"]
    settings = parse(json.dumps(sent))
    d1 = settings.desktop("d1")
    assert settings.program_places == {"d1": (d1.address, d1.routes["computer"])}
    assert list(parsed().program_places) == ["d1", "research-2"]


def test_settings_written_by_the_gateway_are_read_back_as_the_same() -> None:
    settings = parsed()
    assert parse(settings.as_json()) == settings
    assert parse(settings.as_json()).digest == settings.digest
    assert parsed("none").digest != settings.digest
    assert asdict(settings)["desktops"][0]["name"] == "d1"


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (("workspace",), "Demo", "workspace"),
        (("workspace",), "demo\nglobal", "workspace"),
        (("hostname",), "demo test", "hostname"),
        (("hostname",), "demo.test\n", "hostname"),
        (("origin",), "http://demo.localhost:8443", "origin"),
        (("origin",), "https://evil.test:8443", "origin"),
        (("uplink_address",), "10.80.1.300", "uplink_address"),
        (("uplink_address",), "010.080.001.250", "uplink_address"),
        (("uplink_prefix",), 33, "uplink_prefix"),
        (("uplink_prefix",), True, "uplink_prefix"),
        (("host_address",), "10.99.0.1", "host_address"),
        (("workspace_address",), "10.80.1.251", "workspace_address"),
        (("egress",), "closed", "egress"),
        (("egress_rules",), {}, "egress_rules"),
        (("egress_rules", "allow"), "a.test", "egress_rules.allow"),
        (("egress_rules", "allow"), ["good.test", "..test"], "egress_rules.allow[1]"),
        (("egress_rules", "allow"), ["A.test"], "egress_rules.allow[0]"),
        (("egress_rules", "allow"), ["a.test\nbind :1"], "egress_rules.allow[0]"),
        (("egress_rules", "allow"), ["a.test:22"], "egress_rules.forwards"),
        (
            ("egress_rules", "forwards"),
            [{"name": "a.test", "address": "10.80.1.130", "ports": [22]}],
            "egress_rules.forwards",
        ),
        (
            ("egress_rules", "forwards"),
            [{"name": "a.test", "address": "10.80.1.10", "ports": [22]}],
            "egress_rules.forwards[0].address",
        ),
        (("egress_rules", "exceptions"), ["10.0.0.0/8 }"], "egress_rules.exceptions[0]"),
        (("egress_rules", "rates"), {"10.80.1.10": 0}, "egress_rules.rates.10.80.1.10"),
        (("egress_rules", "rates"), {"10.80.1.10;": 5}, "egress_rules.rates"),
        (("denied_networks", 0), "0.0.0.0/8; accept", "denied_networks[0]"),
        (("denied_networks",), "0.0.0.0/8", "denied_networks"),
        (("uplink_mac",), "52:54:00:AA:00:01", "uplink_mac"),
        (("desktops", 0, "name"), "d1 }", "desktops[0].name"),
        (("desktops", 0, "mac"), "x", "desktops[0].mac"),
        (("desktops", 0, "address"), "10.80.2.10", "desktops[0].address"),
        (("desktops", 0, "address"), "10.80.1.1", "desktops[0]"),
        (("desktops", 0, "routes", "desktop"), 70000, "desktops[0].routes.desktop"),
        (("desktops", 0, "routes", "shell"), 22, "desktops[0].routes"),
        (("desktops", 0, "recorded"), "yes", "desktops[0].recorded"),
        (("desktops", 1, "name"), "d1", "desktops[1]"),
        (("surprise",), 1, "settings"),
    ],
    ids=lambda value: ".".join(map(str, value)) if isinstance(value, tuple) else str(value)[:20],
)
def test_wrong_settings_are_refused_with_their_field(path: tuple[Any, ...], value: Any, field: str) -> None:
    sent: Any = document()
    target = sent
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    with pytest.raises(GatewayError) as caught:
        parse(json.dumps(sent))
    assert caught.value.field == field
    assert caught.value.reason
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({}, "acme"),
        ("https://acme.test/", "acme"),
        ({"directory": "http://acme.test/", "email": "a@b.test", "ca": ""}, "acme.directory"),
        ({"directory": "https://acme.test:99999/", "email": "a@b.test", "ca": ""}, "acme.directory"),
        ({"directory": "https://acme.test/\n", "email": "a@b.test", "ca": ""}, "acme.directory"),
        ({"directory": "https://acme.test/", "email": "--help", "ca": ""}, "acme.email"),
        ({"directory": "https://acme.test/", "email": "a@b.test", "ca": "/etc/shadow"}, "acme.ca"),
        ({"directory": "https://acme.test/", "email": "a@b.test", "ca": None}, "acme.ca"),
    ],
)
def test_wrong_acme_server_is_refused_with_its_field(value: Any, field: str) -> None:
    with pytest.raises(GatewayError) as caught:
        parse(json.dumps({**document(), "acme": value}))
    assert caught.value.field == field


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"workspace": "demo"}'])
def test_what_is_no_settings_document_is_refused(text: str) -> None:
    with pytest.raises(GatewayError) as caught:
        parse(text)
    assert caught.value.field == "settings"


def test_operators_and_resolvers_of_a_site_are_each_let_through_and_no_other() -> None:
    sent = {**document(), "resolvers": ["192.0.2.2", "192.0.2.3"], "operators": ["192.0.2.0/24", "198.51.100.7/32"]}
    settings = parse(json.dumps(sent))
    rules = render.firewall(settings)
    assert "ip saddr { 192.0.2.0/24, 198.51.100.7 } ip daddr" in rules
    assert [
        f"ip daddr {address} udp dport 53" in rules for address in ("192.0.2.2", "192.0.2.3", settings.host_address)
    ] == [
        True,
        True,
        False,
    ]
    assert [line for line in render.dnsmasq(settings).splitlines() if line.startswith("server=")] == [
        "server=192.0.2.2",
        "server=192.0.2.3",
    ]


@pytest.mark.parametrize("operators", [[], ["0.0.0.0/0"], "192.0.2.1", ["x"], [1]])
def test_operators_that_are_everybody_or_nothing_are_refused(operators: Any) -> None:
    with pytest.raises(GatewayError, match="operators"):
        parse(json.dumps({**document(), "operators": operators}))
