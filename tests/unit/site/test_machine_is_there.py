"""Whether a desktop has a machine is asked by its name: one that was taken out of its declaration may run on."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import libvirt
import pytest

from deskyard.errors import SiteError
from deskyard.plan.proxmox.view import Owner
from deskyard.site.libvirt import daemon
from deskyard.site.libvirt.machines import LibvirtMachines
from deskyard.site.proxmox.machines import ClusterMachines
from deskyard.site.proxmox.token import VARIABLE
from tests.desktop.lab import planned
from tests.unit.site.stub import TOKEN, Reply, serving

PLAN = planned("dev1")


def test_the_hypervisor_is_asked_for_a_desktop_that_nobody_declares(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"deskyard-{PLAN.name}.left", "deskyard-other.dev1"]

    @contextmanager
    def connection() -> Iterator[Any]:
        yield SimpleNamespace(listAllDomains=lambda: [SimpleNamespace(name=lambda name=name: name) for name in names])

    monkeypatch.setattr(daemon, "connection", connection)
    machines = LibvirtMachines(PLAN)
    assert [machines.is_there(name) for name in ("left", "dev1", "other")] == [True, False, False]


def test_a_hypervisor_that_does_not_answer_says_of_no_machine_that_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    def dead(_uri: str) -> None:
        raise libvirt.libvirtError("no daemon")

    monkeypatch.setattr(libvirt, "open", dead)
    with pytest.raises(SiteError, match="no daemon"):
        LibvirtMachines(PLAN).is_there("dev1")


def test_the_cluster_is_asked_for_a_desktop_that_nobody_declares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, TOKEN)
    row = {"type": "qemu", "node": "pve1", "vmid": 50_001, "tags": Owner(PLAN.site, PLAN.name, "left").tag}
    with serving(tmp_path, Reply(data=[row])) as stub:
        machines = ClusterMachines(PLAN, stub.site())
        assert [machines.is_there(name) for name in ("left", "dev1")] == [True, False]
