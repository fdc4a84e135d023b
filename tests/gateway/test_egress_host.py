"""The addresses of the host are closed to desktops, open and locked, until the site names one."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest

from deskyard.gateway.config import render
from deskyard.model.site import Site
from deskyard.model.workspace import Desktop, Workspace
from deskyard.plan.workspace import plan_workspace
from deskyard.wire.gateway_settings import Settings, parse
from tests.gateway.egress_lab import OTHER, EgressLab, job, run_lab
from tests.gateway.egress_lab import PUBLIC as WORLD
from tests.gateway.test_egress import fast
from tests.gateway.test_egress_open import reached
from tests.gateway.test_firewall import PUBLIC, run_nets
from tests.unit.gateway.support import Egress

ELSEWHERE = "198.51.100.8"


def settings_of(egress: Egress, *host: str, opened: str | None = None) -> Settings:
    """The settings of a workspace on a host with these addresses."""
    site = Site(egress_exceptions=(IPv4Network(opened),) if opened else ())
    desktops = (Desktop(name="d1", host_number=10), Desktop(name="research-2", host_number=11))
    allow = ("allowed.test", "host.test") if egress == "locked" else ()
    workspace = Workspace(
        name="demo", network=IPv4Network("10.80.1.0/24"), egress=egress, egress_allow=allow, desktops=desktops
    )
    plan = plan_workspace(workspace, site, "kvm", host=tuple(map(IPv4Address, host)))
    return parse(json.dumps(asdict(plan.gateway.settings)))


def test_67_open_workspace_does_not_reach_its_hosts_public_address_until_the_site_names_it(tmp_path: Path) -> None:
    with run_nets(settings_of("open")) as nets:
        nets.run("host", "ip", "address", "add", f"{ELSEWHERE}/32", "dev", "lo")

        def found(settings: Settings) -> list[bool]:
            nets.load(render.firewall(settings), tmp_path)
            return list(reached(nets, PUBLIC, ELSEWHERE).values())

        assert found(settings_of("open")) == [True, True]  # whose address it is, a gateway cannot know
        assert found(settings_of("open", PUBLIC)) == [False, True]
        assert found(settings_of("open", PUBLIC, opened=f"{PUBLIC}/32")) == [True, True]


@pytest.fixture(scope="module")
def lab() -> Iterator[EgressLab]:
    """A locked workspace whose list has a name that points to the host's public address."""
    records = {"allowed.test": {"A": [WORLD]}, "host.test": {"A": [OTHER]}}
    with run_lab(fast(settings_of("locked", OTHER)), records) as running:
        yield running


def test_67_listed_name_that_points_to_the_host_is_refused(lab: EgressLab) -> None:
    assert lab.outcome("http", "allowed.test") == "answer"
    assert "address" in lab.try_one(**job("http", "host.test"))[1]
    assert not any(hit.startswith(f"{OTHER}:") for hit in lab.hits())


def without_host(text: str) -> str:
    """A configuration that does not know the host's address."""
    for words in (f" {OTHER}/32", f", {OTHER}/32", f", {OTHER}"):
        text = text.replace(words, "")
    return text


def test_67_router_and_firewall_each_refuse_the_host_alone(lab: EgressLab) -> None:
    def hits() -> int:
        return sum(hit.startswith(f"{OTHER}:") for hit in lab.hits())

    for name in ("egress", "firewall"):
        changes: dict[str, Callable[[str], str]] = {name: without_host}
        with lab.weaker(**changes):
            lab.outcome("http", "host.test")
            assert hits() == 0, name
    with lab.weaker(egress=without_host, firewall=without_host):
        assert lab.outcome("http", "host.test") == "answer"
        assert hits() > 0
