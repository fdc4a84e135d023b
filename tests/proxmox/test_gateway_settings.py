"""What a gateway on a cluster is told, and by which way: names and host key by its agent, all else over pinned SSH."""

import datetime
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from deskyard.errors import CommandError, SiteError
from deskyard.gateway.machine import tls
from deskyard.host.places import places
from deskyard.site import link_key
from deskyard.site.libvirt import daemon
from deskyard.site.management_key import private_key_file
from deskyard.site.proxmox.kinds.gateway_settings import ClusterGatewaySettingsKind
from deskyard.site.resource import gateway_settings
from deskyard.site.resource.gateway_settings import RENEW_BEFORE
from deskyard.site.ssh_link import SshLink
from tests.proxmox.inhabited import private_text
from tests.proxmox.rack import SITE
from tests.proxmox.started_gateway import SETTLING, Gateway, start
from tests.support.gateway_door import LINK

# What it is told.


def test_a_gateway_gets_the_settings_of_the_plan_and_a_certificate_for_its_own_key(gateway: Gateway) -> None:
    outputs = gateway.tell()
    assert gateway.commands == SETTLING
    program = gateway.inhabitants.program(gateway.vm.owner.vm_name)
    wanted, heard = gateway.plan.gateway.settings, program.settings
    assert heard is not None
    assert (heard.hostname, [desktop.name for desktop in heard.desktops]) == (wanted.hostname, ["dev1", "dev2"])
    assert [desktop.address for desktop in heard.desktops] == [desktop.address for desktop in gateway.plan.desktops]
    assert program.pair is not None
    leaf = x509.load_pem_x509_certificate(program.pair.chain.encode())
    authority = x509.load_pem_x509_certificate(places().authority(SITE).read_bytes())
    leaf.verify_directly_issued_by(authority)
    assert outputs == {
        "host_key": gateway.system.public_key,
        "certificate_expires": leaf.not_valid_after_utc.isoformat(),
        "link_key": link_key.digest(SITE),
    }


def test_its_nics_are_named_and_addressed_by_one_restart(gateway: Gateway) -> None:
    assert list(gateway.system.nics()) == ["eth0", "eth1"]
    gateway.tell()
    settings = gateway.plan.gateway.settings
    assert gateway.system.nics() == {
        "uplink": f"{settings.uplink_address}/{settings.uplink_prefix}",
        "workspace": f"{settings.workspace_address}/{settings.workspace_prefix}",
    }
    assert gateway.system.boots == 2


def test_names_that_it_has_need_no_restart(gateway: Gateway) -> None:
    first = gateway.tell()
    ran = len(gateway.system.ran)
    state = {**gateway.inputs(), **first}
    again = ClusterGatewaySettingsKind().update(gateway.link, "", state, gateway.inputs())
    assert again["host_key"] == first["host_key"]
    assert gateway.system.boots == 2
    assert gateway.commands == SETTLING * 2
    # It was only looked whether the names are there.
    assert [stdin for _, stdin in gateway.system.ran[ran:]] == [""]


def test_a_restart_that_comes_before_its_confirmation_is_one_all_the_same(gateway: Gateway) -> None:
    gateway.system.sudden = True
    gateway.tell()
    assert (gateway.system.boots, gateway.commands) == (2, SETTLING)


def test_one_name_that_lacks_is_enough_for_a_restart(gateway: Gateway) -> None:
    gateway.tell()
    (gateway.system.root / "sys/class/net/workspace").unlink()
    gateway.tell()
    assert gateway.system.boots == 3


def test_the_operators_certificate_reaches_it_with_its_key(gateway: Gateway, tmp_path: Path) -> None:
    hostname = gateway.plan.gateway.settings.hostname
    key = tls.ensure_key(tmp_path / "own.key")
    (tmp_path / "own.pem").write_text(tls.self_signed(key, hostname))
    brought = {"chain": str(tmp_path / "own.pem"), "key": str(tmp_path / "own.key"), "digest": "1"}
    gateway.tell(certificate=brought)
    program = gateway.inhabitants.program(gateway.vm.owner.vm_name)
    assert program.pair is not None
    assert program.pair.key.strip() == key.strip()
    assert gateway.commands == ["apply", "certificate", LINK]
    # In no command line.
    body = key.splitlines()[1]
    assert body not in gateway.inhabitants.street.log.read_text()


def test_what_the_gateway_refuses_is_told_in_its_words(gateway: Gateway) -> None:
    settings = {**asdict(gateway.plan.gateway.settings), "hostname": "no host!"}
    with pytest.raises(CommandError, match="hostname"):
        gateway.tell(settings=settings)
    assert gateway.commands == ["apply"]


# Who it is.


def test_the_host_key_that_the_agent_tells_is_pinned_and_no_other(gateway: Gateway) -> None:
    gateway.tell()
    assert gateway.ssh.known_hosts.read_text() == f"lab.gateway {gateway.system.public_key}\n"


def test_a_door_with_another_host_key_is_told_nothing(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_settings, "BOOT_SECONDS", 0.5)
    gateway.inhabitants.false_key = Ed25519PrivateKey.generate()
    with pytest.raises(SiteError, match="Host key verification failed"):
        gateway.tell()
    assert gateway.inhabitants.program(gateway.vm.owner.vm_name).heard == []
    assert gateway.ssh.known_hosts.read_text() == f"lab.gateway {gateway.system.public_key}\n"


def test_trust_on_first_use_would_tell_that_door_everything(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """The weakened build: nothing is pinned, and whatever key comes first is believed."""
    write = SshLink.write_config

    def believing(self: SshLink, *given: Any) -> None:
        write(self, *given)
        self.config.write_text(self.config.read_text().replace("StrictHostKeyChecking yes", "StrictHostKeyChecking no"))

    monkeypatch.setattr(SshLink, "write_config", believing)
    monkeypatch.setattr(SshLink, "pin", lambda *_: None)
    gateway.inhabitants.false_key = Ed25519PrivateKey.generate()
    gateway.tell()
    assert gateway.commands == SETTLING


def test_a_hypervisor_of_this_machine_is_not_on_the_way(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "inside", lambda: ["nsenter", "--net=/run/netns/x"])
    gateway.tell()
    assert "ProxyCommand" not in gateway.ssh.config.read_text()


def test_a_new_machine_of_the_same_name_has_its_own_key_pinned(gateway: Gateway) -> None:
    gateway.tell()
    before = gateway.system
    path = f"/nodes/{gateway.vm.node}/qemu/{gateway.vm.vm_id}"
    gateway.rack.root.finish("POST", f"{path}/status/stop")
    gateway.rack.root.finish("DELETE", path)
    start(gateway.rack, gateway.vm)
    gateway.tell(start="2")
    assert gateway.system is not before
    assert gateway.ssh.known_hosts.read_text() == f"lab.gateway {gateway.system.public_key}\n"


def test_the_door_lets_in_whoever_has_the_sites_key_and_nobody_else(gateway: Gateway) -> None:
    gateway.tell()
    assert gateway.ssh.run("gateway", ["true"], timeout=30).code == 0
    private_key_file(SITE).write_text(private_text(Ed25519PrivateKey.generate()))
    with pytest.raises(SiteError, match="Permission denied"):
        gateway.ssh.run("gateway", ["true"], timeout=30)


# Its life.


def test_a_gateway_is_found_on_whatever_node_it_is(gateway: Gateway) -> None:
    machine = gateway.rack.peer.fake.vm(gateway.vm.vm_id)
    machine.node = next(node for node in gateway.rack.peer.fake.nodes if node != gateway.vm.node)
    gateway.rack.peer.fake.calls.clear()
    gateway.tell()
    asked = {call.path.split("/")[2] for call in gateway.rack.peer.fake.calls if "/agent/" in call.path}
    assert asked == {machine.node}


def test_it_is_there_as_long_as_its_machine(gateway: Gateway) -> None:
    kind, state = ClusterGatewaySettingsKind(), {**gateway.inputs(), **gateway.tell()}
    gateway.rack.peer.fake.calls.clear()
    assert kind.read(gateway.link, "rack/lab", state) == state
    # It may be off: nobody in it is asked.
    assert [call for call in gateway.rack.peer.fake.calls if "/agent/" in call.path] == []
    path = f"/nodes/{gateway.vm.node}/qemu/{gateway.vm.vm_id}"
    gateway.rack.root.finish("POST", f"{path}/status/stop")
    assert kind.read(gateway.link, "rack/lab", state) == state
    gateway.rack.root.finish("DELETE", path)
    assert kind.read(gateway.link, "rack/lab", state) is None
    with pytest.raises(SiteError, match="is not in the cluster"):
        gateway.tell()


def test_when_it_goes_nothing_is_trusted_any_more(gateway: Gateway) -> None:
    state = {**gateway.inputs(), **gateway.tell()}
    assert gateway.ssh.config.exists() and gateway.ssh.known_hosts.exists()
    for _ in range(2):
        ClusterGatewaySettingsKind().delete(gateway.link, "rack/lab", state)
        assert not gateway.ssh.config.exists()
        assert not gateway.ssh.known_hosts.exists()


@pytest.mark.parametrize(
    ("days", "certificate", "stale"),
    [
        (1, None, ["certificate_expires"]),
        (-1, None, []),
        # The same file again would change nothing, and each preview would say that something is to be done.
        (1, {"chain": "/a.pem", "key": "/a.key"}, []),
        (1, {"acme_ca": "/a.pem"}, ["certificate_expires"]),
    ],
)
def test_a_certificate_of_the_site_near_its_end_is_given_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, days: int, certificate: dict[str, str] | None, stale: list[str]
) -> None:
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    now = datetime.datetime.now(datetime.UTC)
    expires = now + RENEW_BEFORE - datetime.timedelta(days=days)
    state = {"site": SITE, "certificate_expires": expires.isoformat(), "certificate": certificate}
    assert ClusterGatewaySettingsKind().stale({**state, "link_key": link_key.digest(SITE)}) == stale
    # One of before, or with another key: it is brought in step, which replaces nothing.
    for found in ({}, {"link_key": "another"}):
        assert ClusterGatewaySettingsKind().stale({**state, **found}) == [*stale, "link_key"]


def test_another_machine_is_another_resource_and_another_start_is_not() -> None:
    kind = ClusterGatewaySettingsKind()
    state = {"site": "rack", "workspace": "lab", "vm_id": 1, "start": "1"}
    assert kind.needs_replacement(state, {**state, "vm_id": 2}, ["vm_id"]) == ["vm_id"]
    assert kind.needs_replacement(state, {**state, "start": "2"}, ["start"]) == []
