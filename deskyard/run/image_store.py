"""Finds built images: one folder per name and digest, complete or not there."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deskyard.errors import ConfigError
from deskyard.plan.image import base_kinds, digest, read_image
from deskyard.run.base_disk import base_choice
from deskyard.run.places import places, tree

DISK, MANIFEST = "disk.qcow2", "manifest.json"


@dataclass(frozen=True)
class BuiltImage:
    """An image that was built and passed its tests."""

    name: str
    digest: str
    disk: Path
    manifest: dict[str, Any]


def find(name: str) -> BuiltImage | None:
    """The image built from the current sources, if there is one."""
    image = read_image(tree(), name)
    for kind in base_kinds(base_choice()):
        built = load(name, digest(image, tree(), kind))
        if built is not None:
            return built
    return None


def require(name: str) -> BuiltImage:
    """The image built from the current sources; raises `ConfigError` if there is none."""
    built = find(name)
    if built is None:
        raise ConfigError("image", name, "is not built from the current sources", f"run ./inv image.build {name}")
    return built


def load(name: str, image_digest: str) -> BuiltImage | None:
    """The image of this digest, if it is there and whole."""
    folder = image_folder(name, image_digest)
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
    except (FileNotFoundError, ValueError):
        return None
    disk = folder / DISK
    return BuiltImage(name, image_digest, disk, manifest) if disk.is_file() else None


def all_built(name: str) -> list[BuiltImage]:
    """Every build of an image that is kept, the newest first."""
    found = [load(name, path.parent.name) for path in (places().images / name).glob(f"*/{MANIFEST}")]
    return sorted((b for b in found if b is not None), key=lambda b: str(b.manifest["built_at"]), reverse=True)


def image_folder(name: str, image_digest: str) -> Path:
    """Where the image of this digest is kept."""
    return places().images / name / image_digest
