"""The templates that are kept: their memory in a folder of this user, their disks in libvirt's pool."""

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from deskyard.host.places import places
from deskyard.plan.first_boot import FirstBoot, desktop_first_boot
from deskyard.plan.image.source import ImageSource
from deskyard.plan.names import short_id
from deskyard.plan.warm import Fit, Start, Template, layout, start, template_first_boot
from deskyard.plan.workspace import MachinePlan, WorkspacePlan
from deskyard.site.libvirt import documents, storage
from deskyard.site.libvirt.link import gone_is_fine
from deskyard.site.libvirt.warm.guest import programs

RECORD, HEAD, MEMORY = "template.json", "head", "memory.zst"


def folder(name: str) -> Path:
    """Where the memory of a template is."""
    return places().state / "templates" / name


def all_templates() -> list[Template]:
    """Every template that is whole; the record is written last."""
    records = sorted((places().state / "templates").glob(f"*/{RECORD}"))
    return [template for path in records if (template := _read(path)) is not None]


def find(name: str) -> Template | None:
    """The template of that name, if it is whole."""
    return _read(folder(name) / RECORD)


def _read(path: Path) -> Template | None:
    try:
        record = json.loads(path.read_text())
        return Template(**{**record, "fit": Fit(**record["fit"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def keep(template: Template) -> None:
    """Write a template's record, which makes it whole."""
    draft = folder(template.name) / f"{RECORD}.draft"
    draft.write_text(json.dumps(asdict(template), indent=2) + "\n")
    draft.rename(folder(template.name) / RECORD)


def remove(link: Any, name: str) -> None:
    """Delete a template; its disks stay as long as machines that started from it need them."""
    (folder(name) / RECORD).unlink(missing_ok=True)
    shutil.rmtree(folder(name), ignore_errors=True)
    marker = storage.lookup(link, name + storage.TEMPLATE_MARKER)
    if marker is not None:
        with gone_is_fine():
            marker.delete()
    storage.drop_unused(link)


def fit(link: Any, image: ImageSource, machine: MachinePlan, accelerator: str, first_boot: FirstBoot) -> Fit:
    """The properties that a template has to be made for, to fit such a machine on this hypervisor."""
    return Fit(
        image=image.name,
        digest=image.digest,
        vcpus=machine.vcpus,
        memory_mib=machine.memory_mib,
        disks=layout(machine),
        accelerator=accelerator,
        cpu=documents.EMULATED_CPU if accelerator == "tcg" else _cpu(link),
        qemu=_version(link.getVersion()),
        libvirt=_version(link.getLibVersion()),
        recipe=_recipe(machine, accelerator, first_boot),
    )


def starts(link: Any, plan: WorkspacePlan, images: Mapping[str, ImageSource], key: str) -> dict[str, Start]:
    """How each desktop, and each machine at a seat, starts if it is new: from a template that fits, or why it boots."""
    kept = all_templates()
    return {
        desktop.name: start(
            fit(
                link,
                images[desktop.machine.image],
                desktop.machine,
                plan.accelerator,
                desktop_first_boot(desktop, key),
            ),
            kept,
        )
        for desktop in (*plan.desktops, *plan.seats)
    }


def _recipe(machine: MachinePlan, accelerator: str, first_boot: FirstBoot) -> str:
    """Everything else that this tree decides about a template, in eight digits."""
    document = documents.domain(
        name="",
        uuid="",
        vcpus=0,
        memory_mib=0,
        accelerator=accelerator,
        disk="",
        home="" if machine.home_gib is None else "home",
        seed="",
        interfaces=[],
        console_log="",
    )
    seed = json.dumps(asdict(template_first_boot(first_boot)), sort_keys=True)
    return short_id(document, seed, *programs())


def _cpu(link: Any) -> str:
    """The processor that `host-model` gives machines here: its model, and a code for all of its features."""
    cpu = ElementTree.fromstring(link.getCapabilities()).find("./host/cpu")
    assert cpu is not None
    code = hashlib.sha256(ElementTree.tostring(cpu)).hexdigest()[:8]
    return f"{cpu.findtext('model')} {code}"


def _version(number: int) -> str:
    return f"{number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"
