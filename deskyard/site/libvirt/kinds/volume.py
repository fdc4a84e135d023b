"""Disks and seeds: volumes of the folder pool `deskyard`."""

import tempfile
from pathlib import Path
from typing import Any, ClassVar

import libvirt

from deskyard.host.vm.seed import write_seed
from deskyard.site.libvirt import documents, storage
from deskyard.site.libvirt.kinds.inputs import SeedInputs, VolumeInputs
from deskyard.site.libvirt.link import gone_is_fine
from deskyard.site.resource.kind import Kind
from deskyard.site.resource.values import Values


class VolumeKind(Kind[VolumeInputs]):
    """`deskyard:libvirt:Volume`: a disk that starts as a golden image, or blank, and keeps what is written to it."""

    replaces: ClassVar[frozenset[str]] = frozenset({"name", "image", "digest"})
    computed: ClassVar[tuple[str, ...]] = ("path",)
    # Where the image lies on this machine says nothing about the disk, nor which template would fit a new one now.
    ignored: ClassVar[frozenset[str]] = frozenset({"source", "template"})

    def check(self, old: Values, new: Values) -> list[tuple[str, str]]:
        """A disk never shrinks: that would cut off data."""
        before, after = old.get("size_gib"), new.get("size_gib")
        if isinstance(before, int) and isinstance(after, int) and after < before:
            return [("size_gib", f"a disk cannot shrink from {before} to {after} GiB -> keep the larger tier")]
        return []

    def create(self, link: Any, inputs: VolumeInputs) -> tuple[str, Values]:
        """Make it, or keep the one that is there."""
        capacity, template = inputs["size_gib"] * documents.GIB, inputs.get("template")
        image = inputs.get("image")
        if image is None:
            found = storage.blank(link, inputs["name"], capacity, template)
        else:
            found = storage.overlay(
                link,
                inputs["name"],
                image=image,
                digest=inputs["digest"],
                source=Path(inputs["source"]),
                capacity=capacity,
                template=template,
            )
        return inputs["name"], {"path": found.path()}

    def read(self, link: Any, identity: str, state: Values) -> Values | None:
        """Whether it is there, and its size."""
        found = storage.lookup(link, identity)
        if found is None:
            return None
        return {**state, "size_gib": found.info()[1] // documents.GIB, "path": found.path()}

    def update(self, link: Any, identity: str, state: Values, inputs: VolumeInputs) -> Values:
        """Grow it, also under a running machine; the guest grows the file system at its next boot."""
        found = storage.pool(link).storageVolLookupByName(identity)
        capacity = inputs["size_gib"] * documents.GIB
        if found.info()[1] < capacity:
            machine = storage.running_machine_with(link, found.path())
            if machine is None:
                found.resize(capacity)
            else:
                machine.blockResize(found.path(), capacity, libvirt.VIR_DOMAIN_BLOCK_RESIZE_BYTES)
        return {"path": found.path()}

    def delete(self, link: Any, identity: str, state: Values) -> None:
        """Delete it and its data."""
        storage.remove_overlay(link, identity)


class SeedKind(Kind[SeedInputs]):
    """`deskyard:libvirt:Seed`: the disc from which cloud-init learns name, user and network. Holds no secret."""

    replaces: ClassVar[frozenset[str]] = frozenset({"name"})
    computed: ClassVar[tuple[str, ...]] = ("path",)

    def create(self, link: Any, inputs: SeedInputs) -> tuple[str, Values]:
        """Write the disc anew, whatever is there."""
        disc = _disc(inputs)
        pool = storage.pool(link)
        with gone_is_fine():
            pool.storageVolLookupByName(inputs["name"]).delete()
        volume = pool.createXML(documents.volume(inputs["name"], len(disc), "raw"))
        rest = [disc]
        storage.upload(link, volume, len(disc), lambda: rest.pop() if rest else b"")
        return inputs["name"], {"path": volume.path()}

    def read(self, link: Any, identity: str, state: Values) -> Values | None:
        """Whether it is there."""
        found = storage.lookup(link, identity)
        return None if found is None else {**state, "path": found.path()}

    def update(self, link: Any, identity: str, state: Values, inputs: SeedInputs) -> Values:
        """Write the disc anew; the guest sees it at its next boot."""
        return self.create(link, inputs)[1]

    def delete(self, link: Any, identity: str, state: Values) -> None:
        """Delete the disc."""
        found = storage.lookup(link, identity)
        if found is not None:
            with gone_is_fine():
                found.delete()


def _disc(inputs: SeedInputs) -> bytes:
    with tempfile.TemporaryDirectory(prefix="deskyard-seed-") as folder:
        path = Path(folder) / "seed.iso"
        write_seed(
            path,
            meta_data=inputs["meta_data"],
            user_data=inputs["user_data"],
            network_config=inputs.get("network_config"),
        )
        return path.read_bytes()
