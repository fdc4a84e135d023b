"""Warm starts: what a template is made for, which of them a machine can start from, and what makes a machine itself.

A template is a machine that was booted once and saved with its memory. Another machine goes on from it if all is the
same that its memory knows: hardware, disks, image, hypervisor.
"""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from deskyard.model.tier import Tier
from deskyard.plan.first_boot import FirstBoot
from deskyard.plan.names import machine_uuid
from deskyard.plan.workspace import Accelerator, DesktopPlan, MachinePlan, vcpus

# Stands in a template wherever a machine's own name and address will be.
HOSTNAME, MAC = "deskyard-template", "02:00:5e:00:53:01"
SYSTEM, HOME = "system", "home"
# How a machine starts that goes on from no template.
BOOTS = "boots"
WORDS = {"disks": "disks (GiB)", "recipe": "way of making templates"}


class Templates(StrEnum):
    """Whether the templates that new desktops lack are made before they start."""

    KEPT = "kept"  # those that are there are used
    TRIED = "tried"  # they are made; where that fails the desktops boot
    ASKED = "asked"  # they are made; where that fails nothing starts


@dataclass(frozen=True)
class Fit:
    """The size and image that a template was made for: a machine that differs in any of it boots."""

    image: str
    digest: str
    vcpus: int
    memory_mib: int
    disks: dict[str, int]
    accelerator: str
    cpu: str
    qemu: str
    libvirt: str
    # Stands for all else: the machine's document, the seed of the template, the programs that run in it.
    recipe: str


@dataclass(frozen=True)
class Template:
    """A machine's memory and its disks, of the same moment."""

    name: str
    fit: Fit
    made_at: str
    memory_bytes: int


@dataclass(frozen=True)
class Start:
    """How a new machine starts: from a template, or by booting, for a reason."""

    template: str | None
    reason: str | None = None


def template_desktop(image: str, tier_name: str, tier: Tier, accelerator: Accelerator) -> DesktopPlan:
    """The desktop that a template is: of this tier, with no name, address or route of its own."""
    machine = MachinePlan(
        domain=HOSTNAME,
        uuid=machine_uuid(HOSTNAME),
        hostname=HOSTNAME,
        image=image,
        vcpus=vcpus(tier.vcpus, accelerator),
        memory_mib=tier.memory_mib,
        disk_gib=tier.disk_gib,
        home_gib=tier.home_gib,
    )
    return DesktopPlan(tier_name, tier_name, tier, machine, MAC, "", {}, isolated=True)


def layout(machine: MachinePlan) -> dict[str, int]:
    """The disks that a machine writes; GiB."""
    home = {} if machine.home_gib is None else {HOME: machine.home_gib}
    return {SYSTEM: machine.disk_gib, **home}


def disk_name(template: str, disk: str) -> str:
    """The volume that holds a disk of a template."""
    return f"{template}.{disk}.qcow2"


def start(wanted: Fit, templates: Iterable[Template]) -> Start:
    """The newest template that fits, or why none does: what the nearest differs in."""
    of_image = sorted(
        (template for template in templates if template.fit.image == wanted.image),
        key=lambda template: template.made_at,
        reverse=True,
    )
    if not of_image:
        return none_of(wanted.image)
    nearest = min(of_image, key=lambda template: len(differences(wanted, template.fit)))
    found = differences(wanted, nearest.fit)
    if found:
        return Start(None, f"template {nearest.name} does not fit: {'; '.join(found)}")
    return Start(nearest.name)


def none_of(image: str) -> Start:
    """The start of a machine whose image has no template."""
    return Start(None, f"no template of image {image} is there (./inv image.warm {image})")


def differences(wanted: Fit, had: Fit) -> list[str]:
    """List how a machine differs from what a template was made for, in words."""
    pairs = [(field.name, getattr(wanted, field.name), getattr(had, field.name)) for field in fields(Fit)]
    return [f"{_word(name)} {_value(ours)}, its is {_value(its)}" for name, ours, its in pairs if ours != its]


def _word(name: str) -> str:
    return WORDS.get(name, name)


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{name}={part}" for name, part in value.items())
    return str(value)


def template_first_boot(first_boot: FirstBoot) -> FirstBoot:
    """The first boot of a template: as a desktop's, but of no name, open to nobody, and without a network."""
    manager, *others = first_boot.user_data["users"]
    return FirstBoot(
        meta_data={"instance-id": HOSTNAME, "local-hostname": HOSTNAME},
        user_data={
            **first_boot.user_data,
            "hostname": HOSTNAME,
            "users": [{key: value for key, value in manager.items() if key != "ssh_authorized_keys"}, *others],
        },
        network_config={"version": 2, "ethernets": {}},
    )


def identity(first_boot: FirstBoot) -> dict[str, Any]:
    """The part of the first boot that makes a machine itself, and no other; holds no secret."""
    manager = first_boot.user_data["users"][0]
    (nic,) = first_boot.network_config["ethernets"].values()
    return {
        "hostname": first_boot.user_data["hostname"],
        "instance": first_boot.meta_data["instance-id"],
        "manager": manager["name"],
        "keys": list(manager["ssh_authorized_keys"]),
        "nic": nic["set-name"],
    }


def assignments(values: Mapping[str, str]) -> str:
    """Values as a shell reads them, for the standard input of a program: no command line shows them."""
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())
