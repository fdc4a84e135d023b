"""The real engine and the real plugin against the peer, over HTTPS: what is declared is made, kept and removed."""

from collections.abc import Callable
from pathlib import Path

import pulumi
import pulumi_proxmoxve as proxmox
import pytest
from pulumi import automation

from deskyard.engine.command import EngineCommand
from deskyard.host import toolchain
from deskyard.host.toolchain import FoundTool, offer_plugins
from tests.support.pve import Client, Peer

TEMPLATE, CLONE = 9000, 9001
NETWORK, POOL = "dyws1", "deskyard-ws1"


@pytest.fixture
def template(root: Client) -> None:
    """A template as publishing an image leaves it."""
    disk = {"scsi0": "local-lvm:4", "net0": "virtio,bridge=vmbr0", "memory": "512", "agent": "0"}
    assert root.finish("POST", "/nodes/pve1/qemu", vmid=TEMPLATE, name="template", **disk) == "OK"
    assert root.finish("POST", f"/nodes/pve1/qemu/{TEMPLATE}/template") == "OK"


def program(peer: Peer, token: str) -> Callable[[], None]:
    """A zone with a network, a pool, and a machine that is a linked clone."""

    def declare() -> None:
        provider = proxmox.Provider("cluster", endpoint=peer.endpoint, api_token=token)
        options = pulumi.ResourceOptions(provider=provider)
        # Goes last, so that what was removed before it is applied too.
        last = proxmox.sdn.Applier("last", on_create=False, on_destroy=True, opts=options)
        after_last = pulumi.ResourceOptions(provider=provider, depends_on=[last])
        zone = proxmox.sdn.zone.Vxlan("zone", resource_id="deskyard", peers=["192.0.2.11"], mtu=1450, opts=after_last)
        network = proxmox.sdn.Vnet("network", resource_id=NETWORK, zone=zone.resource_id, tag=100_001, opts=options)
        after_network = pulumi.ResourceOptions(provider=provider, depends_on=[network])
        applied = proxmox.sdn.Applier("applied", on_create=True, on_destroy=False, opts=after_network)
        pool = proxmox.PoolLegacy("pool", pool_id=POOL, opts=options)
        proxmox.VmLegacy(
            "clone",
            vm_id=CLONE,
            name="ws1-desk",
            node_name="pve1",
            pool_id=pool.pool_id,
            clone={"vm_id": TEMPLATE, "full": False},
            cpu={"cores": 2},
            memory={"dedicated": 1024},
            agent={"enabled": False},
            disks=[{"interface": "scsi0", "datastore_id": "local-lvm", "size": 4}],
            network_devices=[{"bridge": NETWORK}],
            stop_on_destroy=True,
            # The provider's default for limits of speed is not read back: pulumi-proxmoxve's issue 664.
            opts=pulumi.ResourceOptions(provider=provider, depends_on=[applied], ignore_changes=["disks"]),
        )

    return declare


@pytest.fixture
def stack(
    peer: Peer, plugin: FoundTool, template: None, tmp_path: Path, request: pytest.FixtureRequest
) -> automation.Stack:
    """A stack with its state in a folder of the test; the plugin trusts the authority of the peer, or the named one."""
    trusted = getattr(request, "param", None) or peer.certificates.authority
    token = peer.fake.token(privsep=False)
    with peer.client() as root:
        root.ask("PUT", "/access/acl", path="/", roles="Administrator", users="deskyard@pve")
    (home := tmp_path / "home").mkdir()
    (backend := tmp_path / "backend").mkdir()
    offer_plugins(home)
    pulumi_program = toolchain.get("pulumi")
    workspace = automation.LocalWorkspace(
        work_dir=str(tmp_path),
        program=program(peer, token),
        pulumi_home=str(home),
        project_settings=automation.ProjectSettings(name="peer", runtime="python"),
        secrets_provider="passphrase",
        pulumi_command=EngineCommand(pulumi_program.path, pulumi_program.version),
        env_vars={
            "PULUMI_BACKEND_URL": f"file://{backend}",
            "PULUMI_CONFIG_PASSPHRASE": "test",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_AUTOMATION_API_SKIP_VERSION_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "SSL_CERT_FILE": str(trusted),
        },
    )
    return automation.Stack.create("ws1", workspace)


def test_what_is_declared_is_made_then_left_alone_then_removed(stack: automation.Stack, peer: Peer) -> None:
    before = peer.fake.left()
    stack.up()
    made = peer.fake.left()
    assert made["machines"] - before["machines"] == {CLONE}
    assert made["networks"] == {"deskyard", NETWORK}
    assert (set(peer.fake.sdn_running["vnets"]), made["pools"]) == ({NETWORK}, {POOL})
    assert peer.fake.vm(CLONE).status == "running"
    assert peer.fake.pools[POOL] == {CLONE}

    peer.fake.calls.clear()
    assert stack.preview(refresh=True).change_summary.keys() == {automation.OpType.SAME}
    assert peer.fake.calls.writes() == []

    stack.destroy()
    assert peer.fake.left() == before


@pytest.mark.parametrize("stack", [Path("/dev/null")], indirect=True, ids=["nobody"])
def test_an_api_whose_authority_is_not_trusted_is_told_nothing(
    stack: automation.Stack, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer.fake.calls.clear()
    with pytest.raises(automation.CommandError, match="certificate signed by unknown authority"):
        stack.up()
    assert len(peer.fake.calls) == 0
