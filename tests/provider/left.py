"""What a task that was struck has left on a real hypervisor: nothing lost, nothing half, nothing that is nobody's."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import libvirt

from deskyard.plan import backup as backup_plan
from deskyard.site.libvirt import daemon, storage
from deskyard.site.libvirt.backup import content
from deskyard.site.libvirt.backup.backups import RESTORED
from deskyard.site.libvirt.kinds.domain import DomainKind
from deskyard.site.libvirt.kinds.volume import SeedKind, VolumeKind
from deskyard.site.libvirt.link import POOL_PATH
from deskyard.site.resource.kind import Kind
from deskyard.site.resource.values import Values
from stacks.provider.provider import changes
from tests.provider import witness
from tests.provider.strikes import note, noted
from tests.unit.life.machines import DEV1

SAVES = Path("/var/lib/libvirt/qemu/save")
# These may well lead to an earlier moment of the data.
GO_BACK = ("snapshot", "restore")
# It is off while it is looked at, and its NIC is adapted to its guest.
UNLIKE = ("running", "interfaces")
KINDS: dict[str, type[Kind[Any]]] = {kind.__name__: kind for kind in (VolumeKind, SeedKind, DomainKind)}


def note_begin(made: list[tuple[Kind[Any], Values]]) -> None:
    """Keep how it is before anything happens: what was made, who the machine is, what its guest wrote by then."""
    with daemon.machine(DEV1) as machine:
        note("identity", _identity(machine))
    note("made", [[type(kind).__name__, state] for kind, state in made])
    note("backup", witness.last(DEV1))


def kept_holds(name: str) -> None:
    """All records that its guest had said before the strike were there when it started again."""
    assert name in GO_BACK or witness.last(DEV1) >= noted("struck")


def content_holds(name: str) -> None:
    """Both disks hold what the guest said of them, whole and in order."""
    system, home = witness.disks(DEV1)
    kept, (whole, torn) = witness.last(DEV1), witness.records(home)
    last = len(whole)
    assert whole == list(range(1, last + 1)), whole
    assert last in (kept, kept + 1), (last, kept, witness.said(DEV1)[-5:])
    assert last >= noted("backup" if name == "restore" else "begun")
    on_system, torn_on_system = witness.records(system)
    assert on_system[-1] in (last, last + 1), (on_system[-3:], last)
    # What was being written when its plug was pulled.
    assert set(torn) | set(torn_on_system) <= {last + 1}
    assert [fault for disk in (system, home) for fault in witness.faults(disk) if "leaks" not in fault] == []


def backups_hold(rows: Sequence[dict[str, Any]]) -> None:
    """Whatever is listed of what a repository holds is whole."""
    manifests = [row for row in rows if backup_plan.MANIFEST in (row.get("tags") or ())]
    listed = backup_plan.backups(rows, "dev1")
    assert len(listed) == len(manifests) > 0
    assert all(len(found.disks) == 2 for found in listed)


def nothing_is_left(has_kept: bool) -> None:
    """No machine, disk, memory or folder is nobody's; what was made is as it was, and as it is wanted.

    The machine is off; `has_kept` says that its system disk of before is kept.
    """
    with daemon.connection() as link:
        assert [found.name() for found in link.listAllDomains()] == [DEV1]
        machine = link.lookupByName(DEV1)
        assert _identity(machine) == noted("identity")
        assert [*machine.listAllSnapshots(), *machine.listAllCheckpoints()] == []
        assert [state["name"] for kind, state in noted("made") if _drift(link, KINDS[kind](), state)] == []
        below = {Path(str(storage.backing(volume))).name for volume in storage.pool(link).listAllVolumes()}
    images = {name for name in below if name.startswith("witness-")}
    expected = {f"{DEV1}.qcow2", f"{DEV1}.home.qcow2", f"{DEV1}-seed.iso", *images}
    expected |= {name.replace(storage.DISK, storage.MARKER) for name in images}
    expected |= {f"{DEV1}.before.qcow2"} if has_kept else set()
    there = {path.name for path in Path(POOL_PATH).iterdir()}
    assert there == expected, f"too much: {there - expected}, too little: {expected - there}"
    assert [*RESTORED.glob("*"), *SAVES.glob("*")] == []
    inside = [content.chain(disk)[0].get("snapshots", []) for disk in witness.disks(DEV1)]
    assert inside == [[], []], "snapshots that libvirt does not know"
    running = [path.read_text().strip() for path in Path("/proc").glob("[0-9]*/comm")]
    assert [name for name in running if name.startswith("qemu")] == [], "a machine that libvirt does not know"


def _drift(link: Any, kind: Kind[Any], state: Values) -> list[str]:
    """What differs between what is there and what was made; its absence, too."""
    found = kind.read(link, str(state["name"]), state)
    if found is None:
        return ["all of it"]
    inputs = {key: value for key, value in state.items() if key not in kind.computed}
    return [what for what in changes(kind, found, inputs, []) if what not in UNLIKE]


def _identity(machine: Any) -> list[str]:
    root = ElementTree.fromstring(machine.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
    return [machine.UUIDString(), *(str(mac.get("address")) for mac in root.iterfind("./devices/interface/mac"))]
