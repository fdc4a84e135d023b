"""What a workspace declaration refuses, and how it says so."""

from typing import Any

import pytest

from deskyard.errors import ConfigError
from deskyard.guest import system
from deskyard.model.workspace import Workspace

GOOD: dict[str, Any] = {"name": "demo", "network": "10.80.1.0/24", "desktops": [{"name": "desk"}]}


def refusal(**changes: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        Workspace.check({**GOOD, **changes}, "Pulumi.demo.yaml")
    return caught.value


def test_a_minimal_declaration_is_accepted_with_safe_defaults() -> None:
    workspace = Workspace.check(GOOD, "Pulumi.demo.yaml")
    assert workspace.desktops[0].tier == "free"
    assert workspace.egress == "open"
    assert workspace.site == "local"


@pytest.mark.parametrize(
    ("changes", "field", "value", "reason", "remedy"),
    [
        ({"netwrok": "x"}, "netwrok", None, "not a known key", "network"),
        ({"desktops": [{"name": "desk", "teir": "free"}]}, "desktops[0].teir", None, "not a known key", "tier"),
        ({"desktops": [{"name": "My Desk"}]}, "desktops[0].name", "My Desk", "no DNS label", "research-1"),
        ({"desktops": [{"name": "desk_1"}]}, "desktops[0].name", "desk_1", "no DNS label", "research-1"),
        ({"desktops": [{"name": "-desk"}]}, "desktops[0].name", "-desk", "no DNS label", "research-1"),
        ({"desktops": [{"name": "a"}, {"name": "a"}]}, "declaration", None, "used twice", "its own name"),
        ({"desktops": []}, "desktops", None, "at least 1", ""),
        ({"desktops": [{}]}, "desktops[0].name", None, "missing", "add desktops[0].name"),
        ({"network": "10.80.1.0/16"}, "network", "10.80.1.0/16", "", ""),
        ({"network": "10.80.0.0/16"}, "network", "10.80.0.0/16", "must be a /24", "10.80.1.0/24"),
        ({"network": "8.8.8.0/24"}, "network", "8.8.8.0/24", "not a private range", "inside 10/8"),
        ({"egress": "all"}, "egress", "all", "'open', 'locked' or 'none'", ""),
        ({"egress_allow": ["a.test"]}, "declaration", None, "no meaning with egress: open", "egress: locked"),
        ({"egress_ask": ["a.test"]}, "declaration", None, "egress_ask has no meaning with egress: open", "locked"),
        (
            {"egress": "locked", "egress_allow": ["a.test"], "egress_ask": ["a.test"]},
            *("declaration", None, "on egress_allow and on egress_ask", "keep it on the list"),
        ),
        (
            {"egress": "locked", "egress_ask": ["a.test:22"]},
            *("egress_ask[0]", "a.test:22", "protocol does not name the server", "leave the port out"),
        ),
        ({"gateway_port": 80}, "gateway_port", 80, "greater than or equal to 1024", ""),
        ({"name": "UPPER"}, "name", "UPPER", "no DNS label", "research-1"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
def test_a_wrong_declaration_is_refused_with_field_value_reason_and_remedy(
    changes: dict[str, Any], field: str, value: object, reason: str, remedy: str
) -> None:
    error = refusal(**changes)
    assert error.field.startswith("Pulumi.demo.yaml: ")
    assert field in error.field
    assert error.value == value
    assert reason in error.reason
    assert remedy in error.remedy
    assert error.remedy


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("..", "empty label"),
        (".example.org", "empty label"),
        ("example..org", "empty label"),
        ("example.org.", "empty label"),
        ("", "empty label"),
        ("*.", "empty label"),
        ("*.com", "whole top-level domain"),
        ("*", "wildcard"),
        ("*.*.org", "wildcard"),
        ("a*.example.org", "wildcard"),
        ("www.*.org", "wildcard"),
        ("com", "two labels"),
        ("192.0.2.7", "is an address"),
        ("192.0.2.7:22", "is an address"),
        ("[2001:db8::1]", "is an address"),
        ("2001:db8::1", "is an address"),
        ("0x7f000001", "is an address"),
        ("https://example.org", "no DNS name"),
        ("example.org/path", "no DNS name"),
        ("under_score.example.org", "no DNS name"),
        ("-a.example.org", "no DNS name"),
        ("a b.example.org", "no DNS name"),
        ("example.org\nother.org", "no DNS name"),
        ("x" * 64 + ".org", "too long"),
        ("a." * 130 + "org", "too long"),
        ("example.org:", "no TCP port"),
        ("example.org:0", "no TCP port"),
        ("example.org:65536", "no TCP port"),
        ("example.org:022", "no TCP port"),
        ("*.example.org:22", "does not name the server"),
        ("b\u00fc\u2028.example", "international"),
    ],
)
def test_a_malformed_entry_is_refused_with_its_place_reason_and_remedy(entry: str, reason: str) -> None:
    error = refusal(egress="locked", egress_allow=["good.example.org", entry])
    assert "egress_allow[1]" in error.field
    assert error.value == entry
    assert reason in error.reason
    assert error.remedy


@pytest.mark.parametrize(
    "path", ["/etc/cron.d/report", "/etc/myapp", "/etc/apt/sources.list.d/mine.list", "/etc/a@b.c"]
)
def test_files_and_folders_of_etc_can_be_kept(path: str) -> None:
    declared = Workspace.check({**GOOD, "keep": [path], "desktops": [{"name": "d1", "keep": [path]}]}, "x")
    assert (declared.keep, declared.desktops[0].keep) == ((path,), (path,))


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        *(
            (path, "is no path below /etc")
            for path in ("/etc", "/etc/", "/opt/app", "etc/app", "/etc/../root", "/etc/a b")
        ),
        *((path, "is no path below /etc") for path in ("/etc/./a", "/etc//a", "/etc/a\n/x", "/etc/*")),
        *((path, "is of the machine") for path in ("/etc/passwd", "/etc/machine-id", "/etc/deskyard/keys.env")),
        *((path, "is of the machine") for path in ("/etc/ssh/ssh_host_ed25519_key", "/etc/fstab", "/etc/shadow")),
    ],
)
def test_what_no_desktop_can_keep_is_refused_with_its_place(path: str, reason: str) -> None:
    error = refusal(desktops=[{"name": "d1", "keep": ["/etc/app", path]}])
    assert "desktops[0].keep[1]" in error.field
    assert reason in error.reason and "/etc/cron.d/report" in error.remedy


@pytest.mark.parametrize("begin", system.LEFT_OUT)
def test_what_a_desktop_never_takes_along_cannot_be_declared_as_kept(begin: str) -> None:
    path = f"{begin}any" if begin.endswith(("/", "_")) else begin
    assert "is of the machine" in refusal(keep=[path]).reason


def test_entries_come_into_their_one_form() -> None:
    given = [
        "Docs.Example.ORG",
        "*.Suffix.example.org",
        "b\u00fccher.example",
        "git.example.org:22",
        "docs.example.org",
    ]
    workspace = Workspace.check({**GOOD, "egress": "locked", "egress_allow": given}, "Pulumi.demo.yaml")
    assert workspace.egress_allow == (
        "docs.example.org",
        "*.suffix.example.org",
        "xn--bcher-kva.example",
        "git.example.org:22",
    )


def test_a_list_has_its_bound() -> None:
    names = [f"n{number}.example.org" for number in range(4000)]
    good = Workspace.check({**GOOD, "egress": "locked", "egress_allow": names}, "Pulumi.demo.yaml")
    assert len(good.egress_allow) == 4000
    error = refusal(egress="locked", egress_allow=[*names, "one.more.org"])
    assert "egress_allow" in error.field
    assert "4000" in error.reason


def test_two_desktops_with_the_same_host_number_are_refused() -> None:
    error = refusal(desktops=[{"name": "a", "host_number": 20}, {"name": "b", "host_number": 20}])
    assert "host_number" in error.reason
