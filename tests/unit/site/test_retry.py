"""Which causes of a failed run pass by themselves, in the words of a cluster and of the engine's plugin."""

import pytest

from deskyard.site.proxmox import retry

PLUGIN = "error updating VM: received an HTTP {status} response - Reason: {reason}"
PASSING = [
    "cfs-lock 'storage-local-lvm' error: got lock request timeout",
    "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout",
    "can't acquire lock '/var/lock/pve-manager/pve-storage-shared' (Resource temporarily unavailable)",
    PLUGIN.format(status=500, reason="VM is locked (clone)"),
    PLUGIN.format(status=500, reason="VM is locked (create)"),
    PLUGIN.format(status=500, reason="cluster not ready - no quorum?"),
    PLUGIN.format(status=500, reason="unable to create VM 9001: config file already exists"),
    PLUGIN.format(status=596, reason="Connection timed out"),
    PLUGIN.format(status=503, reason="Service Unavailable"),
    "HTTP 595: No route to host",
    "no answer: Connection reset by peer",
    'Get "https://192.0.2.2:8006/api2/json/pools": read: connection reset by peer',
    'Get "https://192.0.2.2:8006/api2/json/pools": EOF',
    "got no worker upid",
    "plugin [/x/pulumi-resource-proxmoxve] did not begin responding to RPC connections",
    "plugin [/x/pulumi-resource-deskyard] did not come alive: context deadline exceeded",
]
STAYING = [
    PLUGIN.format(status=500, reason="VM is locked (backup)"),
    PLUGIN.format(status=500, reason="VM is locked (snapshot-delete)"),
    PLUGIN.format(status=500, reason="VM is locked (suspended)"),
    PLUGIN.format(status=500, reason="storage 'local-lvm' is not available on node 'pve1'"),
    PLUGIN.format(status=403, reason="Permission check failed (/vms/100, VM.Clone)"),
    PLUGIN.format(status=400, reason="Parameter verification failed."),
    PLUGIN.format(status=501, reason="Method 'PUT /x' not implemented"),
    "lvcreate 'pve/vm-9001-disk-0' error: No space left on device",
    "volume 'local-lvm:vm-9001-disk-0' does not exist",
    "volume_size_info on 'local-lvm:vm-9001-disk-0' failed - no such logical volume",
]


@pytest.mark.parametrize("text", PASSING)
def test_what_passes_by_itself_is_worth_another_run(text: str) -> None:
    assert retry.passes(text)


@pytest.mark.parametrize("text", STAYING)
def test_what_stays_as_it_is_ends_the_run(text: str) -> None:
    assert not retry.passes(text)


@pytest.mark.parametrize("stays", [text for text in STAYING if "locked" in text or "volume" in text])
def test_of_several_causes_one_that_somebody_has_to_mend_is_enough(stays: str) -> None:
    assert not retry.passes(f"{PASSING[0]}\n{stays}")


def test_pauses_grow_and_end() -> None:
    assert list(retry.pauses(5, 20, 5)) == [5, 10, 20, 20]
    assert list(retry.pauses(5, 20, 1)) == []
