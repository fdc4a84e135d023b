"""Lets a new machine go on from a template: restored under its own name, made itself, then given its NIC."""

import contextlib
import os
import secrets
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import libvirt

from deskyard.errors import SiteError
from deskyard.host.places import places
from deskyard.plan.warm import HOME, HOSTNAME, MAC, SYSTEM, Template, disk_name
from deskyard.site.libvirt import agent, documents, power, storage
from deskyard.site.libvirt.kinds.inputs import WarmInputs
from deskyard.site.libvirt.warm import guest, save_image, templates
from deskyard.site.resource.cancellation import CANCELLATION

AGENT_SECONDS, PROGRAM_SECONDS, PAUSE_SECONDS, JOIN_SECONDS = 180.0, 180.0, 0.3, 0.2
NO_MEMORY = bytes(1 << 12)
DISKS = {documents.SYSTEM: SYSTEM, documents.HOME: HOME}
UNPACK = ("zstd", "--decompress", "--stdout", "--quiet")


def start(link: Any, document: str, warm: WarmInputs) -> Any:
    """Start a machine from its template as `document` has it, and define it so.

    Raises `SiteError` if that cannot be; then nothing is left but what the machine has written to its disks, from
    which it can boot.
    """
    template = templates.find(warm["template"])
    if template is None:
        raise SiteError("template", warm["template"], "is not there any more", "it boots instead")
    own = _with_generation(document)
    _require_untouched(link, own, template)
    machine = restore(link, own, template)
    try:
        _become(machine, own, warm)
        for nic in own.iterfind("./devices/interface"):
            machine.attachDeviceFlags(_text(nic), libvirt.VIR_DOMAIN_AFFECT_LIVE)
        power.go_on(machine, AGENT_SECONDS)
        return link.defineXML(_text(own))
    except BaseException:
        with contextlib.suppress(libvirt.libvirtError):
            machine.destroy()
        raise


def restore(link: Any, own: Element, template: Template) -> Any:
    """Let a machine go on from the memory of a template, under its own name and on its own disks; it has no NIC."""
    folder = templates.folder(template.name)
    head = save_image.parse((folder / templates.HEAD).read_bytes())
    head = save_image.for_machine(head, _text(own))
    with _fed(save_image.write(head), folder / templates.MEMORY) as path:
        link.restoreFlags(str(path), None, libvirt.VIR_DOMAIN_SAVE_RUNNING)
    return link.lookupByName(own.findtext("name"))


def _with_generation(document: str) -> Element:
    """The document with a generation: that which libvirt would choose, chosen here."""
    own = ElementTree.fromstring(document)
    for generation in own.iterfind("genid"):
        generation.text = str(uuid4())
    return own


def _require_untouched(link: Any, own: Element, template: Template) -> None:
    """Memory goes with disks of the same moment: raise `SiteError` unless each disk is the template's still."""
    for disk in own.iterfind("./devices/disk"):
        source, target = disk.find("source"), disk.find("target")
        if disk.find("readonly") is not None or source is None or target is None:
            continue
        path, disk_of = str(source.get("file")), DISKS[str(target.get("dev"))]
        if not storage.untouched_on(link, path, disk_name(template.name, disk_of)):
            reason = f"its disk {disk_of} is not as {template.name} has it"
            raise SiteError("machine", own.findtext("name"), reason, "it boots instead")


def _become(machine: Any, own: Element, warm: WarmInputs) -> None:
    """Push what makes it itself through its agent; there is no other way into it yet."""
    mac = own.find("./devices/interface/mac")
    agent.wait(machine, AGENT_SECONDS, lambda _: CANCELLATION.pause(PAUSE_SECONDS))
    values = {
        "TEMPLATE": HOSTNAME,
        "TEMPLATE_MAC": MAC,
        "NAME": warm["hostname"],
        "MAC": "" if mac is None else str(mac.get("address")),
        "NIC": warm["nic"],
        "MACHINE_ID": UUID(own.findtext("uuid")).hex,
        "INSTANCE": warm["instance"],
        "MANAGER": warm["manager"],
        "KEYS": "\n".join(warm["keys"]),
        "SEED": secrets.token_hex(64),
        "EPOCH": f"{time.time():.3f}",
    }
    guest.become(machine, values, PROGRAM_SECONDS)


@contextlib.contextmanager
def _fed(head: bytes, memory: Path) -> Iterator[Path]:
    """A pipe in which libvirt finds a save image: `head`, then the packed stream in the file `memory`."""
    with tempfile.TemporaryDirectory(prefix="start-", dir=places().state / "templates") as folder:
        path = Path(folder) / "memory"
        os.mkfifo(path, 0o600)
        feeder = threading.Thread(target=_feed, args=(path, head, memory), daemon=True)
        feeder.start()
        try:
            yield path
        finally:
            # If libvirt has not opened it, the feeder waits for a reader: this one reads nothing.
            while feeder.is_alive():
                os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
                feeder.join(JOIN_SECONDS)


def _feed(path: Path, head: bytes, memory: Path) -> None:
    with contextlib.suppress(BrokenPipeError), path.open("wb") as pipe:
        pipe.write(head)
        pipe.flush()
        if subprocess.run([*UNPACK, str(memory)], stdout=pipe, check=False).returncode != 0:
            # QEMU waits for ever for the first byte of a pipe that was closed; of this it says that it is no memory.
            pipe.write(NO_MEMORY)


def _text(element: Element) -> str:
    return ElementTree.tostring(element, encoding="unicode")
