"""A workspace on the peer with the real engine and the real plugin: made, left alone, changed, removed."""

import shutil
from dataclasses import replace
from typing import Any

import pytest

from deskyard.declaration.declaration import stack_file
from deskyard.engine import leftovers
from deskyard.engine.command import EngineCommand
from deskyard.engine.stack import WorkspaceStack
from deskyard.errors import ConfigError, SiteError
from deskyard.plan.proxmox.view import pool_of
from deskyard.plan.proxmox.workspace import VmPlan, _Maker
from deskyard.plan.workspace import MachinePlan
from deskyard.site.files import read_site
from deskyard.site.proxmox.life.home import has_home
from deskyard.site.proxmox.machines import ClusterMachines
from deskyard.workspace import status, workspace
from tests.proxmox.bench import DESKTOPS, NAME, Bench
from tests.proxmox.rack import SECRET_CANARY, SITE, changed, watched

pytestmark = pytest.mark.sampled

# Measured: 205 calls for a gateway and two desktops on two nodes, each of which is asked for its machines at every look
# at the cluster, and for its reload; five of them look for machines at seats, and six make a volume of /home. A busy
# machine asks more often how tasks end: 210. What a machine costs must not creep up.
CALLS_PER_WORKSPACE, CALLS_PER_DESKTOP = 110, 52


def test_a_workspace_is_made_left_alone_changed_and_removed(bench: Bench) -> None:
    bench.empty()
    rack = bench.rack
    before = rack.peer.fake.left()
    with watched(rack.peer) as calls:
        stack = rack.up(NAME, "dev1", "dev2")
    assert len(calls) <= CALLS_PER_WORKSPACE + 2 * CALLS_PER_DESKTOP
    assert rack.machines(NAME).keys() == {"gateway", "dev1", "dev2"}
    assert {vm.status for vm in rack.machines(NAME).values()} == {"running"}

    with watched(rack.peer) as calls:
        assert changed(stack.preview()) == []
    assert [call for call in calls if call.writes] == []

    rack.declare(NAME, "dev1:pro", "dev2")
    parts = ("home", "machine", "power")
    assert sorted(changed(stack.preview())) == [("update", f"lab-desktop-dev1-{part}") for part in parts]
    rack.up(NAME, "dev1:pro", "dev2")
    dev1 = rack.root.ask("GET", f"{rack.node_path('lab', 'dev1')}/config")
    assert (dev1["cores"], int(dev1["memory"])) == (4, 8192)
    assert "size=40G" in dev1["scsi0"]
    assert {"serial=home", "size=20G"} <= set(dev1["scsi1"].split(","))
    # Nobody's work is cut off for it: the machine goes on as it is until it is restarted.
    assert [call for call in rack.peer.fake.calls if call.path.endswith(("/reboot", "/shutdown", "/stop"))] == []
    shown = {desktop["name"]: desktop for desktop in status.status(NAME)["desktops"]}
    assert (shown["dev1"]["state"], shown["dev1"]["restart_needed"]) == ("running", True)
    assert (shown["dev2"]["state"], shown["dev2"]["restart_needed"]) == ("running", False)
    assert changed(stack.preview()) == []

    workspace.destroy(NAME)
    assert rack.peer.fake.left() == before


def test_what_one_workspace_does_touches_nothing_of_another(bench: Bench) -> None:
    bench.up()
    rack = bench.rack
    seen, before = rack.snapshot(NAME), rack.peer.fake.left()
    rack.up("two", "a", "b")
    rack.up("two", "b", "c", remove=["a"])
    assert rack.machines("two").keys() == {"gateway", "b", "c"}
    assert rack.snapshot(NAME) == seen
    ids = {vm.vmid for vm in rack.machines(NAME).values()}
    with watched(rack.peer) as calls:
        workspace.destroy("two")
    assert [call for call in calls if call.writes and any(f"/{vm_id}" in call.path for vm_id in ids)] == []
    assert rack.snapshot(NAME) == seen
    assert rack.peer.fake.left() == before


def test_no_machine_runs_before_its_firewall_is_there(bench: Bench) -> None:
    bench.up()
    rack = bench.rack
    for vm in rack.machines(NAME).values():
        mine = [call for call in bench.making if call.writes and f"/{vm.vmid}/" in call.path]
        started = next(call.number for call in mine if call.path.endswith("/status/start"))
        guards = [call.number for call in mine if "/firewall/" in call.path]
        assert guards
        assert max(guards) < started
        conf = rack.peer.fake._fw()["guests"][vm.vmid]
        options = conf["options"]
        assert (options["enable"], options["policy_in"], options["policy_out"]) == (1, "DROP", "DROP")
        assert conf["ipset"]["ipfilter-net0"]
        nics = [value for key, value in vm.config.items() if key.startswith("net")]
        assert all("firewall=1" in nic for nic in nics)


def test_a_desktop_that_is_not_named_is_never_removed(bench: Bench) -> None:
    bench.up()
    rack = bench.rack
    seen = rack.snapshot(NAME)
    with pytest.raises(ConfigError, match=r"disk of: dev2(.|\n)*--remove dev2"):
        rack.up(NAME, "dev1")
    assert rack.snapshot(NAME) == seen
    # Also past the guard, by the engine itself.
    with pytest.raises(ConfigError, match="disk of: dev2"):
        rack.declare(NAME, "dev1").up()
    assert rack.snapshot(NAME) == seen
    assert {vm.config.get("protection") for n, vm in rack.machines(NAME).items() if n != "gateway"} <= {1, "1"}


def test_what_is_to_be_removed_is_there_until_the_steps_are_said_to_begin(bench: Bench) -> None:
    bench.up()
    rack, seen = bench.rack, list[set[str]]()
    rack.declare(NAME, "dev1")

    def look() -> None:
        seen.append(set(rack.machines(NAME)))

    with pytest.raises(ConfigError, match="disk of: dev2"):
        workspace.up(NAME, on_steps=look)
    assert seen == []
    workspace.up(NAME, remove=["dev2"], on_steps=look)
    assert seen == [{"gateway", "dev1", "dev2"}]
    assert rack.machines(NAME).keys() == {"gateway", "dev1"}


def test_a_new_image_replaces_the_gateway_and_no_desktop(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.up()
    rack, stack = bench.rack, WorkspaceStack(NAME)
    desktops = {name: rack.machines(NAME)[name] for name in DESKTOPS}
    for number, node in enumerate(sorted(rack.peer.fake.nodes)):
        for offset, image in enumerate(("gateway", "desktop")):
            rack.publish(node, 20_100 + number * 10 + offset, image, "newer")
    monkeypatch.setattr("deskyard.image.store.store.digests", lambda name: ["newer"])
    touched = changed(stack.preview())
    assert touched
    assert all(name.startswith("lab-gateway-") for _, name in touched)
    rack.up(NAME, *DESKTOPS)
    gateway = rack.machines(NAME).pop("gateway")
    assert all(rack.machines(NAME)[name] is vm for name, vm in desktops.items())
    conf = rack.peer.fake._fw()["guests"][gateway.vmid]
    planned = rack.plan(NAME).on_cluster
    assert planned is not None
    rules = len(planned.gateway.firewall.rules)
    assert (gateway.status, conf["options"]["policy_in"], len(conf["rules"])) == ("running", "DROP", rules)
    assert changed(stack.preview()) == []


def test_what_is_changed_by_hand_is_reported_and_mended(bench: Bench) -> None:
    bench.up()
    rack, stack = bench.rack, WorkspaceStack(NAME)
    path = rack.node_path(NAME, "dev1")
    rack.root.ask("DELETE", f"{path}/firewall/rules/2")
    rack.root.ask("PUT", f"{path}/config", net1="virtio,bridge=vmbr0")
    assert rack.root.put(f"{path}/firewall/options", data={"policy_out": "ACCEPT"}).status_code == 200
    drift = {change["name"] for change in status.status(NAME, drift=True)["drift"]}
    assert drift == {"lab-desktop-dev1-rules", "lab-desktop-dev1-machine", "lab-desktop-dev1-firewall"}
    rack.up(NAME, *DESKTOPS)
    assert "net1" not in rack.root.ask("GET", f"{path}/config")
    conf = rack.peer.fake._fw()["guests"][rack.machines(NAME)["dev1"].vmid]
    assert [rule["comment"] for rule in conf["rules"]][2] == "neighbours"
    assert conf["options"]["policy_out"] == "DROP"
    assert status.status(NAME, drift=True)["drift"] == []
    assert changed(stack.preview()) == []


def test_a_tier_with_a_smaller_disk_is_refused_with_what_would_have_to_be_freed(bench: Bench) -> None:
    bench.up()
    rack = bench.rack
    rack.up(NAME, "dev1:pro", "dev2")
    rack.declare(NAME, *DESKTOPS)
    with watched(rack.peer) as calls, pytest.raises(ConfigError) as caught:
        workspace.preview(NAME)
    assert (caught.value.value, caught.value.reason) == (
        "free",
        "the disk of / has 40 GiB, the tier 20; the disk of /home has 20 GiB, the tier 10: no disk shrinks",
    )
    assert f"./inv backup.run {NAME}/dev1" in caught.value.remedy
    # The agent of the guest is asked what it holds, and nothing is changed.
    assert {call.path.rpartition("/")[2] for call in calls if call.writes} <= {"exec"}


def test_caps_of_a_disk_are_given_read_back_mended_and_lifted_while_the_desktop_runs(bench: Bench) -> None:
    bench.up()
    rack = bench.rack
    capped = {"vcpus": 2, "memory_mib": 4096, "disk_gib": 20, "disk_iops": 500, "disk_mib_per_second": 50}
    path = f"{rack.node_path(NAME, 'dev1')}/config"

    def limits() -> dict[str, str]:
        options = dict(part.split("=") for part in rack.root.ask("GET", path)["scsi0"].split(",")[1:])
        return {name: value for name, value in options.items() if name.startswith(("iops_", "mbps_", "bps_"))}

    rack.site(tiers={"quick": {**capped, "disk_burst": {"iops": 2000, "mib_per_second": 200, "seconds": 30}}})
    stack = rack.up(NAME, "dev1:quick", "dev2")
    plain = {"iops_rd": "500", "iops_wr": "500", "mbps_rd": "50", "mbps_wr": "50"}
    burst = {**plain, "iops_rd_max": "2000", "iops_wr_max": "2000", "mbps_rd_max": "200", "mbps_wr_max": "200"}
    burst |= {f"{what}_{way}_max_length": "30" for what in ("iops", "bps") for way in ("rd", "wr")}
    assert limits() == burst
    assert changed(stack.preview()) == []

    disk = rack.root.ask("GET", path)["scsi0"]
    rack.root.ask("PUT", path, scsi0=disk.replace("iops_rd_max_length=30", "iops_rd_max_length=90"))
    assert {change["name"] for change in status.status(NAME, drift=True)["drift"]} == {"lab-desktop-dev1-power"}
    rack.up(NAME, "dev1:quick", "dev2")
    assert limits() == burst

    rack.site(tiers={"quick": capped})
    rack.up(NAME, "dev1:quick", "dev2")
    assert limits() == plain
    assert changed(stack.preview()) == []

    rack.site(tiers={"quick": {**capped, "disk_iops": None}})
    rack.up(NAME, "dev1:quick", "dev2")
    assert limits() == {"mbps_rd": "50", "mbps_wr": "50"}
    assert changed(stack.preview()) == []

    rack.site(tiers={"quick": {**capped, "disk_iops": None, "disk_mib_per_second": None}})
    rack.up(NAME, "dev1:quick", "dev2")
    assert limits() == {}
    assert changed(stack.preview()) == []
    assert [call for call in rack.peer.fake.calls if call.path.endswith(("/reboot", "/shutdown", "/stop"))] == []


def test_a_machine_that_the_state_does_not_know_is_never_touched(bench: Bench) -> None:
    bench.up()
    rack = bench.rack
    seen = rack.snapshot(NAME)
    rack.forget(NAME)
    with pytest.raises(SiteError, match="state does not know it"):
        rack.up(NAME, *DESKTOPS)
    assert rack.snapshot(NAME) == seen


def test_a_state_that_was_cut_off_hinders_no_destroy_and_that_of_another_is_not_looked_at(bench: Bench) -> None:
    bench.up()
    state = next((bench.rack.folder / "home" / "state" / "pulumi" / "backend").rglob(f"stacks/**/{NAME}.json"))
    shutil.copy2(state, state.with_name("two.json"))
    mine, others = (state.with_name(f"{name}.json.attrs") for name in (NAME, "two"))
    for path in (mine, others):
        path.write_text("")
    workspace.destroy(NAME)
    bench.gone()
    assert not mine.exists()
    # Whoever works on it may just be writing.
    assert others.read_text() == ""


def test_a_workspace_whose_declaration_is_wrong_by_now_is_removed(bench: Bench) -> None:
    bench.up()
    path = stack_file(NAME)
    path.write_text(path.read_text().replace("config:\n", "config:\n  deskyard:no_such_key: 1\n"))
    with pytest.raises(ConfigError):
        workspace.preview(NAME)
    assert workspace.remnants(NAME) == []
    workspace.destroy(NAME)
    bench.gone()


def removed(bench: Bench, desktop: str) -> int:
    """Remove a desktop's machine by hand, disk and all; answers its id."""
    root, path = bench.rack.root, bench.rack.node_path(NAME, desktop)
    vm_id: int = bench.rack.machines(NAME)[desktop].vmid
    root.ask("PUT", f"{path}/config", protection=0)
    for method, place in (("POST", f"{path}/status/stop"), ("DELETE", path)):
        assert root.finish(method, place) == "OK"
    return vm_id


def test_what_is_gone_and_no_longer_declared_is_forgotten(bench: Bench) -> None:
    """Its id is free: the state must not take who gets it next for its own."""
    bench.up()
    vm_id = removed(bench, "dev2")
    stack = bench.rack.declare(NAME, "dev1")
    forgotten = {step["name"] for step in workspace.preview(NAME)["steps"] if step["operation"] == "forget"}
    assert "lab-desktop-dev2-machine" in forgotten
    assert str(vm_id) in stack.on_cluster().machines
    bench.run("up")
    assert str(vm_id) not in stack.on_cluster().machines
    bench.settled("dev1")


def test_a_machine_that_got_the_id_of_one_that_is_gone_is_never_touched(bench: Bench) -> None:
    bench.up()
    root, vm_id = bench.rack.root, removed(bench, "dev2")
    assert root.finish("POST", "/nodes/pve1/qemu", vmid=vm_id, name="theirs") == "OK"
    theirs = dict(bench.rack.peer.fake.vm(vm_id).config)
    refused = pytest.raises(SiteError, match=f"{vm_id}.*is theirs in no pool, and no machine of lab any more")
    for declared, remove in ((DESKTOPS, []), (("dev1",), ["dev2"])):
        bench.rack.declare(NAME, *declared)
        with refused:
            workspace.up(NAME, remove=remove)
        with refused:
            workspace.destroy(NAME)
    assert bench.rack.peer.fake.vm(vm_id).config == theirs


def test_a_network_whose_removal_is_not_in_force_yet_is_removed_by_the_next_run(bench: Bench) -> None:
    bench.empty()
    root, fake = bench.rack.root, bench.rack.peer.fake
    zone, alias = next(iter(fake.sdn["zones"])), pool_of(SITE, NAME)
    root.ask("POST", "/cluster/sdn/vnets", vnet="dy1", zone=zone, tag=100_001, alias=alias)
    assert root.finish("PUT", "/cluster/sdn") == "OK"
    root.ask("DELETE", "/cluster/sdn/vnets/dy1")
    assert "dy1" in fake.sdn_running["vnets"]
    assert leftovers.clear(read_site(SITE), NAME, leftovers.state_ids([])) == ["dy1"]
    assert fake.sdn_running == fake.sdn


def test_the_engine_is_started_a_few_times_and_a_wrong_passphrase_is_found_before_anything_is_touched(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.up()
    rack, stack = bench.rack, WorkspaceStack(NAME)
    runs: list[str] = []
    run = EngineCommand.run

    def noted(self: EngineCommand, args: list[str], *rest: Any, **named: Any) -> Any:
        runs.append(" ".join(args[:2] if args[0] == "stack" else args[:1]))
        return run(self, args, *rest, **named)

    monkeypatch.setattr(EngineCommand, "run", noted)
    workspace.up(NAME)
    # Each of them opens the state, which takes the better part of a second by design of its encryption.
    assert runs == ["stack select", "stack export", "preview"]

    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "another")
    with watched(rack.peer) as calls:
        for work in (workspace.preview, workspace.up, workspace.destroy):
            with pytest.raises(ConfigError, match="does not open this workspace's state"):
                work(NAME)
        for asked in (stack.preview, stack.up, stack.destroy, stack.unprotect):
            with pytest.raises(ConfigError, match="does not open this workspace's state"):
                asked()
    assert [call for call in calls if call.writes] == []


def test_the_token_is_in_nothing_that_is_kept_or_shown(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    bench.empty()
    rack = bench.rack
    rack.up(NAME, "dev1")
    shown = capfd.readouterr()
    kept = [path for path in (rack.folder / "home").rglob("*") if path.is_file() and "cache" not in path.parts]
    assert any(NAME in path.name for path in kept)
    secret = SECRET_CANARY.encode()
    assert [str(path) for path in [*kept, *rack.stacks.rglob("*.yaml")] if secret in path.read_bytes()] == []
    assert SECRET_CANARY not in shown.out + shown.err
    assert [str(call) for call in rack.peer.fake.calls if SECRET_CANARY in str(call)] == []
    assert SECRET_CANARY not in rack.snapshot(NAME)
    assert "PRIVATE KEY" not in rack.snapshot(NAME)


def test_a_desktop_of_before_gets_its_volume_of_home_once_it_was_promised_and_nothing_else_changes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.empty()
    rack, made = bench.rack, _Maker._vm
    with monkeypatch.context() as before:

        def without(maker: _Maker, name: str, machine: MachinePlan, *given: Any) -> VmPlan:
            return made(maker, name, replace(machine, home_gib=None), *given)

        before.setattr(_Maker, "_vm", without)
        stack = rack.up(NAME, *DESKTOPS)
    assert changed(stack.preview()) == []
    machines, desktops = ClusterMachines(rack.plan(NAME).plan, read_site(SITE)), rack.plan(NAME).plan.desktops
    machines.promise_home(desktops[0].machine.domain, 10)
    assert changed(stack.preview()) == [("create", "lab-desktop-dev1-home")]
    rack.up(NAME, *DESKTOPS)
    homes = {name: has_home(vm.config) for name, vm in rack.machines(NAME).items()}
    assert homes == {"gateway": False, "dev1": True, "dev2": False}
    assert rack.machines(NAME)["dev1"].status == "running"
    assert changed(stack.preview()) == []
    assert status.status(NAME, drift=True)["drift"] == []
