"""Reads what a user declared: `Pulumi.<workspace>.yaml`, its site, and the built images they need."""

import difflib
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from deskyard.declaration.promise import Heard, Promise
from deskyard.errors import ConfigError
from deskyard.host import addresses
from deskyard.host.places import tree
from deskyard.host.vm.accelerator import accelerator
from deskyard.image.store import store
from deskyard.model.base import load_yaml
from deskyard.model.site import Site
from deskyard.model.workspace import Workspace
from deskyard.plan.image.image import image_names
from deskyard.plan.image.source import ImageSource
from deskyard.plan.proxmox.view import ClusterView
from deskyard.plan.proxmox.workspace import ClusterPlan, plan_on_cluster
from deskyard.plan.warm import Start
from deskyard.plan.workspace import IMAGES, WorkspacePlan, plan_workspace
from deskyard.site.files import read_site, stacks_folder
from deskyard.site.libvirt import daemon
from deskyard.site.libvirt.warm import templates as kept_templates
from deskyard.site.management_key import public_key

PROJECT = "deskyard"
# What the program is not told: keys and what customises go to desktops that run, and to nobody else; no resource
# follows from the rest.
NOT_FOR_THE_PROGRAM = {"keys", "shared_keys", "customise", "care", "pool"}


@dataclass(frozen=True)
class Declared:
    """A workspace, the site it runs on, and its Plan."""

    workspace: Workspace
    site: Site
    plan: WorkspacePlan
    # Where and how a cluster has it; None on libvirt.
    on_cluster: ClusterPlan | None = None

    def image_names(self) -> set[str]:
        """The images that the Plan needs."""
        machines = [*self.plan.machines().values(), *(seat.machine for seat in self.plan.seats)]
        return {machine.image for machine in machines}

    def image_sources(self) -> dict[str, ImageSource]:
        """The built images by name; raises `ConfigError` for one that is not built."""
        built = {name: store.require(name) for name in sorted(self.image_names())}
        return {name: ImageSource(name, image.digest, str(image.disk)) for name, image in built.items()}

    def disk_source(self, image: str) -> ImageSource | None:
        """The disk that a machine of an image starts from; None on a cluster, whose machines are clones."""
        return self.image_sources()[image] if self.on_cluster is None else None

    def seat_image(self, seat: str) -> str:
        """The image that a machine at a seat is made from now, with what tells its builds apart."""
        image = self.plan.seat(seat).machine.image
        if self.on_cluster is not None:
            vm = self.on_cluster.seats.get(seat)
            return f"{image}-{vm.template}" if vm else image
        return f"{image}-{self.image_sources()[image].digest}"

    def management_key(self) -> str:
        """The public key that its machines let in."""
        return public_key(self.site.name)

    def starts(self) -> dict[str, Start]:
        """How each desktop starts if it is new; none is told while there is no hypervisor to ask, or no template."""
        if self.on_cluster is not None or not kept_templates.all_templates() or not daemon.answers():
            return {}
        with daemon.connection() as link:
            return kept_templates.starts(link, self.plan, self.image_sources(), self.management_key())

    def templates(self) -> dict[str, str]:
        """The templates that new desktops go on from, by the names of those that do."""
        return {name: start.template for name, start in self.starts().items() if start.template is not None}

    def certificate(self) -> dict[str, str] | None:
        """The operator's files, with a digest so that a renewed one is noticed."""
        brought = self.site.certificate
        if brought is None:
            return None
        named = {"chain": brought.chain, "key": brought.key, "acme_ca": brought.acme.ca if brought.acme else None}
        files = {name: path for name, path in named.items() if path is not None}
        if not files:
            return None
        digest = hashlib.sha256(b"".join(map(_read, files.values()))).hexdigest()
        return {**{name: str(path) for name, path in files.items()}, "digest": digest}


def stack_file(name: str) -> Path:
    """The file that declares workspace `name`."""
    return stacks_folder() / f"Pulumi.{name}.yaml"


def stack_names() -> list[str]:
    """List all workspaces declared in the stacks folder."""
    return sorted(path.name.split(".")[1] for path in stacks_folder().glob("Pulumi.*.yaml"))


def read(name: str, promise: Promise | Heard | None = None) -> Declared:
    """The declaration of workspace `name` from its file; raises `ConfigError` naming what is wrong."""
    return declared(read_workspace(name), promise)


def read_workspace(name: str) -> Workspace:
    """Read what the user wrote for workspace `name`."""
    return check_content(name, _content(name), stack_file(name).name)


def _content(name: str) -> Any:
    path = stack_file(name)
    if not path.is_file():
        near = difflib.get_close_matches(name, stack_names(), 1)
        names = ", ".join(stack_names()) or "none"
        remedy = f"write {near[0]!r}" if near else f"create the file (examples/ has some); known: {names}"
        raise ConfigError("workspace", name, f"{path} does not exist", remedy)
    return load_yaml(path) or {}


def whole_key(key: str) -> str:
    """A key of a stack file by its whole name: the engine takes one without a project's name for this project's."""
    return key if ":" in key else f"{PROJECT}:{key}"


def written(name: str) -> dict[str, Any] | None:
    """The whole keys of workspace `name` and what is written there, mistakes and all; None if the file maps none."""
    content = _content(name)
    config = content.get("config") if isinstance(content, dict) else None
    return {whole_key(str(key)): value for key, value in config.items()} if isinstance(config, dict) else None


def site_of(name: str) -> Site:
    """The site of workspace `name`: of its file nothing else is looked at, whatever it declares by now."""
    return read_site(site_name(name))


def site_name(name: str) -> str:
    """The name of that site."""
    values = written(name) or {}
    return str(values.get(f"{PROJECT}:site", Workspace.model_fields["site"].default))


def check_content(name: str, content: Any, source: str) -> Workspace:
    """The workspace in what a stack file holds; raises `ConfigError` naming what is wrong."""
    config = content.get("config") or {}
    if not isinstance(config, dict):
        raise ConfigError(f"{source}: config", None, "must map keys to values", "see examples/")
    values = {key.removeprefix(f"{PROJECT}:"): value for key, value in config.items()}
    return Workspace.check({"name": name, **values}, source)


def from_config(name: str, get: Callable[[str], str | None]) -> Workspace:
    """The same from Pulumi's configuration, whose values are text or JSON."""
    found = {key: get(key) for key in Workspace.model_fields if key not in {"name", *NOT_FOR_THE_PROGRAM}}
    values = {key: _value(text) for key, text in found.items() if text is not None}
    values["desktops"] = [_without(desktop, NOT_FOR_THE_PROGRAM) for desktop in values.get("desktops", ())]
    return Workspace.check({"name": name, **values}, f"Pulumi.{name}.yaml")


def declared(workspace: Workspace, promise: Promise | Heard | None = None) -> Declared:
    """Add the site and the Plan; a cluster is asked what it has, because others plan on it too.

    Whoever makes what is planned promises it, so that others of this machine take none of its places meanwhile.
    """
    site = read_site(workspace.site)
    if site.backend == "proxmox":
        look, make = partial(observe, site, workspace), partial(plan_on_cluster, workspace, site)
        plan, on_cluster = make(look()) if promise is None else promise.plan(look, make)
        return Declared(workspace, site, plan, on_cluster)
    # Each time anew: a changed address is a change of the Plan, which the next `up` brings to the gateway.
    host = addresses.addresses()
    return Declared(workspace, site, plan_workspace(workspace, site, accelerator(site.accelerator), host=host))


def observe(site: Site, workspace: Workspace | None = None) -> ClusterView:
    """Look at the cluster of a site, with the templates of the workspace's images as they are in this tree."""
    # Late, as in `deskyard.engine.backend`.
    from deskyard.site.proxmox.client import connect
    from deskyard.site.proxmox.machines import look

    own = {desktop.image or workspace.image for desktop in workspace.desktops} if workspace else set()
    # A desktop that exists needs its image no more: that is checked before a new one is made.
    declared_here = image_names(tree())
    names = sorted({*IMAGES, *own})
    digests = {name: store.digests(name) if name in declared_here else () for name in names}
    return look(connect(site), digests, site.name, workspace.name if workspace else None)


def _without(desktop: Any, names: set[str]) -> Any:
    return {key: value for key, value in desktop.items() if key not in names} if isinstance(desktop, dict) else desktop


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError("certificate", str(path), str(error.strerror), "check path and permissions") from error
