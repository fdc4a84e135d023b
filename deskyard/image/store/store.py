"""Finds built images: one folder per name and digest, complete or not there."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deskyard.errors import ConfigError
from deskyard.host.places import places, tree
from deskyard.image.base.base_disk import base_choice
from deskyard.plan.image.image import base_kinds, image_names
from deskyard.plan.image.lineage import Lineage, read_lineage

DISK, MANIFEST, SBOM, SIGNATURE = "disk.qcow2", "manifest.json", "sbom.cdx.json", "manifest.json.minisig"
SHORTEST_DIGEST = 4


@dataclass(frozen=True)
class BuiltImage:
    """An image that was built and passed its tests."""

    name: str
    digest: str
    disk: Path
    manifest: dict[str, Any]


def find(name: str) -> BuiltImage | None:
    """The image built from the current sources, if there is one."""
    return _first(name, digests(name))


def find_of(lineage: Lineage) -> BuiltImage | None:
    """The image built from the sources that a lineage was read from, if there is one."""
    return _first(lineage.image.name, _digests(lineage))


def digests(name: str) -> list[str]:
    """The digests that the image has if it is built from the current sources, the preferred one first."""
    return _digests(read_lineage(tree(), name))


def _first(name: str, keys: Sequence[str]) -> BuiltImage | None:
    return next((built for key in keys if (built := load(name, key)) is not None), None)


def _digests(lineage: Lineage) -> list[str]:
    return [lineage.digest(kind) for kind in base_kinds(base_choice())]


def require(name: str) -> BuiltImage:
    """The image built from the current sources; raises `ConfigError` if there is none."""
    built = find(name)
    if built is None:
        raise ConfigError("image", name, "is not built from the current sources", f"run ./inv image.build {name}")
    return built


def load(name: str, image_digest: str) -> BuiltImage | None:
    """The image of this digest, if it is there and whole."""
    manifest = _manifest(image_folder(name, image_digest))
    return BuiltImage(name, image_digest, image_folder(name, image_digest) / DISK, manifest) if manifest else None


def _manifest(folder: Path) -> dict[str, Any] | None:
    """Read the manifest beside a disk; nothing if either is missing, or it cannot be read."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
    except (OSError, ValueError):
        return None
    return manifest if isinstance(manifest, dict) and (folder / DISK).is_file() else None


def all_built(name: str) -> list[BuiltImage]:
    """Every build of an image that is kept, the newest first."""
    found = [load(name, path.parent.name) for path in (places().images / name).glob(f"*/{MANIFEST}")]
    return sorted((b for b in found if b is not None), key=lambda b: str(b.manifest.get("built_at")), reverse=True)


def choose(reference: str) -> BuiltImage:
    """The build that `reference` names; raises `ConfigError` if there is none, or it is not whole."""
    name, image_digest = locate(reference)
    built = load(name, image_digest)
    if built is None:
        reason = f"lacks its disk, or its {MANIFEST} cannot be read"
        raise ConfigError("image", reference, reason, f"run ./inv image.build {name}")
    return built


def choose_or_open(reference: str) -> BuiltImage:
    """As `choose`, or the build in a folder, made elsewhere or kept from an earlier run; a folder has a `/` in it."""
    if "/" not in reference:
        return choose(reference)
    manifest = _manifest(Path(reference))
    if not manifest or not {"name", "digest"} <= manifest.keys():
        reason = f"is no folder with a {DISK} and the {MANIFEST} of its build"
        raise ConfigError(
            "image", reference, reason, "give a folder as ./inv image.build leaves it, or an image's name"
        )
    return BuiltImage(str(manifest["name"]), str(manifest["digest"]), Path(reference) / DISK, manifest)


def locate(reference: str) -> tuple[str, str]:
    """The name and digest of the build that `reference` names, whole or not; raises `ConfigError` if there is none.

    It is NAME (the build of the current sources, else the newest), DIGEST or the beginning of one, or NAME@DIGEST.
    """
    kept = _kept()
    name, at, beginning = reference.rpartition("@")
    if not at and beginning in {*image_names(tree()), *(image for image, _ in kept)}:
        return beginning, _best(beginning, kept)
    fitting = [build for build in kept if build[1].startswith(beginning) and name in ("", build[0])]
    if len(beginning) < SHORTEST_DIGEST or not fitting:
        remedy = f"choose one of: {_listing(kept)}" if kept else "run ./inv image.build NAME"
        raise ConfigError("image", reference, "is no image that was built here", remedy)
    if len(fitting) > 1:
        raise ConfigError("image", reference, "is more than one image", f"choose one of: {_listing(fitting)}")
    return fitting[0]


def _best(name: str, kept: list[tuple[str, str]]) -> str:
    current = digests(name) if name in image_names(tree()) else []
    newest = [built.digest for built in all_built(name)]
    for image_digest in (*(candidate for candidate in current if (name, candidate) in kept), *newest):
        return image_digest
    broken = [build for build in kept if build[0] == name]
    if len(broken) == 1:
        return broken[0][1]
    remedy = f"choose one of: {_listing(broken)}" if broken else f"run ./inv image.build {name}"
    raise ConfigError("image", name, "is not built", remedy)


def _kept() -> list[tuple[str, str]]:
    """Name and digest of every folder of a build, whole or not; builds that are going on have hidden ones."""
    folders = [path for path in places().images.glob("*/*") if path.is_dir() and path.parent.name[0] != "."]
    return sorted((path.parent.name, path.name) for path in folders)


def _listing(builds: list[tuple[str, str]]) -> str:
    return ", ".join("@".join(build) for build in builds)


def image_folder(name: str, image_digest: str) -> Path:
    """Where the image of this digest is kept."""
    return places().images / name / image_digest
