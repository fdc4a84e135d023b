"""Templates of images on this machine's hypervisor: made, listed, removed."""

import shlex
from dataclasses import asdict
from typing import Any

from deskyard.errors import ConfigError, HostError
from deskyard.host.facts import available_memory_mib
from deskyard.host.lock import alone
from deskyard.host.places import tree
from deskyard.host.progress import step
from deskyard.host.vm.accelerator import accelerator
from deskyard.image.check.first_frame import wait_command, wallpaper
from deskyard.image.store import store
from deskyard.model.site import Site
from deskyard.plan.first_boot import desktop_first_boot
from deskyard.plan.image.image import read_image
from deskyard.plan.image.source import ImageSource
from deskyard.plan.warm import Template, start, template_desktop
from deskyard.plan.workspace import GATEWAY_IMAGE
from deskyard.site.libvirt import daemon
from deskyard.site.libvirt.warm import making, templates

# Who gets in is told to each machine that starts from a template.
NO_KEY = ""


def make(name: str, site: Site, tier_name: str) -> Template:
    """The template of an image for desktops of a tier, made if none is there that fits."""
    if site.backend != "libvirt":
        reason = "its machines cannot go on from another one's memory"
        raise ConfigError("site", site.name, reason, "make templates for a site with backend libvirt")
    if name == GATEWAY_IMAGE:
        raise ConfigError("image", name, "is no image of desktops", "gateways boot")
    tier = site.all_tiers().get(tier_name)
    if tier is None:
        raise ConfigError(
            "tier", tier_name, f"is no tier of site {site.name}", f"choose: {', '.join(site.all_tiers())}"
        )
    built, how = store.require(name), accelerator(site.accelerator)
    desktop = template_desktop(name, tier_name, tier, how)
    image, first_boot = ImageSource(name, built.digest, str(built.disk)), desktop_first_boot(desktop, NO_KEY)
    shown = wallpaper(read_image(tree(), name), tree())
    drawn = None if shown is None else shlex.split(wait_command(shown))
    daemon.up(how)
    waiting = f"another run makes a template of image {name}: waiting for it"
    with alone(f"template-{name}", waiting=waiting), daemon.connection() as link:
        fit = templates.fit(link, image, desktop.machine, how, first_boot)
        found = start(fit, templates.all_templates()).template
        kept = templates.find(found) if found else None
        if kept is not None:
            return kept
        making.clear_unfinished(link, name)
        _require_memory(tier.memory_mib)
        with step(f"template of image {name} for tier {tier_name}"):
            made = making.make(link, making.Wanted(image, desktop.machine, how, first_boot, drawn))
        _drop_older(link, made)
    return made


def listed(name: str | None = None) -> list[Template]:
    """The templates of an image, or all."""
    return [template for template in templates.all_templates() if name in (None, template.fit.image)]


def remove(name: str) -> list[Template]:
    """Remove the templates of an image; disks that desktops have begun with stay below theirs."""
    found = listed(name)
    if found:
        with daemon.connection() as link:
            for template in found:
                templates.remove(link, template.name)
    return found


def row(template: Template) -> dict[str, Any]:
    """A template as `--json` shows it."""
    return asdict(template)


def text(template: Template) -> str:
    """A template in a line."""
    fit = template.fit
    size = f"{fit.vcpus} vCPU, {fit.memory_mib} MiB, {template.memory_bytes >> 20} MiB kept"
    return f"{template.name}  {fit.image}@{fit.digest}  {size}, QEMU {fit.qemu} {fit.accelerator}, {template.made_at}"


def _drop_older(link: Any, made: Template) -> None:
    """Remove the templates that the new one takes the place of, and those whose image is not kept any more."""
    for template in listed():
        fit = template.fit
        replaced = (fit.image, fit.vcpus, fit.memory_mib) == (made.fit.image, made.fit.vcpus, made.fit.memory_mib)
        if template.name != made.name and (replaced or store.load(fit.image, fit.digest) is None):
            templates.remove(link, template.name)


def _require_memory(needed: int) -> None:
    available = available_memory_mib()
    if needed > available:
        reason = f"{available} MiB are available, the template needs {needed} MiB while it is made"
        raise HostError("memory", None, reason, "stop other machines, or choose a smaller tier")
