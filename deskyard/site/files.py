"""The declaration of a site, beside the stack files."""

import os
from pathlib import Path

from deskyard.errors import ConfigError
from deskyard.host.places import tree
from deskyard.model.base import load_yaml
from deskyard.model.site import Site

STACKS_VARIABLE = "DESKYARD_STACKS"


def stacks_folder() -> Path:
    """Where the stack files are: `stacks/workspace`, or `DESKYARD_STACKS`."""
    return Path(os.environ.get(STACKS_VARIABLE) or tree() / "stacks" / "workspace").resolve()


def site_file(name: str) -> Path:
    """The file that declares a site; the built-in one needs none."""
    return stacks_folder() / "sites" / f"{name}.yaml"


def read_site(name: str) -> Site:
    """The site from `sites/<name>.yaml` beside the stack files; `local` is built in."""
    path = site_file(name)
    if path.is_file():
        values = load_yaml(path)
        site = Site.check({"name": name, **values} if isinstance(values, dict) else values, path.name)
        if site.name != name:
            raise ConfigError(f"{path.name}: name", site.name, "is not the name of the file", f"write {name!r}")
        return site
    if name == Site.model_fields["name"].default:
        return Site()
    raise ConfigError("site", name, f"{path} does not exist", "create it, or leave the site out to use 'local'")
