"""Gets the disk that a build starts from: the vendor's cloud image, else one bootstrapped from packages."""

import hashlib
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from deskyard.errors import ConfigError, HostError
from deskyard.host.command import run
from deskyard.host.download import fetch, is_reachable
from deskyard.host.lock import alone
from deskyard.host.places import places, tree
from deskyard.host.progress import Timings, say, step
from deskyard.image.base.bootstrap import bootstrap_disk
from deskyard.model.image import Image
from deskyard.plan.image.image import BaseChoice, BaseKind, bootstrap_packages, kinds_of
from deskyard.plan.image.package_snapshot import snapshot_sources

VARIABLE = "DESKYARD_BASE"
RECIPE = 1


@dataclass(frozen=True)
class BaseDisk:
    """A cached base disk."""

    kind: BaseKind
    digest: str
    disk: Path


def base_choice() -> BaseChoice:
    """The base that the user wants: `auto` unless `DESKYARD_BASE` says otherwise."""
    value = os.environ.get(VARIABLE, "auto")
    if value not in ("auto", "vendor", "bootstrap"):
        raise ConfigError(VARIABLE, value, "is no kind of base disk", "set auto, vendor or bootstrap")
    return cast(BaseChoice, value)


def choose_base(image: Image, choice: BaseChoice) -> BaseKind:
    """The kind of base disk to build from: in `auto` the vendor's if its server answers."""
    kinds = kinds_of(image.base, choice)
    if len(kinds) == 1:
        return kinds[0]
    if is_reachable(image.base.vendor.url):
        return "vendor"
    say(f"    {image.base.vendor.url} cannot be reached: bootstrapping from packages")
    return "bootstrap"


def get_base(image: Image, kind: BaseKind, timings: Timings, anew: bool = False) -> BaseDisk:
    """Find the base disk in the cache or make it; an interrupted attempt leaves nothing.

    With `anew` a bootstrapped one is made again: its packages have newer versions by now. A vendor's stays the same.
    """
    digest = base_digest(image, kind)
    folder = places().bases / f"{kind}-{digest}"
    disk = folder / "disk.qcow2"
    # Images that are built at once may start from the same base.
    with alone(f"base-{digest}"):
        if not disk.is_file() or (anew and kind == "bootstrap"):
            _keep(image, kind, folder, timings)
    return BaseDisk(kind, digest, disk)


def _keep(image: Image, kind: BaseKind, folder: Path, timings: Timings) -> None:
    places().bases.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=places().bases) as scratch:
        new = Path(scratch) / "done"
        new.mkdir()
        _make(image, kind, Path(scratch), new / "disk.qcow2", timings)
        (new / "base.json").write_text(json.dumps(_ingredients(image, kind), indent=2))
        if folder.exists():
            shutil.rmtree(folder)
        new.replace(folder)


def base_digest(image: Image, kind: BaseKind) -> str:
    """Stands for what the base disk is made from."""
    return hashlib.sha256(json.dumps(_ingredients(image, kind), sort_keys=True).encode()).hexdigest()[:16]


def _ingredients(image: Image, kind: BaseKind) -> dict[str, object]:
    if kind == "vendor":
        return {"kind": kind, image.base.vendor.algorithm: image.base.vendor.checksum}
    prepare = (tree() / "packer/base/prepare.sh").read_bytes()
    return {
        "kind": kind,
        "recipe": RECIPE,
        "suite": image.base.bootstrap.suite,
        "packages": bootstrap_packages(image, tree()),
        "disk_gib": image.disk_gib,
        "prepare": hashlib.sha256(prepare).hexdigest(),
        **({"snapshot": image.base.snapshot.isoformat()} if image.base.snapshot else {}),
    }


def _make(image: Image, kind: BaseKind, scratch: Path, destination: Path, timings: Timings) -> None:
    free_gib = shutil.disk_usage(scratch).free >> 30
    if free_gib < 2 * image.disk_gib:
        reason = f"has {free_gib} GiB free, a base disk of {image.disk_gib} GiB needs twice its size for a while"
        raise HostError("disk space", str(places().bases), reason, "free some space or set DESKYARD_HOME")
    if kind == "vendor":
        with step("fetch the vendor's cloud image", timings):
            vendor = image.base.vendor
            fetch(vendor.url, destination, algorithm=vendor.algorithm, checksum=vendor.checksum)
            run(["qemu-img", "resize", "-q", str(destination), f"{image.disk_gib}G"], timeout=60)
        return
    with step("bootstrap the base disk from packages", timings):
        packages = bootstrap_packages(image, tree())
        past = snapshot_sources(image.base, signed=False)
        bootstrap_disk(image.base.bootstrap, packages, image.disk_gib, scratch, destination, past)
