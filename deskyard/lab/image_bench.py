"""Measures builds of an image in a copy of the tree: from nothing, with one role changed, with nothing changed."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from deskyard.errors import BuildError
from deskyard.host.command import run
from deskyard.host.places import places, tree
from deskyard.host.progress import say
from deskyard.model.image import HYGIENE_ROLE, AnyImage, CustomImage
from deskyard.plan.image.image import base_image, read_image, role_folder

# A clean build of a desktop takes a quarter of an hour where machines are emulated; an image with an office more.
BUILD_SECONDS = 4 * 3600.0
GIB = 2**30


@dataclass(frozen=True)
class Figure:
    """A value with its unit: of this run, of the last one that was recorded here, and what is aimed at.

    `ratio` is against the clean build of the same run.
    """

    name: str
    value: float
    unit: str
    ratio: float | None = None
    last: float | None = None
    aim: str = ""


def measure(name: str) -> list[Figure]:
    """Build `name` and what it starts from three times; keeps the figures, and no image.

    Raises `ConfigError` for an image that is not declared, `BuildError` if a build fails.
    """
    image = read_image(tree(), name)
    with _copy_of_the_tree() as (copy, environment):
        clean = _build(copy, environment, name, "clean")
        role = _change_a_role(copy, image)
        changed = _build(copy, environment, name, f"role {role} changed")
        nothing = _build(copy, environment, name, "nothing changed")
        manifest = _manifest(Path(environment["XDG_DATA_HOME"]), name)
    boot = manifest["boot"] or {}
    figures = [
        Figure("clean build", round(clean, 1), "s", 1.0),
        Figure(f"role {role} changed", round(changed, 1), "s", round(changed / clean, 3), aim="<= 0.25 x"),
        Figure("nothing changed", round(nothing, 1), "s", round(nothing / clean, 3), aim="<= 5 s"),
        Figure("compressed size", round(manifest["size_bytes"] / GIB, 2), "GiB", aim="<= 2 GiB, no office and editor"),
        Figure("power on -> SSH", manifest["boot_seconds"], "s", round(manifest["boot_seconds"] / clean, 3)),
    ]
    if "total_seconds" in boot:
        total = boot["total_seconds"]
        figures.append(Figure("kernel -> all services", round(total, 1), "s", round(total / clean, 3)))
    if boot.get("first_frame_seconds") is not None:
        frame = boot["first_frame_seconds"]
        figures.append(Figure("kernel -> first frame", round(frame, 1), "s", round(frame / clean, 3)))
    return _beside_the_last(name, figures)


@contextmanager
def _copy_of_the_tree() -> Iterator[tuple[Path, dict[str, str]]]:
    """The files of the checkout and an environment in which nothing is built yet; programs alone are shared."""
    argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = run(argv, timeout=60, cwd=tree()).stdout
    places().cache.mkdir(parents=True, exist_ok=True)
    # Builds need much space: where caches lie, not where temporary files do.
    with tempfile.TemporaryDirectory(prefix="bench-", dir=places().cache) as folder:
        copy = Path(folder) / "tree"
        for name in listed.split("\0"):
            if name and (tree() / name).is_file():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(tree() / name, copy / name, follow_symlinks=False)
        cache = Path(folder) / "cache/deskyard"
        cache.mkdir(parents=True)
        (cache / "toolchain").symlink_to(places().toolchain)
        homes = {f"XDG_{kind.upper()}_HOME": str(Path(folder) / kind) for kind in ("cache", "data", "state")}
        yield copy, {**{k: v for k, v in os.environ.items() if k != "DESKYARD_HOME"}, **homes}


def _build(copy: Path, environment: dict[str, str], name: str, what: str) -> float:
    """Seconds of one `image.build`; its output is shown as it comes."""
    say(f"==> image {name}: {what}")
    started = time.monotonic()
    argv = [sys.executable, "-m", "invoke", "image.build", name]
    if subprocess.run(argv, cwd=copy, env=environment, check=False, timeout=BUILD_SECONDS).returncode:
        raise BuildError("image", name, f"could not be built ({what})", "see the output above")
    return time.monotonic() - started


def _change_a_role(copy: Path, image: AnyImage) -> str:
    """Change the image's last own role so that nothing but its digest is another; its name."""
    role = [role for role in _roles(image) if role != HYGIENE_ROLE][-1]
    folder = role_folder(image, role, copy) if isinstance(image, CustomImage) else copy / "ansible/roles" / role
    with (folder / "tasks/main.yml").open("a") as file:
        file.write("# changed\n")
    return role


def _roles(image: AnyImage) -> Sequence[str]:
    return image.roles or base_image(tree(), image.name).roles


def _manifest(data: Path, name: str) -> dict[str, Any]:
    """The manifest of the newest build."""
    found = [json.loads(path.read_text()) for path in (data / "deskyard/images" / name).glob("*/manifest.json")]
    newest: dict[str, Any] = max(found, key=lambda manifest: str(manifest["built_at"]))
    return newest


def _beside_the_last(name: str, figures: Sequence[Figure]) -> list[Figure]:
    """The figures with those that were recorded before beside them; recorded in their place."""
    path = places().state / "bench" / f"image-{name}.json"
    last = {figure["name"]: figure["value"] for figure in json.loads(path.read_text())} if path.exists() else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(figure) for figure in figures], indent=2) + "\n")
    return [replace(figure, last=last.get(figure.name)) for figure in figures]
