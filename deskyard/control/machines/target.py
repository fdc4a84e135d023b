"""Operations of machines, and the line of an upgrade that a person signs and the worker checks. Pure."""

import re
from collections.abc import Mapping
from typing import Any

from deskyard.errors import ConfigError

UPGRADE, PREVIEW = "desktop.upgrade", "upgrade.preview"
# With a space or a separator in a name, two wishes would have the same line.
NAME = re.compile(r"[A-Za-z0-9._-]+")


def upgrade_target(images: Mapping[str, str]) -> str:
    """Which desktops get a system of which image; raises `ConfigError` for what names neither."""
    for name in (*images, *images.values()):
        if not NAME.fullmatch(name):
            raise ConfigError("upgrade", name, "is no name of a desktop or an image", "see GET /api/desktops")
    of: dict[str, list[str]] = {}
    for desktop, image in sorted(images.items()):
        of.setdefault(image, []).append(desktop)
    return "; ".join(f"{' '.join(desktops)} to {image}" for image, desktops in sorted(of.items()))


def signed_target(desktop: str | None, values: Mapping[str, Any]) -> str:
    """The line for an operation; raises `ConfigError` unless what was signed together has its desktop and image."""
    image = str(values.get("image"))
    together = values.get("together") or {str(desktop): image}
    if not isinstance(together, dict) or together.get(str(desktop)) != image:
        raise ConfigError("upgrade", desktop, f"to {image} is not among what was signed", "sign it anew")
    return upgrade_target({str(name): str(to) for name, to in together.items()})
