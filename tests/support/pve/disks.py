"""Disks: uploads of content `import`, disks made from them, growing, and disks that are not there."""

import hashlib
import re
import struct
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from fakepve.lxc import SIZE_UNITS, format_size
from fakepve.model import PveError, TaskError
from fakepve.qemu import DRIVE_KEY, NEW_DISK, drives_of, join_drive, split_drive, volume_ref
from fakepve.server import USER

from tests.support.pve.cluster import Routes
from tests.support.pve.faults import Faults
from tests.support.pve.sdn import failed

Values = dict[str, Any]
QCOW2 = b"QFI\xfb"
IMPORTABLE = re.compile(r"[a-zA-Z0-9\-.+=_]+\.(qcow2|raw|vmdk|ova)")
SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGT]?)")


class DiskApi:
    """Part of the peer: what is stored are names and sizes, never content."""

    storages: dict[str, Values]
    nodes: dict[str, Values]
    faults: Faults
    tasklog: list[Values]
    need_quorum: Callable[[], None]
    require: Callable[[str, str, str], None]
    task: Callable[..., Awaitable[str]]
    find: Callable[[str, int], Any]
    _store: Callable[[str], Values]
    _active_store: Callable[[str, str], Values]
    _qm_volume: Callable[[str], Values | None]
    _check_access: Callable[..., None]
    _parse_volname: Callable[..., tuple[str, int | None, str]]
    store_file: Callable[..., None]

    def _routes_disks(self) -> Routes:
        return [("PUT", "/nodes/{node}/qemu/{vmid}/resize", self._resize)]

    async def _upload(self, request: web.Request) -> web.Response:
        """POST .../storage/{storage}/upload of content `import` (PVE/API2/Storage/Status.pm); fakepve has the rest."""
        fields = form_of(request.headers.get("Content-Type", ""), await request.read())
        if fields.get("content") != b"import":
            answer: web.Response = await super()._upload(request)  # type: ignore[misc]
            return answer
        node, name, user = request.match_info["node"], request.match_info["storage"], request[USER]
        self.require(user, f"/storage/{name}", "Datastore.AllocateTemplate")
        store = self._active_store(name, node)
        filename, data = fields["filename"].decode(), fields["file"]
        if not IMPORTABLE.fullmatch(filename):
            raise failed(filename="invalid filename or wrong extension")
        if "import" not in store["content"].split(","):
            raise PveError(500, f"storage '{name}' does not support 'import' content")

        async def body() -> None:
            if algorithm := fields.get("checksum-algorithm", b"").decode():
                got, wanted = hashlib.new(algorithm, data).hexdigest(), fields["checksum"].decode()
                if got != wanted.lower():
                    raise TaskError(f"checksum mismatch: got '{got}' != expect '{wanted}'")
            self.store_file(name, filename, len(data), "import")
            store["volumes"][f"import/{filename}"]["virtual"] = virtual_size(data)

        # Worked off by the node that was asked, whichever the path names: it is not passed on (no `proxyto`).
        asked = next(iter(self.nodes))
        return web.json_response({"data": await self.task(asked, "imgcopy", "", user, body)})

    def _qm_check_drive(
        self, user: str, vmid: int, pool: str | None, key: str, value: str, default: str | None
    ) -> None:
        """Before a disk is made: `import-from` names a volume that is there and may be read (PVE/API2/Qemu.pm)."""
        super()._qm_check_drive(user, vmid, pool, key, value, default)  # type: ignore[misc]
        volume, options = split_drive(value)
        if (source := options.get("import-from")) is None:
            return
        new = NEW_DISK.match(volume)
        if new is None or float(new.group(2)) != 0:
            syntax = "use <storage ID>:0,import-from=<source>"
            raise failed(**{key: f"'import-from' requires special syntax - {syntax}"})
        sid, name = volume_ref(source)
        kind, owner, _ = self._parse_volname(self._store(sid), name)
        if kind not in ("images", "import"):
            raise failed(**{key: f"{source} has wrong type '{kind}' - needs to be 'images' or 'import'"})
        self._check_access(user, sid, kind, owner, source)

    def _qm_new_drive(self, vmid: int, key: str, value: str, default: str | None) -> tuple[str, list[str]]:
        """A disk made from an image has the image's virtual size."""
        volume, options = split_drive(value)
        source = options.pop("import-from", None)
        if source is None:
            made: tuple[str, list[str]] = super()._qm_new_drive(vmid, key, value, default)  # type: ignore[misc]
            return self._named_cloudinit(*made) if volume.endswith(":cloudinit") else made
        found = self._qm_volume(source)
        if found is None:
            raise PveError(500, f"cannot import from '{source}' - volume '{source}' does not exist")
        size = int(found.get("virtual") or found["size"])
        sid = str(NEW_DISK.match(volume).group(1) or default)
        volid, _ = self._qm_alloc(sid, vmid, options.pop("format", None), size)
        return join_drive(volid, {**options, "size": format_size(size)}), [volid]

    def _named_cloudinit(self, drive: str, volumes: list[str]) -> tuple[str, list[str]]:
        """The drive of cloud-init is called vm-ID-cloudinit (PVE::QemuServer, commit_cloudinit_disk)."""
        sid, name = volume_ref(volumes[0])
        renamed = re.sub(r"disk-\d+", "cloudinit", name)
        store = self.storages[sid]["volumes"]
        store[renamed] = store.pop(name)
        return drive.replace(name, renamed), [f"{sid}:{renamed}"]

    def _qm_alloc(
        self, sid: str, vmid: int, fmt: str | None, size: int, linked_from: str | None = None
    ) -> tuple[str, str]:
        """Allocating needs the storage's lock (PVE::Storage::vdisk_alloc, cluster_lock_storage)."""
        if self.faults.storage_locks[sid] > 0:
            self.faults.storage_locks[sid] -= 1
            raise PveError(500, f"cfs-lock 'storage-{sid}' error: got lock request timeout")
        made: tuple[str, str] = super()._qm_alloc(sid, vmid, fmt, size, linked_from)  # type: ignore[misc]
        if linked_from is not None:
            self._qm_volume(made[0])["base"] = f"{sid}:{linked_from.partition('/')[2]}"  # type: ignore[index]
        return made

    def _qm_free(self, volid: str) -> None:
        """A disk that cannot be deleted stays; of its machine's removal it is a line of the log (destroy_vm)."""
        if volume_ref(volid)[0] not in self.faults.stuck_storages:
            super()._qm_free(volid)  # type: ignore[misc]
            return
        for task in self.tasklog:
            if task["type"] == "qmdestroy" and task["status"] == "running":
                task["log"].append(f"Could not remove disk '{volid}', check manually: lvremove: device is busy")

    async def _qm_destroy(self, values: Values, user: str) -> str:
        """DELETE /nodes/{node}/qemu/{vmid}: a template stays while clones use it (PVE::QemuServer, destroy_vm)."""
        vm = self.find(values["node"], values["vmid"])
        bases = {volume for _, volume, _ in drives_of(vm.config)}
        used = {volume.get("base") for store in self.storages.values() for volume in store["volumes"].values()} & bases
        if not used:
            upid: str = await super()._qm_destroy(values, user)  # type: ignore[misc]
            return upid

        async def body() -> None:
            raise TaskError(f"base volume '{min(used)}' is still in use by linked cloned")

        return await self.task(vm.node, "qmdestroy", vm.vmid, user, body)

    async def _apply_config(self, vm: Any, user: str, changes: Values) -> None:
        """PUT and POST .../config: a drive `storage:size`, `storage:cloudinit` or `import-from` makes its disk."""
        changes = dict(changes)
        for key in [key for key in changes if DRIVE_KEY.match(key)]:
            volume, options = split_drive(changes[key])
            self._qm_check_drive(user, vm.vmid, None, key, changes[key], None)
            if NEW_DISK.match(volume) or volume.endswith(":cloudinit"):
                changes[key], _ = self._qm_new_drive(vm.vmid, key, changes[key], None)
            elif (there := self._qm_volume(volume)) is not None and options.get("media") != "cdrom":
                changes[key] = join_drive(volume, {**options, "size": format_size(int(there["size"]))})
            else:
                # Kept as it is printed, not as it was sent (PVE::QemuServer::Drive, print_drive).
                changes[key] = join_drive(volume, {name: value for name, value in options.items() if name})
        gone = [key for key in str(changes.get("delete") or "").split(",") if DRIVE_KEY.match(key) and key in vm.config]
        volumes = [split_drive(vm.config[key])[0] for key in gone]
        await super()._apply_config(vm, user, changes)  # type: ignore[misc]
        for volume in volumes:
            # A disk that is taken out stays as unused; a cloud-init drive goes (PVE::QemuServer, vmconfig_delete).
            if "cloudinit" in volume:
                self._qm_free(volume)

    async def _resize(self, values: Values, user: str) -> str:
        """PUT .../resize: grows a disk, never shrinks it (PVE/API2/Qemu.pm, resize_vm)."""
        self.need_quorum()
        vm, key, size = self.find(values["node"], values["vmid"]), values["disk"], str(values["size"])
        if key not in vm.config:
            raise failed(disk=f"disk '{key}' does not exist")
        volume, options = split_drive(vm.config[key])
        found = self._qm_volume(volume)
        if found is None:
            raise PveError(500, f"volume '{volume}' does not exist")

        async def body() -> None:
            before = int(found["size"])
            wanted = bytes_of(size.lstrip("+")) + (before if size.startswith("+") else 0)
            if wanted < before:
                raise TaskError("shrinking disks is not supported")
            found["size"] = wanted
            vm.config[key] = join_drive(volume, {**options, "size": format_size(wanted)})

        return await self.task(values["node"], "resize", vm.vmid, user, body, vm=vm)

    def missing_disks(self, vm: Any) -> list[str]:
        """Disks that the VM's configuration names and no storage has."""
        named = [volume for _, volume, _ in drives_of(vm.config) if volume_ref(volume)[0] is not None]
        return [volume for volume in named if self._qm_volume(volume) is None]

    @staticmethod
    def _guest_volumes(_: Any, __: str) -> Values:
        """Only what was allocated is there; fakepve would list what a configuration names."""
        return {}

    @staticmethod
    def _vm_maxdisk(vm: Any) -> int:
        """Bytes of the first disk: a size without a unit is in bytes (PVE::JSONSchema, parse_size)."""
        sizes = [options["size"] for _, _, options in drives_of(vm.config, skip_cdrom=True) if "size" in options]
        return bytes_of(sizes[0]) if sizes else 0


def bytes_of(size: str) -> int:
    """`8G`, `512M`, `4096` as bytes."""
    number, unit = SIZE.fullmatch(size).groups()  # type: ignore[union-attr]
    return int(float(number) * (SIZE_UNITS[unit] if unit else 1))


def virtual_size(data: bytes) -> int:
    """The size of the disk in an image: a qcow2 file says it in its header."""
    if data[:4] == QCOW2:
        return int(struct.unpack_from(">Q", data, 24)[0])
    return len(data)


def form_of(content_type: str, body: bytes) -> dict[str, bytes]:
    """Fields of a multipart form; a file's content is `file`, its name `filename`."""
    found = re.search(r'boundary="?([^";]+)"?', content_type)
    if found is None:
        return {}
    fields: dict[str, bytes] = {}
    for part in (b"\r\n" + body).split(b"\r\n--" + found.group(1).encode())[1:-1]:
        head, _, content = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        names = dict(re.findall(r'(name|filename)="([^"]*)"', head.decode()))
        if "filename" in names:
            fields["filename"], fields["file"] = names["filename"].encode(), content
        else:
            fields[names["name"]] = content
    return fields
