"""Machines that go on from a template, on real QEMU: several from one memory, each with its own name and disk."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import libvirt
import pytest

from deskyard.errors import SiteError
from deskyard.host.vm.accelerator import accelerator
from deskyard.model.tier import TIERS
from deskyard.plan.first_boot import FirstBoot, desktop_first_boot
from deskyard.plan.image.source import ImageSource
from deskyard.plan.names import machine_uuid
from deskyard.plan.warm import HOME, SYSTEM, Template, disk_name, identity, start, template_desktop
from deskyard.plan.workspace import Accelerator, MachinePlan
from deskyard.site.libvirt import daemon, documents, power, storage
from deskyard.site.libvirt.kinds.domain import DomainKind
from deskyard.site.libvirt.kinds.network import FilterKind, NetworkKind
from deskyard.site.libvirt.kinds.volume import SeedKind, VolumeKind
from deskyard.site.libvirt.warm import making, restoring, templates
from deskyard.site.resource.kind import Kind
from deskyard.site.resource.values import Values
from stacks.provider.provider import changes

pytestmark = pytest.mark.vm

PREFIX = f"deskyard-warm-{os.getpid()}"
VCPUS, MEMORY_MIB, DISK_GIB = 1, 128, 1
NAMES = (f"{PREFIX}.a", f"{PREFIX}.b")


def tiny(how: Accelerator, key: str = "", memory_mib: int = MEMORY_MIB) -> tuple[MachinePlan, FirstBoot]:
    """A machine that is as small as can be, and what it would read at its first boot."""
    desktop = template_desktop(PREFIX, "tiny", TIERS["free"], how)
    machine = replace(desktop.machine, vcpus=VCPUS, memory_mib=memory_mib, disk_gib=DISK_GIB, home_gib=DISK_GIB)
    return machine, desktop_first_boot(desktop, key)


@dataclass
class Bench:
    """A connection, a template without a guest, and what was made from it."""

    link: Any
    image: ImageSource
    template: Template
    made: list[tuple[Kind[Any], str, Values]] = field(default_factory=list)

    def make(self, kind: Kind[Any], inputs: Values) -> Any:
        """Create a thing; its state."""
        identity, outputs = kind.create(self.link, inputs)
        state = {**inputs, **outputs}
        self.made.append((kind, identity, state))
        return state

    def home(self, name: str) -> Any:
        """A volume of /home on that of the template."""
        template = disk_name(self.template.name, HOME)
        return self.make(VolumeKind(), {"name": f"{name}.home.qcow2", "size_gib": 1, "template": template})

    def disk(self, name: str) -> Any:
        """A disk on that of the template."""
        image = {"image": self.image.name, "digest": self.image.digest, "source": self.image.disk, "size_gib": 1}
        return self.make(
            VolumeKind(), {"name": f"{name}.qcow2", **image, "template": disk_name(self.template.name, SYSTEM)}
        )

    def inputs(self, name: str, number: int = 1) -> Any:
        """What a machine is wanted to be, with all that it needs there."""
        network = self.make(
            NetworkKind(),
            {
                "name": f"{name}-net",
                "bridge": f"dyw{os.getpid() % 10**6}{number}",
                "cidr": "10.99.2.0/25",
                "host_address": None,
            },
        )
        gateway = {"gateway_mac": "52:54:00:0f:0f:01", "gateway_address": "10.99.2.1"}
        rules = self.make(FilterKind(), {"name": f"{name}-filter", "kind": "desktop", **gateway})
        seed = self.make(
            SeedKind(), {"name": f"{name}-seed.iso", "meta_data": {}, "user_data": {}, "network_config": {}}
        )
        nic = {"mac": f"52:54:00:fe:01:0{number}", "network": network["name"], "filter": rules["name"]}
        first_boot = tiny("tcg", "ssh-ed25519 AAAA x")[1]
        return {
            "name": name,
            "vcpus": VCPUS,
            "memory_mib": MEMORY_MIB,
            "accelerator": accelerator("auto"),
            "machine_uuid": machine_uuid(name),
            "disk": self.disk(name)["path"],
            "home": self.home(name)["path"],
            "disk_iops": 500 + number,
            "seed": seed["path"],
            "interfaces": [{**nic, "address": f"10.99.2.2{number}", "isolated": True}],
            "warm": {"template": self.template.name, **identity(first_boot)},
        }

    def clean(self) -> None:
        """Remove all, last made first; nothing in a guest hears a request to shut down."""
        for domain in self.link.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE):
            if domain.name().startswith(PREFIX):
                domain.destroy()
        for kind, name, state in reversed(self.made):
            kind.delete(self.link, name, state)
        templates.remove(self.link, self.template.name)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A template of a machine in which nothing boots, so nothing answers; it is gone at the end."""
    monkeypatch.setattr(making, "_prepare", lambda *_: None)
    monkeypatch.setattr(restoring, "_become", lambda *_: None)
    monkeypatch.setattr(power, "go_on", lambda *_: None)
    how = accelerator("auto")
    daemon.up(how)
    source = tmp_path / "image.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", source, "64M"], check=True)
    image = ImageSource(PREFIX, "0123", str(source))
    machine, first_boot = tiny(how)
    with daemon.connection() as link:
        wanted = making.Wanted(image, machine, how, first_boot, None)
        bench = Bench(link, image, making.make(link, wanted))
        try:
            yield bench
        finally:
            bench.clean()


def live(bench: Bench, name: str) -> ElementTree.Element:
    """The machine as it runs."""
    return ElementTree.fromstring(bench.link.lookupByName(name).XMLDesc(0))


def drift(bench: Bench, state: Values) -> list[str]:
    """What differs between a machine and what was wanted."""
    kind = DomainKind()
    inputs = {key: value for key, value in state.items() if key not in kind.computed}
    found = kind.read(bench.link, state["name"], state)
    assert found is not None
    return changes(kind, found, inputs, [])


def test_two_machines_go_on_from_one_memory_at_once_and_are_as_wanted(bench: Bench) -> None:
    states = [bench.make(DomainKind(), bench.inputs(name, number)) for number, name in enumerate(NAMES, 1)]
    assert [state["started"] for state in states] == [f"went on from {bench.template.name}"] * 2
    assert [drift(bench, state) for state in states] == [[], []]
    roots = [live(bench, name) for name in NAMES]
    assert [root.findtext("name") for root in roots] == list(NAMES)
    for tag in ("uuid", "genid"):
        assert len({root.findtext(tag) for root in roots}) == 2
    sources = [[source.get("file") for source in root.iterfind("./devices/disk/source")] for root in roots]
    assert sources == [[state["disk"], state["seed"], state["home"]] for state in states]
    assert [root.findtext("uuid") for root in roots] == [machine_uuid(name) for name in NAMES]
    for number, (name, root) in enumerate(zip(NAMES, roots, strict=True), 1):
        machine = bench.link.lookupByName(name)
        assert (machine.state()[0], machine.isPersistent(), machine.autostart()) == (libvirt.VIR_DOMAIN_RUNNING, 1, 1)
        assert {machine.blockIoTune(disk)["read_iops_sec"] for disk in ("vda", "vdc")} == {500 + number}
        assert [log.get("file") for log in root.iterfind("./devices/serial/log")] == [
            f"/var/log/libvirt/qemu/{name}-console.log"
        ]
        nics = root.findall("./devices/interface")
        assert [nic.find("port").get("isolated") for nic in nics] == ["yes"]  # type: ignore[union-attr]


def test_its_next_start_is_a_boot_of_what_a_cold_start_would_have_defined(bench: Bench) -> None:
    inputs = bench.inputs(NAMES[0])
    bench.make(DomainKind(), inputs)
    flags = libvirt.VIR_DOMAIN_XML_INACTIVE
    warm = bench.link.lookupByName(NAMES[0]).XMLDesc(flags)
    bench.link.lookupByName(NAMES[0]).destroy()
    bench.link.lookupByName(NAMES[0]).create()
    bench.link.lookupByName(NAMES[0]).destroy()
    cold_state = bench.make(DomainKind(), {key: value for key, value in inputs.items() if key != "warm"})
    assert cold_state["started"] == "boots"
    cold = bench.link.lookupByName(NAMES[0]).XMLDesc(flags)

    def parts(xml: str) -> list[str]:
        """In which order libvirt lists devices means nothing; UUID and generation are another each time."""
        root = ElementTree.fromstring(xml)
        found = [
            *root.iterfind("./devices/*"),
            *(part for part in root if part.tag not in ("uuid", "genid", "devices")),
        ]
        return sorted(ElementTree.canonicalize(ElementTree.tostring(part), strip_text=True) for part in found)

    assert parts(warm) == parts(cold)


@pytest.mark.parametrize("disk", ["disk", "home"])
def test_machine_whose_disk_was_written_to_boots_from_it(bench: Bench, disk: str) -> None:
    inputs = bench.inputs(NAMES[0])
    subprocess.run(["qemu-io", "-c", "write -P 7 0 512", inputs[disk]], check=True, capture_output=True)
    state = bench.make(DomainKind(), inputs)
    assert state["started"].startswith("boots, since")
    assert f"its disk {'system' if disk == 'disk' else disk} is not as" in state["started"]
    assert drift(bench, state) == []


def test_disk_counts_as_untouched_until_its_first_write(bench: Bench) -> None:
    path, below = bench.disk(NAMES[0])["path"], disk_name(bench.template.name, SYSTEM)
    assert storage.untouched_on(bench.link, path, below)
    subprocess.run(["qemu-io", "-c", "write -P 7 4096 512", path], check=True, capture_output=True)
    assert not storage.untouched_on(bench.link, path, below)


def test_machine_whose_template_is_gone_boots(bench: Bench) -> None:
    inputs = bench.inputs(NAMES[0])
    templates.remove(bench.link, bench.template.name)
    state = bench.make(DomainKind(), inputs)
    assert "is not there any more" in state["started"]
    assert drift(bench, state) == []


def test_machine_that_does_not_become_itself_boots(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise SiteError("machine", NAMES[0], "identity failed in the guest", "see its console")

    monkeypatch.setattr(restoring, "_become", fail)
    state = bench.make(DomainKind(), bench.inputs(NAMES[0]))
    assert "identity failed in the guest" in state["started"]
    assert drift(bench, state) == []


def test_memory_that_cannot_be_read_is_no_reason_to_hang(bench: Bench) -> None:
    (templates.folder(bench.template.name) / templates.MEMORY).write_bytes(b"nothing packed")
    state = bench.make(DomainKind(), bench.inputs(NAMES[0]))
    assert state["started"].startswith("boots, since")
    assert drift(bench, state) == []


def test_disks_of_a_removed_template_stay_as_long_as_a_machine_needs_them(bench: Bench) -> None:
    state = bench.disk(NAMES[0])
    below = disk_name(bench.template.name, SYSTEM)
    templates.remove(bench.link, bench.template.name)
    assert templates.find(bench.template.name) is None
    assert storage.lookup(bench.link, below) is not None
    assert storage.origin(bench.link, storage.lookup(bench.link, state["name"])) == f"{PREFIX}-0123"
    VolumeKind().delete(bench.link, state["name"], state)
    for name in (below, f"{PREFIX}-0123.qcow2", bench.template.name + storage.TEMPLATE_MARKER):
        assert storage.lookup(bench.link, name) is None


def test_what_a_killed_making_left_is_cleared_and_whole_templates_are_not(bench: Bench) -> None:
    half = f"template-{PREFIX}-00000000"
    templates.folder(half).mkdir(parents=True)
    pool = storage.pool(bench.link)
    left = (f"{half}.system.qcow2", half + storage.TEMPLATE_MARKER, f"{half}-seed.iso", f"{half}.save")
    for name in left:
        pool.createXML(documents.volume(name, 1 << 20, "qcow2" if name.endswith(".qcow2") else "raw"))
    making.clear_unfinished(bench.link, PREFIX)
    assert [name for name in left if storage.lookup(bench.link, name) is not None] == []
    assert not templates.folder(half).exists()
    assert templates.find(bench.template.name) == bench.template


def test_template_fits_what_it_was_made_for_and_nothing_larger(bench: Bench) -> None:
    how = accelerator("auto")
    machine, first_boot = tiny(how, "ssh-ed25519 AAAA another key")
    same = templates.fit(bench.link, bench.image, machine, how, first_boot)
    assert start(same, templates.all_templates()).template == bench.template.name
    larger = templates.fit(bench.link, bench.image, tiny(how, memory_mib=256)[0], how, first_boot)
    reason = f"template {bench.template.name} does not fit: memory_mib 256, its is 128"
    assert start(larger, templates.all_templates()).reason == reason
