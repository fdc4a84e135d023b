"""Brings a disk image into a storage of a node, piece by piece, and believes it only when it lies there."""

import secrets
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from deskyard.errors import BuildError, SiteError
from deskyard.site.proxmox.client import ApiError, Client
from deskyard.site.proxmox.listing import nodes_up
from deskyard.site.proxmox.task import running, wait_task

PIECE = 1 << 20
QCOW2 = b"QFI\xfb"
UPLOAD_SECONDS = 7200.0


@dataclass(frozen=True)
class DiskFile:
    """An image's file, with what the far side is to find."""

    path: Path
    size: int
    sha256: str
    name: str

    @property
    def volume(self) -> str:
        """The name of the volume in a storage."""
        return f"import/{self.name}"


def virtual_bytes(disk: Path) -> int:
    """The size of the disk in a qcow2 file, as a guest sees it; its header says it (qemu, docs/interop/qcow2.rst)."""
    with disk.open("rb") as file:
        head = file.read(32)
    if len(head) < 32 or head[:4] != QCOW2:
        raise BuildError("image", str(disk), "is no qcow2 file", "build the image anew: ./inv image.build NAME --force")
    return int(struct.unpack_from(">Q", head, 24)[0])


def bring(client: Client, node: str, storage: str, disk: DiskFile, on_bytes: Callable[[int], None]) -> str:
    """Make sure that the file lies in the storage; answers its volume. One that is there is not sent again.

    Proxmox VE copies an upload over what is there, so nobody else may be uploading this file: drafts see to that.
    """
    # One that was cut off before may still be copied into its place.
    _wait_for_copies(client)
    if _lies_there(client, node, storage, disk):
        return f"{storage}:{disk.volume}"
    try:
        wait_task(client, _send(client, node, storage, disk, on_bytes), UPLOAD_SECONDS)
    except ApiError as error:
        if not error.unsure:
            raise
        _wait_for_copies(client)
        if not _lies_there(client, node, storage, disk):
            raise
    if not _lies_there(client, node, storage, disk):
        reason = f"the upload ended well, but node {node} has no such file of {disk.size} bytes"
        raise SiteError(
            "upload", f"{storage}:{disk.volume}", reason, "check the storage on that node, and run it again"
        )
    return f"{storage}:{disk.volume}"


def _wait_for_copies(client: Client) -> None:
    """Wait until none of our uploads is being copied: that is done by the node that was asked (Storage/Status.pm).

    Which node that was, behind an address of the whole cluster, is not known.
    """
    for node in nodes_up(client):
        for upid in running(client, node, kind="imgcopy"):
            wait_task(client, upid, UPLOAD_SECONDS)


def _lies_there(client: Client, node: str, storage: str, disk: DiskFile) -> bool:
    # Its name holds the checksum that was compared when it was sent; what was cut off is shorter.
    volume = f"{storage}:{disk.volume}"
    return any(row.get("volid") == volume and row.get("size") == disk.size for row in _listed(client, node, storage))


def _listed(client: Client, node: str, storage: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = client.get(f"nodes/{node}/storage/{storage}/content", content="import")
    return rows


def _send(client: Client, node: str, storage: str, disk: DiskFile, on_bytes: Callable[[int], None]) -> str:
    # pveproxy reads a form by regular expressions: these fields, in this order, and the file last.
    boundary = secrets.token_hex(16)
    fields = {"content": "import", "checksum-algorithm": "sha256", "checksum": disk.sha256}
    head = "".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    )
    head += f'--{boundary}\r\nContent-Disposition: form-data; name="filename"; filename="{disk.name}"\r\n'
    head += "Content-Type: application/octet-stream\r\n\r\n"
    tail = f"\r\n--{boundary}--\r\n"

    def pieces() -> Iterator[bytes]:
        yield head.encode()
        sent = 0
        with disk.path.open("rb") as file:
            while piece := file.read(min(PIECE, disk.size - sent)):
                yield piece
                sent += len(piece)
                on_bytes(sent)
        yield tail.encode()

    length = len(head) + disk.size + len(tail)
    path = f"nodes/{node}/storage/{storage}/upload"
    upid: str = client.upload(path, f"multipart/form-data; boundary={boundary}", length, pieces)
    return upid
