"""The peer moves machines as the real services of Proxmox VE 8.4.21 did when they were asked the same."""

from typing import Any

import httpx
import pytest

from tests.support.pve import Client, Peer
from tests.support.pve.asking import NODE, machine, refused

STATUS, CONFIG = f"{NODE}/100/status", f"{NODE}/100/config"
RUNNING, PAUSED, OFF = ("running", "running", None), ("running", "paused", None), ("stopped", "stopped", None)
SAVED, FAILED = ("stopped", "stopped", "suspended"), ("running", "paused", "suspending")


@pytest.fixture(autouse=True)
def _machine(root: Client) -> None:
    machine(root, protection=1)


def at(root: Client) -> tuple[Any, ...]:
    """Its status: process, QEMU, lock."""
    status = root.ask("GET", f"{STATUS}/current")
    return tuple(status.get(name) for name in ("status", "qmpstatus", "lock"))


def done(root: Client, verb: str, **given: Any) -> str:
    """How the task ended."""
    return root.finish("POST", f"{STATUS}/{verb}", **given)


def changed(root: Client, form: str) -> httpx.Response:
    """The answer to a change of its configuration."""
    return root.put(CONFIG, content=form, headers={"Content-Type": "application/x-www-form-urlencoded"})


def test_one_that_is_off_shuts_down_and_stops_but_has_nothing_to_pause(root: Client) -> None:
    assert [done(root, "shutdown", timeout=3, forceStop=0), done(root, "stop")] == ["OK", "OK"]
    for verb in ("suspend", "resume"):
        refused(root.post(f"{STATUS}/{verb}"), 500, "VM 100 not running")


def test_one_that_runs_is_not_started_again(root: Client) -> None:
    assert [done(root, "start"), done(root, "start")] == ["OK", "VM 100 already running"]


def test_a_guest_that_does_not_listen_runs_on(root: Client, peer: Peer) -> None:
    done(root, "start")
    peer.fake.vm(100).acpi = False
    assert done(root, "shutdown", timeout=3, forceStop=0) == "VM quit/powerdown failed - got timeout"
    assert at(root) == RUNNING
    assert done(root, "shutdown", timeout=3, forceStop=1) == "OK"
    assert at(root) == OFF


def test_a_paused_one_pauses_again_hears_nothing_and_resumes_twice(root: Client) -> None:
    done(root, "start")
    assert [done(root, "suspend"), done(root, "suspend", todisk=0)] == ["OK", "OK"]
    assert at(root) == PAUSED
    refused(root.post(f"{STATUS}/shutdown", data={"timeout": 3}), 500, "VM is paused - cannot shutdown")
    assert [done(root, "resume"), done(root, "resume")] == ["OK", "OK"]
    assert at(root) == RUNNING


def test_one_with_its_memory_on_disk_is_locked_and_can_only_be_started(root: Client) -> None:
    done(root, "start")
    assert done(root, "suspend", todisk=1, statestorage="local-lvm") == "OK"
    assert at(root) == SAVED
    for change in ("tags=a", "onboot=1", "protection=0"):
        refused(changed(root, change), 500, "VM is locked (suspended)")
    for change in ("delete=vmstate", "delete=vmstate&protection=0"):
        refused(changed(root, change), 500, "protection mode enabled")
    assert [done(root, "stop"), done(root, "shutdown")] == ["OK", "OK"]
    refused(root.post(f"{STATUS}/suspend"), 500, "VM 100 not running")
    assert at(root) == SAVED


@pytest.mark.parametrize("verb", ["start", "resume"])
def test_starting_and_resuming_it_reads_its_memory_and_unlocks_it(root: Client, peer: Peer, verb: str) -> None:
    before = peer.fake.left()
    done(root, "start")
    done(root, "suspend", todisk=1, statestorage="local-lvm")
    assert peer.fake.left() != before
    assert done(root, verb) == "OK"
    assert at(root) == RUNNING
    assert peer.fake.left() == before
    assert not {"lock", "vmstate", "runningmachine"} & root.ask("GET", CONFIG).keys()


def test_memory_on_disk_is_dropped_where_nothing_protects_it(root: Client, peer: Peer) -> None:
    root.ask("PUT", CONFIG, protection=0)
    before = peer.fake.left()
    done(root, "start")
    done(root, "suspend", todisk=1, statestorage="local-lvm")
    root.ask("PUT", CONFIG, delete="vmstate")
    assert at(root) == OFF
    assert peer.fake.left() == before


def test_where_memory_could_not_be_saved_the_lock_stays(root: Client, peer: Peer) -> None:
    done(root, "start")
    peer.fake.save_error = "VM 100 qmp command 'savevm-start' failed"
    assert done(root, "suspend", todisk=1, statestorage="local-lvm") == peer.fake.save_error
    assert at(root) == FAILED
    refused(changed(root, "tags=a"), 500, "VM is locked (suspending)")
    assert {done(root, verb) for verb in ("stop", "resume")} == {"VM is locked (suspending)"}


@pytest.mark.parametrize("lacking", ["VM.PowerMgmt", "VM.Config.Disk", "Datastore.AllocateSpace"])
def test_pausing_to_disk_takes_three_privileges(root: Client, peer: Peer, lacking: str) -> None:
    done(root, "start")
    given = {"VM.PowerMgmt", "VM.Config.Disk", "Datastore.AllocateSpace", "Sys.Audit"}
    for number, names in enumerate((given - {lacking}, given)):
        token = peer.fake.token(f"user{number}@pve", privsep=False)
        peer.fake.roles[f"Role{number}"] = names
        root.ask("PUT", "/access/acl", path="/", roles=f"Role{number}", users=f"user{number}@pve")
        with peer.client(token) as client:
            asked = {"todisk": 1, "statestorage": "local-lvm"}
            if lacking in names:
                assert client.finish("POST", f"{STATUS}/suspend", **asked) == "OK"
            else:
                refused(client.post(f"{STATUS}/suspend", data=asked), 403, lacking)
