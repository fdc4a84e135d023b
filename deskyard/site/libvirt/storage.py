"""The folder pool `deskyard` and what goes into it."""

import contextlib
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import libvirt

from deskyard.errors import SiteError
from deskyard.host.lock import alone
from deskyard.plan.power import spare
from deskyard.site.libvirt import documents
from deskyard.site.libvirt.link import POOL, POOL_PATH, gone_is_fine
from deskyard.site.resource.cancellation import CANCELLATION

CHUNK = 1 << 18
LOOKUPS = 20
MARKER, DISK = ".complete", ".qcow2"
# What lies beside a system disk, DOMAIN.WORD.qcow2: the next one, and the one before.
BESIDE = ("next", "before")
# And beside any disk while a backup of it is restored: the content of then, and that of now.
RESTORING = ("restored", "unrestored")
# In the pool beside the disks of a template, as long as machines may start from it. Those of machines begin otherwise.
TEMPLATE_MARKER = ".template"
TEMPLATE_DISK = re.compile(r"\A(?P<template>template-.+)\.(system|home)\.qcow2\Z")
# A new overlay takes three clusters of 64 KiB; whoever writes to it takes at least two more.
UNTOUCHED_BYTES = 4 << 16


def pool(link: Any) -> Any:
    """The pool, made and started if need be."""
    with alone("libvirt-pool"):
        found = None
        with gone_is_fine():
            found = link.storagePoolLookupByName(POOL)
        if found is None:
            found = link.storagePoolDefineXML(documents.pool(POOL, POOL_PATH))
            found.build(0)
            found.setAutostart(True)
        if not found.isActive():
            found.create()
        return found


def require_room(needed: int = 0) -> None:
    """Raise `SiteError` unless the pool has room for so many bytes, and some is left: its machines write on.

    A machine whose host has no room left is paused by QEMU until there is some.
    """
    there = next(folder for folder in (Path(POOL_PATH), *Path(POOL_PATH).parents) if folder.exists())
    disk = shutil.disk_usage(there)
    kept = spare(disk.total)
    short = needed + kept - disk.free
    if short > 0:
        reason = f"{disk.free >> 20} MiB are free, {short >> 20} MiB too few: {kept >> 20} are kept for machines"
        raise SiteError("storage", POOL_PATH, reason, "delete snapshots or images that are not needed, or add a disk")


def volume_names(link: Any) -> set[str]:
    """The names of all volumes, as libvirt knows them: its folder may be closed to who asks."""
    with gone_is_fine(libvirt.VIR_ERR_OPERATION_INVALID):
        return set(link.storagePoolLookupByName(POOL).listVolumes())
    return set()


def lookup(link: Any, name: str) -> Any | None:
    """The volume of that name, or None. The file decides: libvirt's list misses what others did to the folder."""
    in_pool = None
    with gone_is_fine():
        in_pool = link.storagePoolLookupByName(POOL)
    if in_pool is None:
        return None
    if not in_pool.isActive():
        in_pool.create()
    for attempt in range(LOOKUPS):
        try:
            found = in_pool.storageVolLookupByName(name)
            found.info()
            return found
        except libvirt.libvirtError:
            there = Path(POOL_PATH, name).exists()
        if not there or attempt == LOOKUPS // 2:
            refresh(in_pool)
        if not there:
            return None
        # Another thread makes libvirt look at the folder again, which empties its list for a moment.
        CANCELLATION.pause(0.3)
    raise SiteError("volume", name, "is in its folder, but libvirt does not know it", "run ./inv site.show")


def refresh(in_pool: Any) -> None:
    """Let libvirt look at a pool's folder again; it refuses while another volume is being made."""
    for _ in range(120):
        try:
            in_pool.refresh(0)
            return
        except libvirt.libvirtError as error:
            if "asynchronous jobs" not in str(error):
                raise
        CANCELLATION.pause(0.5)
    in_pool.refresh(0)


def blank(link: Any, name: str, capacity: int, template: str | None = None) -> Any:
    """The disk of that name, made without content if need be; one that is there is kept: it may hold data.

    With `template` it is made on that disk of a template, if that is there still.
    """
    with alone("libvirt-images"):
        found = lookup(link, name)
        if found is None:
            below = lookup(link, template) if template else None
            path = None if below is None else below.path()
            found = pool(link).createXML(documents.volume(name, capacity, "qcow2", path))
        return found


def overlay(
    link: Any, name: str, *, image: str, digest: str, source: Path, capacity: int, template: str | None = None
) -> Any:
    """The overlay of that name, made on its image if need be; one that is there is kept: it may hold data.

    With `template` it is made on that disk of a template, if that is there still.
    """
    with alone("libvirt-images"):
        found = lookup(link, name)
        if found is None:
            below = lookup(link, template) if template else None
            below = _base(link, image, digest, source) if below is None else below
            found = pool(link).createXML(documents.volume(name, capacity, "qcow2", below.path()))
        return found


def untouched_on(link: Any, path: str, template: str) -> bool:
    """Whether a disk is an overlay of that disk of a template, and no machine has written to it yet."""
    volume = link.storageVolLookupByPath(path)
    below = lookup(link, template)
    length = volume.infoFlags(libvirt.VIR_STORAGE_VOL_GET_PHYSICAL)[2]
    return below is not None and backing(volume) == below.path() and length <= UNTOUCHED_BYTES


def remove_overlay(link: Any, name: str) -> None:
    """Delete an overlay with what lies beside it, and the images that nothing is an overlay of any more."""
    remove(link, [name, *(f"{name.removesuffix(DISK)}.{word}{DISK}" for word in (*BESIDE, *RESTORING))])


def remove(link: Any, names: Iterable[str]) -> None:
    """Delete disks, there or not, and the images that nothing is an overlay of any more."""
    with alone("libvirt-images"):
        found = [lookup(link, name) for name in names]
        for volume in filter(None, found):
            with gone_is_fine():
                volume.delete()
        if any(found):
            _drop_unused(link.storagePoolLookupByName(POOL))


def drop_unused(link: Any) -> None:
    """Delete the images and the disks of removed templates that no overlay needs any more."""
    with alone("libvirt-images"):
        _drop_unused(pool(link))


def _drop_unused(in_pool: Any) -> None:
    """Delete what no overlay needs; nothing at all unless the list of disks is whole.

    While somebody else works in the pool, libvirt's list may lack what is there: a missing overlay would make its
    image look unused. Then the next removal tidies up.
    """
    volumes = {volume.name(): volume for volume in in_pool.listAllVolumes()}
    try:
        disks = {name: backing(volume) for name, volume in volumes.items() if name.endswith(DISK)}
    except libvirt.libvirtError:
        return
    if set(disks) != _disks_in_folder(in_pool):
        return
    for name in _disks_of_removed_templates(volumes):
        if volumes[name].path() not in disks.values():
            with gone_is_fine():
                volumes[name].delete()
            # It needs its image no more.
            del disks[name]
    for marker in [volume for name, volume in volumes.items() if name.endswith(MARKER)]:
        image = volumes.get(marker.name().removesuffix(MARKER) + DISK)
        if image is None or image.path() not in disks.values():
            for unused in [marker] if image is None else [marker, image]:
                with gone_is_fine():
                    unused.delete()


def _disks_of_removed_templates(volumes: Mapping[str, Any]) -> list[str]:
    disks = {name: found["template"] for name in volumes if (found := TEMPLATE_DISK.search(name))}
    return [name for name, template in disks.items() if template + TEMPLATE_MARKER not in volumes]


def _disks_in_folder(in_pool: Any) -> set[str]:
    try:
        return {path.name for path in Path(POOL_PATH).iterdir() if path.suffix == DISK}
    except PermissionError:
        # An ordinary user may not look into the folder: a second look at the list is what is left.
        return {volume.name() for volume in in_pool.listAllVolumes() if volume.name().endswith(DISK)}


def origin(link: Any, volume: Any) -> str | None:
    """The image that a disk started from, as NAME-DIGEST; None for one that began blank."""
    below = backing(volume)
    if below is not None and TEMPLATE_DISK.search(Path(below).name):
        template = lookup(link, Path(below).name)
        below = None if template is None else backing(template)
    return None if below is None else Path(below).name.removesuffix(DISK)


def backing(volume: Any) -> str | None:
    """The path of the disk below an overlay."""
    return ElementTree.fromstring(volume.XMLDesc(0)).findtext("./backingStore/path")


def base_marker(image: str, digest: str) -> str:
    """The volume that says that an image was uploaded to its end."""
    return f"{image}-{digest}{MARKER}"


def _base(link: Any, image: str, digest: str, source: Path) -> Any:
    """The golden image as a volume, uploaded once per digest. A marker beside it says that the upload ended."""
    in_pool = pool(link)
    name, done = f"{image}-{digest}.qcow2", base_marker(image, digest)
    volume = lookup(link, name)
    if volume is not None and lookup(link, done) is not None:
        return volume
    for half_made in (done, name):
        with gone_is_fine():
            in_pool.storageVolLookupByName(half_made).delete()
    size = source.stat().st_size
    volume = in_pool.createXML(documents.volume(name, size, "raw", mode="0644"))
    with source.open("rb") as file:
        upload(link, volume, size, lambda: file.read(CHUNK))
    in_pool.createXML(documents.volume(done, 1, "raw"))
    # It was made as raw bytes: let libvirt see that they are a qcow2.
    refresh(in_pool)
    return in_pool.storageVolLookupByName(name)


def upload(link: Any, volume: Any, size: int, read: Callable[[], bytes]) -> None:
    """Fill a volume; an upload that breaks off leaves the stream aborted."""
    stream = link.newStream()
    volume.upload(stream, 0, size)
    try:
        while chunk := read():
            while chunk:
                chunk = chunk[stream.send(chunk) :]
        stream.finish()
    except BaseException:
        with contextlib.suppress(libvirt.libvirtError):
            stream.abort()
        raise


def download(link: Any, volume: Any) -> Iterator[bytes]:
    """Read a volume, piece by piece."""
    stream = link.newStream()
    volume.download(stream, 0, 0)
    try:
        while chunk := stream.recv(CHUNK):
            yield chunk
        stream.finish()
    except BaseException:
        with contextlib.suppress(libvirt.libvirtError):
            stream.abort()
        raise


def running_machine_with(link: Any, path: str) -> Any | None:
    """The running machine that has this disk open, or None; one that is gone meanwhile has none open."""
    for machine in link.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE):
        with gone_is_fine():
            sources = ElementTree.fromstring(machine.XMLDesc(0)).iterfind("./devices/disk/source")
            if any(source.get("file") == path for source in sources):
                return machine
    return None
