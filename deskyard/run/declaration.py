"""Reads what a user declared: `Pulumi.<workspace>.yaml`, its site, and the built images they need."""

import difflib
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deskyard.errors import ConfigError
from deskyard.model.base import load_yaml
from deskyard.model.site import Site
from deskyard.model.workspace import Workspace
from deskyard.plan.workspace import WorkspacePlan, plan_workspace
from deskyard.run import image_store
from deskyard.run.accelerator import accelerator
from deskyard.run.management_key import public_key
from deskyard.run.places import tree

if TYPE_CHECKING:
    from stacks.components.image import ImageSource

PROJECT = "deskyard"
STACKS_VARIABLE = "DESKYARD_STACKS"


@dataclass(frozen=True)
class Declared:
    """A workspace, the site it runs on, and its Plan."""

    workspace: Workspace
    site: Site
    plan: WorkspacePlan

    def image_names(self) -> set[str]:
        """The images that the Plan needs."""
        machines = [self.plan.gateway.machine, *(desktop.machine for desktop in self.plan.desktops)]
        return {machine.image for machine in machines}

    def image_sources(self) -> "dict[str, ImageSource]":
        """The built images by name; raises `ConfigError` for one that is not built."""
        from stacks.components.image import ImageSource

        built = {name: image_store.require(name) for name in sorted(self.image_names())}
        return {name: ImageSource(name, image.digest, str(image.disk)) for name, image in built.items()}

    def management_key(self) -> str:
        """The public key that its machines let in."""
        return public_key(self.site.name)

    def certificate(self) -> dict[str, str] | None:
        """The operator's certificate, with a digest so that a renewed file is noticed."""
        brought = self.site.certificate
        if brought is None:
            return None
        content = b"".join(_read(path) for path in (brought.chain, brought.key))
        digest = hashlib.sha256(content).hexdigest()
        return {"chain": str(brought.chain), "key": str(brought.key), "digest": digest}


def stacks_folder() -> Path:
    """Where the stack files are: `stacks/workspace`, or `DESKYARD_STACKS`."""
    return Path(os.environ.get(STACKS_VARIABLE) or tree() / "stacks" / "workspace").resolve()


def stack_file(name: str) -> Path:
    """The file that declares workspace `name`."""
    return stacks_folder() / f"Pulumi.{name}.yaml"


def stack_names() -> list[str]:
    """All workspaces declared in the stacks folder."""
    return sorted(path.name.split(".")[1] for path in stacks_folder().glob("Pulumi.*.yaml"))


def read(name: str) -> Declared:
    """The declaration of workspace `name` from its file; raises `ConfigError` naming what is wrong."""
    return declared(read_workspace(name))


def read_workspace(name: str) -> Workspace:
    """What the user wrote for workspace `name`."""
    path = stack_file(name)
    if not path.is_file():
        near = difflib.get_close_matches(name, stack_names(), 1)
        known = ", ".join(stack_names()) or "none"
        remedy = f"write {near[0]!r}" if near else f"create the file (examples/ has some); known: {known}"
        raise ConfigError("workspace", name, f"{path} does not exist", remedy)
    return check_content(name, load_yaml(path) or {}, path.name)


def check_content(name: str, content: Any, source: str) -> Workspace:
    """The workspace in what a stack file holds; raises `ConfigError` naming what is wrong."""
    config = content.get("config") or {}
    if not isinstance(config, dict):
        raise ConfigError(f"{source}: config", None, "must map keys to values", "see examples/")
    values = {key.removeprefix(f"{PROJECT}:"): value for key, value in config.items()}
    return Workspace.check({"name": name, **values}, source)


def from_config(name: str, get: Callable[[str], str | None]) -> Workspace:
    """The same from Pulumi's configuration, whose values are text or JSON."""
    found = {key: get(key) for key in Workspace.model_fields if key != "name"}
    values = {key: _value(text) for key, text in found.items() if text is not None}
    return Workspace.check({"name": name, **values}, f"Pulumi.{name}.yaml")


def declared(workspace: Workspace) -> Declared:
    """Add the site and the Plan."""
    site = read_site(workspace.site)
    return Declared(workspace, site, plan_workspace(workspace, site, accelerator(site.accelerator)))


def read_site(name: str) -> Site:
    """The site from `sites/<name>.yaml` beside the stack files; `local` is built in."""
    path = stacks_folder() / "sites" / f"{name}.yaml"
    if path.is_file():
        values = load_yaml(path)
        site = Site.check({"name": name, **values} if isinstance(values, dict) else values, path.name)
        if site.name != name:
            raise ConfigError(f"{path.name}: name", site.name, "is not the name of the file", f"write {name!r}")
        return site
    if name == Site.model_fields["name"].default:
        return Site()
    raise ConfigError("site", name, f"{path} does not exist", "create it, or leave the site out to use 'local'")


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
