"""Measures what users wait for, as ratios against the bare boot of the same disk in the same run."""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deskyard.declaration import declaration
from deskyard.host.places import tree
from deskyard.host.progress import step
from deskyard.host.vm.accelerator import accelerator
from deskyard.host.vm.guest_boot import boot_guest
from deskyard.image.build.build import build
from deskyard.image.store.store import require
from deskyard.plan.account import MANAGER
from deskyard.plan.workspace import IMAGES
from deskyard.site.files import STACKS_VARIABLE
from deskyard.workspace import workspace
from deskyard.workspace.demo import EXAMPLE

NAME = "bench"
# The example, moved to where it is in nobody's way.
MOVED = {"10.80.1.0/24": "10.80.251.0/24", "8443": "18451"}


@dataclass(frozen=True)
class Figure:
    """A measured wait, in seconds; `ratio` is against the bare boot of the desktop's disk until SSH answers."""

    name: str
    seconds: float
    ratio: float


def measure(clean: bool = False) -> list[Figure]:
    """Measure everything; with `clean` the images are built anew, else that figure is the one of their manifest."""
    bare = bare_boot()
    waits = {"bare boot of the desktop's disk -> SSH": bare}
    for image in IMAGES:
        waits[f"image {image}: clean build"] = _clean_build(image, clean)
        waits[f"image {image}: nothing changed"] = _seconds(lambda image=image: build(image))  # type: ignore[misc]
    with own_stacks((tree() / EXAMPLE).read_text()):
        waits |= _workspace()
    return [Figure(name, round(seconds, 2), round(seconds / bare, 3)) for name, seconds in waits.items()]


def bare_boot() -> float:
    """Boot the desktop's disk alone, until SSH answers: what every other wait is held against."""
    with (
        step("bare boot"),
        tempfile.TemporaryDirectory(prefix="deskyard-bench-") as folder,
        boot_guest(require("desktop").disk, Path(folder), accelerator=accelerator("auto"), user=MANAGER) as guest,
    ):
        return guest.boot_seconds


def _clean_build(image: str, clean: bool) -> float:
    if clean:
        return _seconds(lambda: build(image, force=True))
    return float(sum(require(image).manifest["seconds"].values()))


def _workspace() -> dict[str, float]:
    waits: dict[str, float] = {}
    started = time.monotonic()

    def note(desktop: str, route: str) -> None:
        waits.setdefault(f"workspace.up -> {desktop}/{route} answers", time.monotonic() - started)

    try:
        workspace.up(NAME, on_route=note)
        waits["workspace.up -> all ready"] = time.monotonic() - started
        waits["workspace.preview, nothing to do"] = _seconds(lambda: workspace.preview(NAME))
        waits["workspace.up, nothing to do"] = _seconds(lambda: workspace.up(NAME))
    finally:
        waits["workspace.destroy"] = _seconds(lambda: workspace.destroy(NAME))
    return waits


@contextmanager
def own_stacks(example: str) -> Iterator[None]:
    """A stacks folder and a Pulumi backend of the benchmark's own, with one workspace that is declared so."""
    kept = {name: os.environ.get(name) for name in (STACKS_VARIABLE, "PULUMI_BACKEND_URL")}
    folder = tempfile.mkdtemp(prefix="deskyard-bench-")
    os.environ[STACKS_VARIABLE] = folder
    os.environ["PULUMI_BACKEND_URL"] = f"file://{folder}"
    for old, new in MOVED.items():
        example = example.replace(old, new)
    declaration.stack_file(NAME).write_text(example)
    try:
        yield
    finally:
        for name, value in kept.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value
        shutil.rmtree(folder, ignore_errors=True)


def _seconds(work: Callable[[], Any]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started
