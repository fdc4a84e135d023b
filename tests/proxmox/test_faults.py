"""What passes by itself is tried again, a bounded number of times; what does not is told with its cause.

All the while nothing runs unguarded and no machine is made twice; once the cause is gone, the same command ends well.
"""

from collections.abc import Callable

import pytest

from deskyard.engine import on_proxmox
from tests.proxmox.bench import DESKTOPS, NAME, Bench
from tests.proxmox.guarded import Watch, cut_off, unguarded
from tests.support.pve import Fake
from tests.support.pve.calls import Call

pytestmark = pytest.mark.sampled

FREE = "avail"


class Trouble:
    """Begins at the first call that fits, and ends when it is told to; watches all the while."""

    def __init__(self, fake: Fake, begins: Callable[[Call], bool], begin: Callable[[Call], object]) -> None:
        self._begins, self._begin = begins, begin
        self.watch, self.began = Watch(fake), 0
        fake.faults.on_call = self

    def __call__(self, call: Call) -> None:
        self.watch(call)
        if not self.began and self._begins(call):
            self.began = call.number
            self._begin(call)


def ends_badly(bench: Bench, *causes: str) -> None:
    """The command fails, and its error names the causes."""
    process = bench.start("up")
    error = process.wait().error
    assert error, "it succeeded"
    assert [cause for cause in causes if cause not in error] == [], f"{error}\n{process.tail()}"


def ends_well(bench: Bench, *desktops: str) -> None:
    """The same command again makes what is declared."""
    bench.run("up")
    bench.settled(*desktops)


def clones(call: Call) -> bool:
    """Whether a machine is made by this call."""
    return call.method == "POST" and call.path.endswith("/clone")


def test_a_cluster_whose_firewall_is_off_is_refused(bench: Bench) -> None:
    bench.empty()
    bench.rack.declare(NAME, *DESKTOPS)
    bench.rack.root.ask("PUT", "/cluster/firewall/options", enable=0)
    bench.rack.peer.fake.calls.clear()
    ends_badly(bench, "firewall is off", "pvesh set /cluster/firewall/options --enable 1")
    assert bench.rack.peer.fake.calls.writes() == []


@pytest.mark.deep
def test_a_node_that_is_away_is_named_and_its_machines_are_not_made_anew(bench: Bench) -> None:
    bench.up()
    fake = bench.rack.peer.fake
    node = bench.rack.machines(NAME)["dev1"].node
    before = fake.left()
    bench.rack.declare(NAME, "dev1:pro", "dev2")
    trouble = Trouble(fake, lambda call: "/qemu/" in call.path, lambda _: fake.set_node_offline(node))
    ends_badly(bench, "595", node)
    assert fake.left() == before
    fake.set_node_offline(node, offline=False)
    ends_well(bench, *DESKTOPS)
    assert trouble.watch.seen == []


@pytest.mark.deep
def test_a_node_that_goes_while_its_machine_is_made_costs_another_try(bench: Bench) -> None:
    bench.empty()
    fake = bench.rack.peer.fake
    bench.rack.declare(NAME, *DESKTOPS)
    trouble = Trouble(fake, clones, lambda call: fake.set_node_offline(call.path.split("/")[2]))
    bench.run("up")
    assert trouble.began
    for node in fake.nodes:
        fake.set_node_offline(node, offline=False)
    bench.settled(*DESKTOPS)
    assert trouble.watch.seen == []


@pytest.mark.deep
def test_without_quorum_nothing_is_half_opened_and_tries_are_few(bench: Bench) -> None:
    bench.empty()
    fake = bench.rack.peer.fake
    bench.rack.declare(NAME, *DESKTOPS)
    trouble = Trouble(
        fake, lambda call: call.path.endswith("/firewall/options") and call.writes, lambda _: fake.lose_quorum()
    )
    ends_badly(bench, "no quorum")
    refused = [call for call in fake.calls if call.writes and call.number >= trouble.began]
    assert 0 < len(refused) <= 60 * on_proxmox.TRIES
    assert {vm.status for vm in bench.rack.machines(NAME).values()} <= {"stopped"}
    fake.regain_quorum()
    ends_well(bench, *DESKTOPS)
    assert trouble.watch.seen == []


def test_a_storage_that_fills_up_is_named_at_once(bench: Bench) -> None:
    bench.empty()
    fake = bench.rack.peer.fake
    bench.rack.declare(NAME, *DESKTOPS)
    store = fake.storages["local-lvm"]
    free = store[FREE]
    trouble = Trouble(fake, clones, lambda _: store.update({FREE: 10}))
    ends_badly(bench, "No space left on device", "local-lvm")
    # It does not pass by itself, so nobody tries again.
    assert len([call for call in fake.calls if clones(call)]) <= 3
    store[FREE] += free - 10
    ends_well(bench, *DESKTOPS)
    assert trouble.watch.seen == []


def test_a_storage_that_is_locked_and_slow_tasks_pass_by_themselves(bench: Bench) -> None:
    bench.empty()
    fake = bench.rack.peer.fake
    bench.rack.declare(NAME, *DESKTOPS)
    watch = fake.faults.on_call = Watch(fake)
    fake.faults.storage_locks["local-lvm"] = 1
    fake.fail("GET", "/status/current", 596, "Connection timed out", times=2)
    fake.faults.slow_tasks.update(qmclone=0.5, qmstart=0.5)
    try:
        ends_well(bench, *DESKTOPS)
    finally:
        fake.faults.slow_tasks.clear()
    assert watch.seen == []


@pytest.mark.deep
def test_a_storage_that_stays_locked_is_named_after_a_few_tries_and_nothing_is_left_half_made(bench: Bench) -> None:
    bench.empty()
    fake = bench.rack.peer.fake
    bench.rack.declare(NAME, "dev1")
    fake.faults.storage_locks["local-lvm"] = 10_000
    ends_badly(bench, "cfs-lock 'storage-local-lvm' error: got lock request timeout")
    assert len([call for call in fake.calls if clones(call)]) <= 2 * on_proxmox.TRIES
    fake.faults.storage_locks.clear()
    bench.run("destroy")
    bench.gone()


@pytest.mark.deep
def test_a_disk_that_a_good_task_did_not_make_is_named(bench: Bench) -> None:
    bench.empty()
    fake = bench.rack.peer.fake
    bench.rack.declare(NAME, "dev1")
    watch = fake.faults.on_call = Watch(fake)
    fake.faults.lost_disks.add("qmclone")
    try:
        ends_badly(bench, "'local-lvm:vm-", "-disk-0'")
    finally:
        fake.faults.lost_disks.clear()
    # It will not come by itself: the gateway's and the desktop's, once each.
    assert len([call for call in fake.calls if clones(call)]) <= 2
    assert watch.seen == []
    # Pulumi's provider cannot even read such a machine: somebody has to remove it. It has never run and holds nothing.
    for machine in list(bench.rack.machines(NAME)):
        assert bench.rack.root.finish("DELETE", bench.rack.node_path(NAME, machine), purge=1) == "OK"
    ends_well(bench, "dev1")


@pytest.mark.deep
def test_a_firewall_that_cannot_be_set_lets_no_machine_start(bench: Bench) -> None:
    bench.empty()
    fake = bench.rack.peer.fake
    bench.rack.declare(NAME, "dev1")
    watch = fake.faults.on_call = Watch(fake)
    fake.fail("PUT", "/firewall/options", 500, "can't lock file '/etc/pve/firewall' - got timeout")
    ends_badly(bench, "can't lock file")
    assert {vm.status for vm in bench.rack.machines(NAME).values()} == {"stopped"}
    fake.failures.clear()
    ends_well(bench, "dev1")
    assert watch.seen == []


@pytest.mark.deep
def test_a_lock_that_somebody_left_is_named_and_not_waited_for(bench: Bench) -> None:
    bench.up()
    fake = bench.rack.peer.fake
    bench.rack.declare(NAME, "dev1:pro", "dev2")
    vm_id = bench.rack.machines(NAME)["dev1"].vmid
    fake.snapshot_lock(vm_id, "backup")
    ends_badly(bench, "VM is locked (backup)")
    asked = [call for call in fake.calls.writes() if call.path.endswith(f"/{vm_id}/config")]
    assert 0 < len(asked) < on_proxmox.TRIES
    fake.unlock(vm_id)
    ends_well(bench, *DESKTOPS)


@pytest.mark.deep
def test_a_lock_of_somebody_who_is_just_done_costs_another_try(bench: Bench) -> None:
    bench.up()
    fake = bench.rack.peer.fake
    bench.rack.declare(NAME, "dev1:pro", "dev2")
    vm_id = bench.rack.machines(NAME)["dev1"].vmid
    fake.fail("PUT", f"/{vm_id}/config", 500, "VM is locked (clone)", times=2)
    ends_well(bench, *DESKTOPS)
    assert fake.failures == {}


def test_desktops_on_two_nodes_are_kept_apart_and_each_has_its_gateway(bench: Bench) -> None:
    bench.up()
    machines = bench.rack.machines(NAME)
    assert machines["dev1"].node != machines["dev2"].node
    assert unguarded(bench.rack.peer.fake) == []
    assert cut_off(bench.rack.peer.fake) == []


def test_more_than_its_tier_is_taken_back(bench: Bench) -> None:
    bench.up()
    path = bench.rack.node_path(NAME, "dev1")
    bench.rack.root.ask("PUT", f"{path}/config", cores=16, memory=65536, cpulimit=0)
    drift = bench.run("status", drift=True)["drift"]
    assert [change["name"] for change in drift] == ["lab-desktop-dev1-machine"]
    bench.run("up")
    config = bench.rack.root.ask("GET", f"{path}/config")
    assert (config["cores"], int(config["memory"]), float(config["cpulimit"])) == (2, 4096, 2.0)
