"""Lays out Deskyard itself for an image that carries it: sources, Python environment, pages; nothing of its builder."""

import shutil
import sys
from pathlib import Path
from typing import Any

from deskyard.host.command import run
from deskyard.host.lock import alone
from deskyard.host.places import places, tree
from deskyard.host.progress import Timings, step
from deskyard.image.build.environment import environment
from deskyard.model.image import Image
from deskyard.plan.image.inputs import IGNORED_NAMES

SOURCES, PAGES = "tree", "pages"
PAGES_SECONDS, UNPACK_SECONDS = 1500, 300


def variables(image: Image, scratch: Path, timings: Timings) -> dict[str, Any]:
    """The variables that the image's roles are handed: a folder below `scratch`, if the image carries Deskyard."""
    if not image.carries_deskyard:
        return {}
    folder = scratch / "deskyard"
    lay_out(image, folder, timings)
    return {"image_deskyard_dir": str(folder)}


def lay_out(image: Image, folder: Path, timings: Timings) -> None:
    """Fill `folder` with sources and environment (`tree`) and the built pages (`pages`), replacing what was there."""
    archive = environment(image, timings)
    shutil.rmtree(folder, ignore_errors=True)
    with step("lay out Deskyard", timings):
        copy(image, folder / SOURCES)
        run(["tar", "-xzf", str(archive), "-C", str(folder / SOURCES)], timeout=UNPACK_SECONDS)
        with alone("image-pages"):
            # Kept, and built anew only for other sources, by Mission Control's own program of the same tree: this part
            # of Deskyard knows nothing of it.
            kept = places().cache / PAGES
            argv = [sys.executable, "-m", "deskyard.control.process.pages", str(kept)]
            run(argv, timeout=PAGES_SECONDS, cwd=tree())
            shutil.copytree(kept, folder / PAGES)


def copy(image: Image, destination: Path) -> None:
    """Copy the sources of an image, as far as its digest stands for them."""
    for name in image.sources:
        source, target = tree() / name, destination / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns(*IGNORED_NAMES))
        else:
            shutil.copy(source, target)
