"""What can be made to go wrong with the peer, and what it notes of the calls."""

import threading
from typing import Any

import httpx
import pytest

from tests.support.pve import Client, Peer
from tests.support.pve.asking import NODE, machine, refused, upload
from tests.support.pve.calls import Call

# The log of calls.


def test_calls_are_counted_and_kept_without_secrets(peer: Peer, root: Client) -> None:
    machine(root, cipassword="hunter2")
    peer.fake.calls.clear()
    root.ask("PUT", f"{NODE}/100/config", cipassword="hunter3", description="x")
    root.finish("POST", f"{NODE}/100/status/start")
    root.ask("POST", f"{NODE}/100/agent/file-write", file="/etc/key", content="hunter4")
    said = " ".join(map(str, peer.fake.calls))
    assert "hunter" not in said
    assert "description" in said
    assert [(call.number, call.method, call.status) for call in peer.fake.calls.to("PUT", "/100/config")] == [
        (1, "PUT", 200)
    ]
    assert [call.user for call in peer.fake.calls.writes()] == ["root@pam"] * 3


# What goes wrong.


def started(root: Client, *, vmid: int = 100) -> str:
    """How starting a machine ends."""
    return root.finish("POST", f"{NODE}/{vmid}/status/start")


def test_a_locked_machine_does_not_start(peer: Peer, root: Client) -> None:
    machine(root)
    peer.fake.snapshot_lock(100, "backup")
    assert started(root) == "VM is locked (backup)"
    peer.fake.unlock(100)
    assert started(root) == "OK"


def test_a_storage_whose_lock_cannot_be_had_makes_no_disk_until_it_can(peer: Peer, root: Client) -> None:
    peer.fake.faults.storage_locks["local-lvm"] = 1
    disk = {"vmid": 100, "scsi0": "local-lvm:1"}
    assert "got lock request timeout" in root.finish("POST", NODE, **disk)
    assert peer.fake.left() == {}
    assert root.finish("POST", NODE, **disk) == "OK"


@pytest.mark.parametrize(
    ("status", "message"), [(500, "boom"), (503, "busy"), (596, "Connection timed out"), (403, "no")]
)
def test_an_answer_can_be_a_failure_for_a_while(peer: Peer, root: Client, status: int, message: str) -> None:
    peer.fake.fail("GET", "/version", status, message, times=2)
    for _ in range(2):
        refused(root.get("/version"), status, message)
    assert root.get("/version").status_code == 200


def test_a_slow_task_goes_on_behind_its_answer(peer: Peer, root: Client) -> None:
    machine(root)
    peer.fake.faults.slow_tasks["qmstart"] = 0.3
    upid = root.ask("POST", f"{NODE}/100/status/start")
    assert root.ask("GET", f"/nodes/pve1/tasks/{upid}/status")["status"] == "running"
    assert peer.fake.left()["running tasks"] == {upid}
    peer.fake.faults.slow_tasks.clear()
    while peer.fake.tasks[upid]["status"] == "running":
        threading.Event().wait(0.05)
    assert (peer.fake.tasks[upid]["exitstatus"], peer.fake.vm(100).status) == ("OK", "running")


def test_a_clone_that_ended_well_may_have_no_disk_and_then_does_not_start(peer: Peer, root: Client) -> None:
    machine(root)
    root.finish("POST", f"{NODE}/100/template")
    peer.fake.faults.lost_disks.add("qmclone")
    assert root.finish("POST", f"{NODE}/100/clone", newid=101) == "OK"
    assert root.ask("GET", "/nodes/pve1/storage/local-lvm/content", vmid=101) == []
    assert started(root, vmid=101) == "volume 'local-lvm:vm-101-disk-0' does not exist"


def test_without_quorum_the_cluster_can_only_be_read(peer: Peer, root: Client) -> None:
    machine(root)
    peer.fake.lose_quorum()
    for method, path in (("POST", f"{NODE}/100/status/start"), ("PUT", "/cluster/sdn"), ("POST", "/pools")):
        refused(root.request(method, path), 500, "no quorum")
    assert root.ask("GET", f"{NODE}/100/status/current")["status"] == "stopped"
    peer.fake.regain_quorum()
    assert started(root) == "OK"


def test_an_offline_node_is_named_so_and_not_reached(peer: Peer, root: Client) -> None:
    peer.fake.set_node_offline("pve2")
    refused(root.get("/nodes/pve2/qemu"), 595, "")
    assert {node["node"]: node["status"] for node in root.ask("GET", "/nodes")} == {"pve1": "online", "pve2": "offline"}


def test_a_full_storage_takes_neither_disk_nor_image(peer: Peer, root: Client) -> None:
    for name in ("local", "local-lvm"):
        peer.fake.storages[name]["avail"] = 10
    assert "No space left" in root.finish("POST", NODE, vmid=100, scsi0="local-lvm:1")
    upid = upload(root).json()["data"]
    assert "No space left" in root.ask("GET", f"/nodes/pve1/tasks/{upid}/status")["exitstatus"]
    assert peer.fake.left() == {}


@pytest.mark.parametrize(("when", "made"), [("before", set()), ("after", {"deskyard-a"})])
def test_a_cut_call_is_done_or_not_done_but_never_answered(peer: Peer, root: Client, when: Any, made: set[str]) -> None:
    root.ask("GET", "/version")
    peer.fake.faults.cuts[len(peer.fake.calls) + 1] = when
    with pytest.raises(httpx.TransportError):
        root.post("/pools", data={"poolid": "deskyard-a"})
    assert {pool["poolid"] for pool in root.ask("GET", "/pools")} == made


def test_an_api_that_falls_silent_keeps_its_callers_waiting(peer: Peer, root: Client) -> None:
    peer.fake.faults.silent_from = 2
    root.ask("GET", "/version")
    with pytest.raises(httpx.ReadTimeout):
        root.get("/version", timeout=0.3)


def test_a_test_can_act_at_a_certain_call(peer: Peer, root: Client) -> None:
    seen: list[str] = []

    def act(call: Call) -> None:
        if call.number == 2:
            seen.append(str(call))

    peer.fake.faults.on_call = act
    for path in ("/version", "/nodes", "/version"):
        root.ask("GET", path)
    assert seen == ["GET /nodes {}"]
