"""Makes templates: boots a machine without a NIC until its desktop is drawn, and saves it with its memory."""

import contextlib
import json
import re
import secrets
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import libvirt

from deskyard.errors import SiteError
from deskyard.host.secret_file import make_folder
from deskyard.plan.first_boot import FirstBoot
from deskyard.plan.image.source import ImageSource
from deskyard.plan.warm import HOME, HOSTNAME, SYSTEM, Template, disk_name, layout, template_first_boot
from deskyard.plan.workspace import MachinePlan
from deskyard.site.libvirt import agent, documents, storage
from deskyard.site.libvirt.kinds.volume import SeedKind
from deskyard.site.libvirt.link import POOL_PATH, gone_is_fine
from deskyard.site.libvirt.warm import guest, save_image, templates

BOOT_SECONDS, DRAW_SECONDS, PREPARE_SECONDS = 1200.0, 900.0, 600.0
UNFINISHED = re.compile(r"-[0-9a-f]{8}")
PACK = ("zstd", "-3", "--quiet", "--force", "-o")


@dataclass(frozen=True)
class Wanted:
    """The parts of a template; `drawn` is the command that ends, in the guest, when its desktop is there."""

    image: ImageSource
    machine: MachinePlan
    accelerator: str
    first_boot: FirstBoot
    drawn: Sequence[str] | None


def make(link: Any, wanted: Wanted) -> Template:
    """Boot a machine, take from it what is its own, and keep its memory and its disks."""
    fit = templates.fit(link, wanted.image, wanted.machine, wanted.accelerator, wanted.first_boot)
    name = f"template-{wanted.image.name}-{secrets.token_hex(4)}"
    make_folder(templates.folder(name))
    storage.pool(link).createXML(documents.volume(name + storage.TEMPLATE_MARKER, 1, "raw"))
    try:
        machine = _boot(link, name, wanted)
        _prepare(machine, wanted)
        _save(link, machine, name)
        for disk in layout(wanted.machine):
            # Nobody writes to it any more: its memory goes with its disks as they are.
            with contextlib.suppress(PermissionError):
                (Path(POOL_PATH) / disk_name(name, disk)).chmod(0o444)
    except libvirt.libvirtError as error:
        _clear(link, name)
        raise SiteError("template", name, str(error), "mend the cause, then run it again") from error
    except BaseException:
        _clear(link, name)
        raise
    _delete(link, f"{name}-seed.iso")
    made_at = datetime.now(UTC).isoformat(timespec="seconds")
    template = Template(name, fit, made_at, (templates.folder(name) / templates.MEMORY).stat().st_size)
    templates.keep(template)
    return template


def clear_unfinished(link: Any, image: str) -> None:
    """Remove the templates of an image that a killed run left half made; who makes one keeps others out meanwhile."""
    for path in templates.folder("").glob(f"template-{image}-*"):
        if UNFINISHED.fullmatch(path.name.removeprefix(f"template-{image}")) and templates.find(path.name) is None:
            _clear(link, path.name)


def _clear(link: Any, name: str) -> None:
    with contextlib.suppress(libvirt.libvirtError):
        link.lookupByName(f"deskyard-{name}").destroy()
    for volume in (f"{name}-seed.iso", f"{name}.save"):
        _delete(link, volume)
    templates.remove(link, name)


def _delete(link: Any, volume: str) -> None:
    found = storage.lookup(link, volume)
    if found is not None:
        with gone_is_fine():
            found.delete()


def _boot(link: Any, name: str, wanted: Wanted) -> Any:
    sizes = {disk: gib * documents.GIB for disk, gib in layout(wanted.machine).items()}
    system = storage.overlay(
        link,
        disk_name(name, SYSTEM),
        image=wanted.image.name,
        digest=wanted.image.digest,
        source=Path(wanted.image.disk),
        capacity=sizes[SYSTEM],
    )
    home = storage.blank(link, disk_name(name, HOME), sizes[HOME]) if HOME in sizes else None
    first_boot = template_first_boot(wanted.first_boot)
    seed = SeedKind().create(
        link,
        {
            "name": f"{name}-seed.iso",
            "meta_data": first_boot.meta_data,
            "user_data": first_boot.user_data,
            "network_config": first_boot.network_config,
        },
    )[1]["path"]
    domain = f"deskyard-{name}"
    document = documents.domain(
        name=domain,
        # Not the Plan's: two may be made at once.
        uuid=str(uuid4()),
        vcpus=wanted.machine.vcpus,
        memory_mib=wanted.machine.memory_mib,
        accelerator=wanted.accelerator,
        disk=system.path(),
        home=home.path() if home else None,
        seed=str(seed),
        interfaces=[],
        console_log=documents.console_log(domain),
    )
    # Never defined: once saved it is gone, and nobody can start it again on its disks.
    return link.createXML(document, 0)


def _prepare(machine: Any, wanted: Wanted) -> None:
    agent.wait(machine, BOOT_SECONDS, partial(_pause, machine))
    if wanted.drawn is not None:
        code, output = agent.execute(machine, wanted.drawn, DRAW_SECONDS)
        if code != 0 or not output.strip():
            reason = f"its desktop was not drawn: {output.strip() or 'no wallpaper in time'}"
            raise SiteError("template", machine.name(), reason, f"see {documents.console_log(machine.name())}")
    guest.prepare(machine, HOSTNAME, {"NETWORK": json.dumps(wanted.first_boot.network_config)}, PREPARE_SECONDS)


def _pause(machine: Any, seconds: float) -> None:
    """Raises libvirt's own error if the machine has ended: then there is nothing to wait for."""
    machine.info()
    time.sleep(seconds)


def _save(link: Any, machine: Any, name: str) -> None:
    """Save the machine in the pool, where libvirt may write, and take its memory from there."""
    saved = f"{name}.save"
    path = str(Path(POOL_PATH) / saved)
    storage.require_room(machine.maxMemory() * 1024)
    machine.save(path)
    try:
        volume = storage.lookup(link, saved)
        if volume is None:
            raise SiteError("template", name, f"{path} is not there", "see the log of libvirt's daemon")
        _unpack(storage.download(link, volume), templates.folder(name))
    finally:
        _delete(link, saved)


def _unpack(chunks: Iterable[bytes], folder: Path) -> None:
    """Write head and stream of a save image into two files, the stream packed."""
    rest = iter(chunks)
    head, start = _head(rest)
    if save_image.parse(head).compression != save_image.RAW:
        reason = "libvirt packs what it saves, so its memory is of no known form"
        raise SiteError("template", folder.name, reason, 'set save_image_format = "raw" in qemu.conf')
    (folder / templates.HEAD).write_bytes(head)
    with subprocess.Popen([*PACK, str(folder / templates.MEMORY)], stdin=subprocess.PIPE) as packer:
        assert packer.stdin is not None
        # A packer that ended says why itself.
        with contextlib.suppress(BrokenPipeError):
            packer.stdin.write(start)
            for chunk in rest:
                packer.stdin.write(chunk)
            packer.stdin.close()
    if packer.returncode != 0:
        raise SiteError("template", folder.name, "its memory could not be packed", "free some space")


def _head(chunks: Iterator[bytes]) -> tuple[bytes, bytes]:
    """The head of a save image, and the start of the stream behind it."""
    seen = b""
    for chunk in chunks:
        seen += chunk
        if len(seen) >= save_image.NUMBERS.size and len(seen) >= (length := save_image.size(seen)):
            return seen[:length], seen[length:]
    return seen, b""
