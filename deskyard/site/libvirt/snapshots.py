"""Snapshots of domains, inside their qcow2 disks: libvirt 9 can go back to no others."""

from typing import Any
from xml.etree import ElementTree

import libvirt

from deskyard.errors import SiteError
from deskyard.plan.power import Power
from deskyard.plan.snapshot import Snapshot, oldest_first
from deskyard.site.libvirt import power, storage


def listed(machine: Any) -> list[Snapshot]:
    """The snapshots of a domain, the oldest first."""
    return oldest_first([_seen(snapshot) for snapshot in machine.listAllSnapshots()])


def take(machine: Any, wanted: Snapshot) -> None:
    """Take one: of disk and memory while the domain runs, of the disk alone while it is off."""
    state = power.state(machine)
    if state not in ("running", "paused", "stopped"):
        reason = f"is {state}: no snapshot can be taken of it"
        raise SiteError("machine", machine.name(), reason, "start it, or stop it, first")
    memory = 0 if state == "stopped" else machine.maxMemory() * 1024
    storage.require_room(memory)
    document = _document(machine, wanted, memory=bool(memory))
    machine.snapshotCreateXML(document, libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_ATOMIC)


def restore(machine: Any, name: str) -> None:
    """Bring disk and memory back to what they were, and set the clock; what the domain is wanted to be stays.

    A snapshot without memory leaves the domain off.
    """
    if machine.listAllCheckpoints():
        # QEMU kills a running domain that goes back while checkpoints are open (libvirt 9.0, QEMU 7.2).
        reason = "a backup tool left checkpoints, which going back would break"
        raise SiteError("machine", machine.name(), reason, "delete them: virsh checkpoint-delete --metadata")
    snapshot = _wanting(machine, name, power.desired(machine))
    if machine.hasManagedSaveImage():
        # It would outlive the way back, and the next start would run it on disks of another time.
        machine.managedSaveRemove()
    machine.revertToSnapshot(snapshot, libvirt.VIR_DOMAIN_SNAPSHOT_REVERT_FORCE)
    if machine.isActive():
        power.go_on(machine)


def delete(machine: Any, name: str) -> None:
    """Delete one; those that were taken after it stay whole."""
    machine.snapshotLookupByName(name).delete()


def _wanting(machine: Any, name: str, wanted: Power) -> Any:
    """A snapshot, with what the domain is wanted to be now in the definition that it brings back.

    Written after going back, it would be that of then where who goes back is killed in between.
    """
    document = machine.snapshotLookupByName(name).getXMLDesc(libvirt.VIR_DOMAIN_SNAPSHOT_XML_SECURE)
    root = ElementTree.fromstring(document)
    for definition in [*root.findall("domain"), *root.findall("inactiveDomain")]:
        power.mark(definition, wanted)
    text = ElementTree.tostring(root, encoding="unicode")
    return machine.snapshotCreateXML(text, libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_REDEFINE)


def _document(machine: Any, wanted: Snapshot, *, memory: bool) -> str:
    root = ElementTree.Element("domainsnapshot")
    ElementTree.SubElement(root, "name").text = wanted.name
    ElementTree.SubElement(root, "description").text = wanted.description
    if memory:
        ElementTree.SubElement(root, "memory", snapshot="internal")
    disks = ElementTree.SubElement(root, "disks")
    for disk in ElementTree.fromstring(machine.XMLDesc(0)).iterfind("./devices/disk"):
        target, kind = disk.find("target"), disk.find("driver")
        assert target is not None
        # The seed is raw and read-only: nothing in it changes.
        inside = kind is not None and kind.get("type") == "qcow2"
        word = "internal" if inside else "no"
        ElementTree.SubElement(disks, "disk", name=str(target.get("dev")), snapshot=word)
    return ElementTree.tostring(root, encoding="unicode")


def _seen(snapshot: Any) -> Snapshot:
    root = ElementTree.fromstring(snapshot.getXMLDesc())
    seen = Snapshot(
        name=snapshot.getName(),
        memory=root.findtext("state") in ("running", "paused"),
        made=int(root.findtext("creationTime") or 0),
        parent=root.findtext("parent/name"),
        current=bool(snapshot.isCurrent()),
    )
    return seen.described(root.findtext("description") or "")
