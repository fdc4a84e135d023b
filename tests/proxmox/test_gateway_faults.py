"""Gateways on a cluster that do not do what they should: an error of that machine, within its time, never a crash."""

import shutil
from typing import Any

import pytest
from fakepve.model import PveError

from deskyard.errors import SiteError
from deskyard.site.files import read_site
from deskyard.site.proxmox.kinds import gateway_settings as on_cluster
from deskyard.site.proxmox.machines import ClusterMachines
from deskyard.site.resource import gateway_settings
from tests.proxmox.rack import SITE
from tests.proxmox.started_gateway import Gateway
from tests.support.pve.inside import DOWN, System


def test_a_gateway_whose_agent_never_answers_is_an_error_when_its_time_is_over(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*_: object, **__: object) -> Any:
        raise PveError(500, DOWN)

    monkeypatch.setattr(gateway_settings, "BOOT_SECONDS", 0.2)
    gateway.rack.peer.fake.answerer = down
    with pytest.raises(SiteError, match=r"the guest agent did not answer within") as caught:
        gateway.tell()
    assert caught.value.value == f"{gateway.vm.vm_id} on {gateway.vm.node}"
    assert not gateway.ssh.known_hosts.exists()


def test_a_gateway_whose_door_never_opens_is_an_error_when_its_time_is_over(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.tell()
    gateway.inhabitants.street.shut(gateway.plan.gateway.settings.uplink_address)
    monkeypatch.setattr(gateway_settings, "BOOT_SECONDS", 0.2)
    with pytest.raises(SiteError, match=r"lab/gateway.*cannot be reached over SSH"):
        gateway.tell()


def test_nics_that_never_get_their_names_are_an_error_when_its_time_is_over(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_cluster, "BOOT_SECONDS", 0.2)
    monkeypatch.setattr(System, "nics", lambda _: {"eth0": "192.0.2.7/24", "eth1": "10.80.1.250/24"})
    with pytest.raises(SiteError, match="its NICs have not got their names"):
        gateway.tell()
    assert gateway.commands == []


def test_a_script_that_fails_in_the_guest_is_told_with_what_it_said(gateway: Gateway) -> None:
    folder = gateway.system.root / "etc/systemd/network"
    shutil.rmtree(folder)
    folder.write_text("no folder")
    with pytest.raises(SiteError, match=r"its NICs could not be named:.*(Not a directory|nonexistent)"):
        gateway.tell()
    assert gateway.system.boots == 1


@pytest.mark.parametrize(
    "answers",
    [
        {"exec": {}},
        {"exec": {"pid": 1}, "exec-status": []},
        {"exec": {"pid": 1}, "exec-status": {"exited": 1, "exitcode": {}}},
    ],
    ids=str,
)
def test_an_agent_that_talks_nonsense_is_an_error_of_that_gateway(gateway: Gateway, answers: dict[str, Any]) -> None:
    gateway.rack.peer.fake.answerer = lambda _vm, command, _values: answers.get(command)
    with pytest.raises(SiteError, match="an answer that makes no sense") as caught:
        gateway.tell()
    assert caught.value.value == f"{gateway.vm.vm_id} on {gateway.vm.node}"
    assert not gateway.ssh.known_hosts.exists()


def test_an_agent_that_tells_no_key_is_an_error_when_its_time_is_over(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.tell()
    gateway.ssh.known_hosts.unlink()
    monkeypatch.setattr(gateway_settings, "BOOT_SECONDS", 0.2)
    (gateway.system.root / "etc/ssh/ssh_host_ed25519_key.pub").write_text("lab.gateway,* ssh-ed25519 AAAA\n")
    with pytest.raises(SiteError, match="no ed25519 SSH host key"):
        gateway.tell()
    assert not gateway.ssh.known_hosts.exists()


# As readiness asks for it.


def test_a_machines_host_key_is_told_by_its_own_agent(gateway: Gateway) -> None:
    machines = ClusterMachines(gateway.plan, read_site(SITE))
    assert machines.host_key(gateway.plan.gateway.machine.domain) == gateway.system.public_key


def test_a_machine_that_is_not_there_has_none(gateway: Gateway) -> None:
    machines = ClusterMachines(gateway.plan, read_site(SITE))
    domain = gateway.plan.desktop("dev1").machine.domain
    with pytest.raises(SiteError, match="is not in the cluster") as caught:
        machines.host_key(domain)
    assert caught.value.value == domain
    assert machines.stopped() == [gateway.plan.desktop(name).machine.domain for name in ("dev1", "dev2")]


def test_a_machine_that_tells_nonsense_has_none(gateway: Gateway) -> None:
    gateway.rack.peer.fake.answerer = lambda _vm, _command, _values: {"content": ["ssh-ed25519"]}
    machines = ClusterMachines(gateway.plan, read_site(SITE))
    with pytest.raises(SiteError, match="no ed25519 SSH host key"):
        machines.host_key(gateway.plan.gateway.machine.domain)
