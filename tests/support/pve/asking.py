"""What tests of the peer ask it again and again."""

import struct
from typing import Any

import httpx

from tests.support.pve.cluster import GIB
from tests.support.pve.peer import Client

NODE = "/nodes/pve1/qemu"
QCOW2 = b"QFI\xfb" + bytes(20) + struct.pack(">Q", 3 * GIB) + bytes(range(256)) + b"\r\n--x\r\n"


def machine(root: Client, vmid: int = 100, **options: Any) -> None:
    """A machine with a disk of 4 GiB."""
    given = {"name": f"vm{vmid}", "memory": "512", "scsi0": "local-lvm:4", "net0": "virtio,bridge=vmbr0", "agent": "1"}
    assert root.finish("POST", NODE, vmid=vmid, **{**given, **options}) == "OK"


def refused(answer: httpx.Response, status: int, text: str) -> None:
    """The answer is this refusal."""
    assert (answer.status_code, text in answer.text) == (status, True), answer.text


def upload(client: Client, **fields: str) -> httpx.Response:
    """Upload an image to import from."""
    name = fields.pop("filename", "desk.qcow2")
    data = {"content": "import", **fields}
    return client.post("/nodes/pve1/storage/local/upload", data=data, files={"filename": (name, QCOW2)})
