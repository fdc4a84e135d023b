"""The costs of a built image, from its manifest: size, boot, memory, packages. What an older one lacks is unknown."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LARGEST = 20


@dataclass(frozen=True)
class ImageFacts:
    """The costs of an image; nothing stands for what was not recorded when it was built."""

    name: str
    version: str
    digest: str
    built_at: str
    git_commit: str | None
    base: str
    accelerator: str
    size_bytes: int
    packages: int
    installed_kib: int | None
    largest_packages: Mapping[str, int] | None
    ssh_seconds: float | None
    boot: Mapping[str, Any] | None
    hygiene_checks: int | None
    unknown: tuple[str, ...]


def facts(manifest: Mapping[str, Any]) -> ImageFacts:
    """The facts of the image that `manifest` describes."""
    sizes: dict[str, int] | None = manifest.get("installed_kib") or None
    largest = sorted(sizes.items(), key=lambda package: (-package[1], package[0]))[:LARGEST] if sizes else None
    checks = manifest.get("hygiene")
    values = {"installed sizes": sizes, "boot": manifest.get("boot"), "hygiene": checks}
    return ImageFacts(
        name=manifest["name"],
        version=manifest["version"],
        digest=manifest["digest"],
        built_at=manifest["built_at"],
        git_commit=manifest["git_commit"],
        base=manifest["base"]["kind"],
        accelerator=manifest["accelerator"],
        size_bytes=int(manifest["size_bytes"]),
        packages=len(manifest["packages"]),
        installed_kib=sum(sizes.values()) if sizes else None,
        largest_packages=dict(largest) if largest else None,
        ssh_seconds=manifest.get("boot_seconds"),
        boot=manifest.get("boot"),
        hygiene_checks=None if checks is None else len(checks),
        unknown=tuple(what for what, value in values.items() if value is None),
    )
