"""Builds an image: base disk, Packer, tests, and only then a place in the store."""

import hashlib
import importlib.metadata
import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deskyard.errors import BuildError, DeskyardError
from deskyard.host.command import run
from deskyard.host.lock import alone
from deskyard.host.places import places, tree
from deskyard.host.progress import Timings, say, step
from deskyard.host.toolchain import locate
from deskyard.host.vm.accelerator import accelerator
from deskyard.host.vm.evidence import listing
from deskyard.host.vm.scratch import scratch_folder
from deskyard.image.base.base_disk import BaseDisk, base_choice, choose_base, get_base
from deskyard.image.build import npm_packages, sources
from deskyard.image.build.layer import kind_of, layer_variables, own_roles, parent_disk
from deskyard.image.build.network import build_network
from deskyard.image.build.packer import PackerBuild, packer_version
from deskyard.image.build.space import large_files_on_disk, require_space
from deskyard.image.build.variables import ansible_variables
from deskyard.image.check.suites import Verdict, check_image
from deskyard.image.store.seal import seal
from deskyard.image.store.signature import ensure_key
from deskyard.image.store.store import DISK, BuiltImage, find_of, image_folder, load, require
from deskyard.model.image import CustomImage, Image
from deskyard.plan.image.image import BaseKind, read_image
from deskyard.plan.image.lineage import Lineage, read_lineage
from deskyard.plan.image.npm_lock import bundled
from deskyard.plan.image.suites import suite_folders
from deskyard.plan.workspace import Accelerator

CONVERT_SECONDS = 1800.0


def build(name: str, *, force: bool = False, keep: bool = False) -> BuiltImage:
    """Find the image built from the current sources, or build it; a failure leaves logs and no image.

    With `force` it is built in any case, from a base disk of today's packages. With `keep`, the virtual machine in
    which it failed goes on running.
    """
    return _find_or_build(read_lineage(tree(), name), force=force, keep=keep)


def _find_or_build(lineage: Lineage, *, force: bool = False, keep: bool = False) -> BuiltImage:
    image, name = lineage.image, lineage.image.name
    built = None if force else find_of(lineage)
    if built is not None:
        say(f"image {name} {built.digest} is built: {built.disk}")
        return built
    suite_folders(image, tree())
    # A program that is missing would be found out after the base disk, a wrong address after the parent's build, a key
    # that cannot sign at the very end.
    locate("packer")
    ensure_key()
    build_network()
    parent = _find_or_build(lineage.parent) if lineage.parent else None
    if parent:
        # That may have taken an hour; found out now it costs nothing more.
        _require_same_sources(lineage)
    with alone(f"image-{name}", waiting=f"another task builds image {name}: waiting for its end"):
        waited_for = None if force else find_of(lineage)
        if waited_for is not None:
            say(f"image {name} {waited_for.digest} is built meanwhile: {waited_for.disk}")
            return waited_for
        kind = kind_of(parent) if parent else choose_base(lineage.root, base_choice())
        image_digest = lineage.digest(kind)
        logs = _log_folder(name)
        places().images.mkdir(parents=True, exist_ok=True)
        require_space(image, places(), bootstraps=kind == "bootstrap")
        say(f"building image {name} {image_digest}; logs in {logs}")
        with _naming_evidence(logs), large_files_on_disk(), scratch_folder(".new-", keep=keep) as scratch:
            result = _build(lineage, parent, kind, scratch, logs, force=force, keep=keep)
    say(f"image {name} {image_digest} is built and tested: {result.disk}")
    return result


def test(name: str, *, keep: bool = False) -> Verdict:
    """Boot the built image and run its tests again; with `keep`, a machine that fails them goes on running."""
    built = require(name)
    image = read_image(tree(), name)
    logs = _log_folder(name)
    with _naming_evidence(logs), scratch_folder(".test-", keep=keep) as scratch:
        link = scratch / DISK
        link.symlink_to(built.disk)
        return check_image(image, link, accelerator("auto"), logs, Timings(), keep=keep)


@contextmanager
def _naming_evidence(logs: Path) -> Iterator[None]:
    """Let a failure name what was kept of it."""
    try:
        yield
    except DeskyardError as error:
        reason = f"{error.reason}\n{listing(logs)}"
        raise BuildError(error.field, error.value, reason, error.remedy) from error


def _build(
    lineage: Lineage,
    parent: BuiltImage | None,
    kind: BaseKind,
    scratch: Path,
    logs: Path,
    *,
    force: bool = False,
    keep: bool = False,
) -> BuiltImage:
    image, timings = lineage.image, Timings()
    how = accelerator("auto")
    if isinstance(image, Image):
        base = get_base(image, kind, timings, force)
        variables = {**sources.variables(image, scratch, timings), **ansible_variables(image, kind, scratch, timings)}
        packer = PackerBuild(base.disk, how, variables, scratch, logs, keep)
    else:
        assert parent is not None
        base = parent_disk(image, parent, scratch)
        start = lineage.root.base
        variables = {**layer_variables(image, start, scratch), **npm_packages.archives(image, start, timings)}
        packer = PackerBuild(
            base.disk,
            how,
            variables,
            scratch,
            logs,
            keep,
            from_image=True,
            own_roles=own_roles(image),
            network=build_network(),
        )
    with step(f"build with Packer ({how})", timings):
        disk = packer.run()
    _require_same_sources(lineage)
    verdict = check_image(image, disk, how, logs, timings, keep=keep)
    finished = scratch / "finished"
    finished.mkdir()
    with step("compress the disk", timings):
        argv = ["qemu-img", "convert", "-c", "-o", "compression_type=zstd", "-O", "qcow2"]
        run([*argv, str(disk), str(finished / DISK)], timeout=CONVERT_SECONDS)
    manifest = _manifest(lineage, base, how, verdict, timings, finished / DISK)
    _require_same_sources(lineage)
    seal(finished, manifest)
    return _keep(image.name, manifest["digest"], finished)


def _require_same_sources(lineage: Lineage) -> None:
    """Raise `BuildError` for sources edited meanwhile: they may or may not be in the disk, the digest would lie."""
    name = lineage.image.name
    if read_lineage(tree(), name) != lineage:
        raise BuildError("image", name, "its sources changed during the build", "build it again")


def _manifest(
    lineage: Lineage,
    base: BaseDisk,
    how: Accelerator,
    verdict: Verdict,
    timings: Timings,
    disk: Path,
) -> dict[str, Any]:
    with disk.open("rb") as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    image, root = lineage.image, lineage.root
    return {
        "name": image.name,
        "version": image.version,
        "digest": lineage.digest(base.kind),
        "sha256": checksum,
        "size_bytes": disk.stat().st_size,
        "built_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "git_commit": _git_commit(),
        "base": {"kind": base.kind, "digest": base.digest, **_origin(root)},
        **({"from": image.parent} if isinstance(image, CustomImage) else {}),
        "accelerator": how,
        "tools": _tool_versions(),
        "seconds": {name: round(seconds, 1) for name, seconds in timings.steps.items()},
        "boot_seconds": round(verdict.boot_seconds, 1),
        "artifacts": {artifact.name: artifact.version for artifact in root.artifacts},
        "npm": _npm_packages(root),
        **asdict(verdict.inventory),
        "boot": asdict(verdict.measures) if verdict.measures else None,
        "hygiene": [asdict(check) for check in verdict.hygiene],
        "inputs": lineage.inputs,
    }


def _origin(image: Image) -> dict[str, str]:
    """The origin of the base: the distribution, and the day whose packages it was built from if that was chosen."""
    snapshot = image.base.snapshot
    return {"distribution": image.base.distribution, **({"snapshot": snapshot.isoformat()} if snapshot else {})}


def _npm_packages(image: Image) -> dict[str, dict[str, str]]:
    """The packages that the gateway's viewer is bundled from; npm installs exactly what the lock names."""
    if image.bundle != "gateway":
        return {}
    return bundled(json.loads((tree() / "viewer/package-lock.json").read_text()))


def _tool_versions() -> dict[str, str]:
    qemu = run(["qemu-img", "--version"], timeout=30).stdout.splitlines()[0]
    return {
        "packer": ".".join(map(str, packer_version(str(locate("packer"))))),
        "qemu-img": qemu.removeprefix("qemu-img version "),
        "ansible-core": importlib.metadata.version("ansible-core"),
    }


def _git_commit() -> str | None:
    """The commit of the tree, with `-dirty` if files differ from it; nothing outside a checkout."""
    result = run(["git", "describe", "--always", "--dirty", "--abbrev=40"], timeout=30, cwd=tree(), check=False)
    return result.stdout.strip() or None


def _keep(name: str, image_digest: str, finished: Path) -> BuiltImage:
    """Move the finished folder to its place in one step."""
    folder = image_folder(name, image_digest)
    folder.parent.mkdir(parents=True, exist_ok=True)
    if folder.exists():
        shutil.rmtree(folder)
    finished.replace(folder)
    built = load(name, image_digest)
    assert built is not None
    return built


def _log_folder(name: str) -> Path:
    folder = places().state / "builds" / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
