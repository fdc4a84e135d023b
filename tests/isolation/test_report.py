"""`workspace.verify` as a whole, with namespaces in place of machines and their shells in place of SSH."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deskyard.declaration import declaration
from deskyard.engine import running
from deskyard.errors import ConfigError
from deskyard.host.command import Result
from deskyard.isolation import probing, verification
from deskyard.model.site import Site as DeclaredSite
from deskyard.plan.isolation.probe import HERE, HostFacts
from deskyard.site.libvirt import daemon
from deskyard.site.libvirt.kinds.network import FilterKind
from deskyard.site.libvirt.underlay import LibvirtUnderlay, host_facts
from deskyard.site.ssh_link import SshLink
from deskyard.workspace import readiness
from tests.isolation.conftest import HOST_PORTS, planned
from tests.isolation.site import Site, filter_inputs

RULE = "ip daddr @denied jump refuse"


@pytest.fixture
def live(lab: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Site:
    """The simulated workspaces where `workspace.verify` looks for real ones."""

    def ssh(link: Any, host: str, remote: list[str], *, timeout: float, stdin: str = "") -> Result:
        said = lab.inside(lab.workspaces[link.workspace].namespaces[host], *remote[2:], stdin=stdin)
        return Result(tuple(remote), 0, said, "", 0.0)

    def declared(name: str) -> Any:
        return SimpleNamespace(plan=lab.workspaces[name].plan, on_cluster=None, site=DeclaredSite())

    def status(plan: Any, desktops: Any) -> dict[str, Any]:
        assert desktops == plan.desktops
        return {"digest": lab.workspaces[plan.name].settings.digest, "services": {"dns": "active"}, "desktops": {}}

    def sent(plan: Any, facts: HostFacts, _: Any, other: Any) -> list[probing.Verdict]:
        found = verify_probes(plan, facts, lab.start, other)
        return [verdict for verdict in found if verdict.probe.start != HERE]

    verify_probes = probing.verify_probes
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    monkeypatch.setattr(declaration, "read", declared)
    monkeypatch.setattr(running, "require_running", lambda plan: None)
    monkeypatch.setattr(SshLink, "run", ssh)
    monkeypatch.setattr(readiness, "ask", status)
    monkeypatch.setattr(probing, "verify_probes", sent)
    hosts = tuple(workspace.plan.uplink.host_address or "" for workspace in lab.workspaces.values())
    monkeypatch.setattr(LibvirtUnderlay, "facts", lambda underlay, plans: HostFacts(hosts, HOST_PORTS))
    monkeypatch.setattr(LibvirtUnderlay, "versions", lambda underlay: {"libvirt": "0"})
    monkeypatch.setattr(LibvirtUnderlay, "images", lambda underlay: {})
    # No machines of libvirt here: what it says of them is tried on real ones.
    monkeypatch.setattr(LibvirtUnderlay, "findings", lambda underlay: [])
    return lab


def test_a_workspace_that_holds_is_reported_so(live: Site) -> None:
    report = verification.verify("a", "b")
    assert report["ok"], verification.text(report)
    written = json.loads(Path(report["report"]).read_text())
    assert (written["workspace"], written["against"], written["ok"]) == ("a", "b", True)
    assert all(rules["live"] == rules["planned"] and rules["settings"] for rules in report["rules"].values())
    assert verification.text(report).splitlines()[-1].startswith("holds")


def test_a_removed_rule_is_named_with_what_it_lets_through(live: Site) -> None:
    weak = live.workspaces["a"]
    weak.load_rules(lambda rules: rules.replace(f"\t\t{RULE}\n", ""))
    try:
        report = verification.verify("a")
    finally:
        weak.load_rules()
    assert not report["ok"]
    assert report["rules"]["a"]["wrong"] == [f"gateway: chain forward: {RULE}: is missing"]
    failed = [probe for probe in report["probes"] if not probe["ok"]]
    assert {probe["topic"] for probe in failed} == {"metadata", "lan", "host"}
    assert all(any(RULE in guard for guard in probe["guards"]) for probe in failed)
    text = verification.text(report)
    assert f"should be stopped by  gateway: chain forward: {RULE}  <- is missing or changed" in text
    assert text.splitlines()[-1].startswith("DOES NOT HOLD")


def test_a_rule_that_nothing_falls_through_is_missed_all_the_same(live: Site) -> None:
    """Behind the last `drop` stands a policy that drops: only the whole ruleset shows that one of them is gone."""
    weak = live.workspaces["a"]
    weak.load_rules(lambda rules: rules.replace("policy drop;", "policy accept;", 1))
    try:
        wrong = verification.rules_in_force(weak.plan, LibvirtUnderlay(weak.plan))["wrong"]
    finally:
        weak.load_rules()
    assert any("policy drop: is missing" in line for line in wrong)
    assert any("policy accept: is not in the Plan" in line for line in wrong)


def test_the_workspace_itself_is_no_second_one(live: Site) -> None:
    with pytest.raises(ConfigError, match="is the workspace itself"):
        verification.verify("a", "a")


@pytest.mark.parametrize("peers", ["closed", "open"])
def test_a_filter_reads_back_as_what_it_is(lab: Site, peers: str) -> None:
    """libvirt writes rules in its own words; what it wrote must still be known as ours, or every run would mend it."""
    plan = planned(f"filters-{peers}", 9, peers=peers)
    for filter_ in (plan.desktop_filter, plan.gateway_filter):
        inputs = filter_inputs(filter_)
        FilterKind().create(lab.link, inputs)
        try:
            assert (FilterKind().read(lab.link, filter_.name, dict(inputs)) or {})["kind"] == filter_.kind
            xml = lab.link.nwfilterLookupByName(filter_.name).XMLDesc(0)
            lab.link.nwfilterDefineXML(xml.replace("action='drop'", "action='accept'", 1))
            altered = xml.count("action='drop'") > 0
            assert ((FilterKind().read(lab.link, filter_.name, dict(inputs)) or {})["kind"] == "altered") is altered
        finally:
            FilterKind().delete(lab.link, filter_.name, dict(inputs))


def test_addresses_and_ports_of_the_host_are_what_its_kernel_says(lab: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    enter = ["ip", "netns", "exec", lab.namespace]
    monkeypatch.setattr(daemon, "inside", lambda: enter)
    plans = [lab.workspaces["b"].plan]
    facts = host_facts(plans)
    assert facts.addresses[0] == plans[0].uplink.host_address
    assert not {"127.0.0.1", "198.51.100.10"} & set(facts.addresses)
    assert {*HOST_PORTS, 53} <= set(facts.ports)
