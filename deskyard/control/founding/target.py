"""Workspaces that are made and destroyed, in the lines that a person signs and the worker checks. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from deskyard.errors import ConfigError
from deskyard.model.workspace import Workspace

FOUND, PREVIEW = "workspace.create", "destroy.preview"
# With a space or a separator in a name, two wishes would have the same line.
NAME = re.compile(r"[A-Za-z0-9._/-]+")
IMAGE = Workspace.model_fields["image"].default
CHOSEN = "chosen by the host"
SIGNED_OF_A_DESKTOP = ("name", "tier", "image")


def found_target(workspace: str | None, values: Mapping[str, Any]) -> str:
    """All of a new workspace: site, network, egress, and of each desktop the tier and the image."""
    try:
        parts = [[each.get(key) for key in SIGNED_OF_A_DESKTOP] for each in values["desktops"]]
        network, site, egress = values.get("network"), values["site"], values["egress"]
    except (TypeError, KeyError, AttributeError) as error:
        raise ConfigError("operation", FOUND, "lacks what it needs", "ask for it anew") from error
    desktops = [(name, tier, image or IMAGE) for name, tier, image in parts]
    named = [part for desktop in desktops for part in desktop]
    _require_names([workspace, site, egress, *([] if network is None else [network]), *named])
    where = f"{workspace} on site {site}, network {CHOSEN if network is None else network}, egress {egress}"
    return f"{where}: {', '.join(f'{name} ({tier}, {image})' for name, tier, image in desktops)}"


def end_target(workspace: str | None, desktops: Any) -> str:
    """Which workspace goes, with which desktops and no other."""
    if not isinstance(desktops, Sequence) or isinstance(desktops, str):
        raise ConfigError("desktops", None, "are not named", "ask for it anew")
    _require_names([workspace, *desktops])
    return f"{workspace} with {' '.join(sorted({*desktops})) or 'no desktop'}"


def _require_names(names: Sequence[Any]) -> None:
    for name in names:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise ConfigError("name", str(name), "is no name that can be signed", "choose another")
