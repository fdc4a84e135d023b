"""What a verification asks of a cluster, how it finds NICs, and what its report says of what it left out."""

import socket
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from deskyard.engine.backend import backend_of
from deskyard.errors import SiteError
from deskyard.guest import probe
from deskyard.isolation import verification
from deskyard.model.site import Site
from deskyard.plan.isolation.cluster import NOT_EXAMINED
from deskyard.plan.isolation.probe import HostFacts
from deskyard.site.libvirt.underlay import LibvirtUnderlay
from deskyard.site.proxmox.underlay import ClusterUnderlay, look
from deskyard.wire.gateway_settings import Acme
from tests.support.paper_cluster import PaperCluster, workspace
from tests.unit.plan.test_workspace import planned

PLAN, ON_CLUSTER = PaperCluster().plan(workspace("lab", "one"))
LOOPBACK_MAC = "00:00:00:00:00:00"


class PaperApi:
    """Answers from a table; of machines all alike, with no rule at all."""

    def __init__(self, elsewhere: str = "") -> None:
        self.asked: list[str] = []
        self.elsewhere = elsewhere

    def get(self, path: str, /, **params: object) -> Any:
        """The answer of one path."""
        self.asked.append(path)
        machines = ON_CLUSTER.machines()
        where = {vm.vm_id: self.elsewhere or vm.node for vm in machines}
        answers: dict[str, Any] = {
            "cluster/resources": [{"type": "qemu", "vmid": id, "node": node} for id, node in where.items()],
            "cluster/status": [
                {"type": "cluster", "name": "rack"},
                {"type": "node", "name": "pve2", "ip": "198.18.0.8"},
                {"type": "node", "name": "pve1", "ip": "198.18.0.7"},
            ],
            "cluster/firewall/options": {"enable": 1},
            "cluster/sdn/vnets": [],
            "version": {"version": "8.4.1"},
        }
        if path.endswith("/ipset"):
            return [{"name": "ipfilter-net0"}]
        return answers.get(path, [] if path.endswith(("rules", "net0")) else {})


class RefusingApi:
    """A token that may nothing."""

    def get(self, path: str, /, **params: object) -> Any:
        """Refused."""
        raise SiteError(f"GET {path}", "rack", "403 Permission check failed", "give the token what it lacks")


def test_a_machine_is_asked_for_where_it_runs_now() -> None:
    api = PaperApi(elsewhere="pve9")
    seen = look(api, ON_CLUSTER)
    assert seen.machines.keys() == {"gateway", "one"}
    assert set(seen.nodes) == {"pve9"}
    vm_id = ON_CLUSTER.desktops["one"].vm_id
    assert f"nodes/pve9/qemu/{vm_id}/firewall/ipset/ipfilter-net0" in api.asked


def test_every_planned_rule_of_every_machine_is_missed_on_a_cluster_without_rules() -> None:
    findings = ClusterUnderlay(ON_CLUSTER, PaperApi()).findings()
    for vm in ON_CLUSTER.machines():
        mine = [
            finding
            for finding in findings
            if finding.startswith(f"cluster: {vm.owner.machine}: ") and finding.endswith("is missing")
        ]
        assert len([finding for finding in mine if " ACCEPT " in finding or " DROP " in finding]) == len(
            vm.firewall.rules
        )


def test_a_cluster_that_refuses_to_tell_is_not_taken_for_one_that_is_as_planned() -> None:
    findings = ClusterUnderlay(ON_CLUSTER, RefusingApi()).findings()
    assert findings == ["cluster: its rules could not be read: 403 Permission check failed"]


def test_nodes_of_a_cluster_are_the_hosts_that_desktops_must_not_reach() -> None:
    facts = ClusterUnderlay(ON_CLUSTER, PaperApi()).facts([PLAN])
    assert facts.addresses == ("198.18.0.7", "198.18.0.8")
    assert 3128 in facts.ports


def test_what_is_below_a_workspace_follows_from_its_site() -> None:
    here: Any = SimpleNamespace(plan=planned(), on_cluster=None, site=Site())
    assert isinstance(backend_of(here.site).underlay(here), LibvirtUnderlay)


def test_two_workspaces_share_what_is_known_of_their_hosts() -> None:
    merged = verification._merged([HostFacts(("b", "a"), (22,)), HostFacts(("a", "c"), (8006, 22))])
    assert merged == HostFacts(("b", "a", "c"), (22, 8006))


def test_the_report_says_what_was_not_examined() -> None:
    not_examined = ClusterUnderlay(ON_CLUSTER, PaperApi()).not_examined()
    report: dict[str, Any] = {
        "workspace": "lab",
        "against": None,
        "seconds": 1.0,
        "ok": True,
        "topics": {},
        "rules": {"lab": {"wrong": [], "live": "0", "settings": "1"}},
        "not_examined": {"lab": not_examined},
        "probes": [],
        "report": "x.json",
    }
    lines = verification.text(report).splitlines()
    assert [line for line in lines if "not examined" in line] == [
        f"    not examined: cluster: {part}" for part in NOT_EXAMINED
    ]
    assert lines[-1].startswith("holds")


def test_a_nic_is_found_by_its_address_whatever_its_machine_calls_it() -> None:
    assert probe.device("workspace", LOOPBACK_MAC) == "lo"
    assert probe.device("lo", LOOPBACK_MAC) == "lo"
    # One that nobody has keeps its name, so that the machine says which one it lacks.
    assert probe.device("workspace", "02:de:ad:be:ef:00") == "workspace"


def test_what_is_no_nic_has_no_address() -> None:
    with socket.socket() as line:
        assert probe.hardware_address(line, "gone") == ""


def test_settings_of_a_gateway_whose_acme_server_has_an_authority_of_its_own_are_compared_as_it_has_them(
    tmp_path: Path,
) -> None:
    pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    (tmp_path / "ca.pem").write_text(pem)
    plan = planned()
    acme = Acme("https://acme.test/dir", "a@b.test", str(tmp_path / "ca.pem"))
    plan = replace(plan, gateway=replace(plan.gateway, settings=replace(plan.gateway.settings, acme=acme)))
    wanted = verification._wanted(plan)
    assert wanted == replace(plan.gateway.settings, acme=replace(acme, ca=pem))
    assert verification._wanted(planned()) == planned().gateway.settings
