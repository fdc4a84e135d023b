"""The demo's workspace: `demo` with one desktop, from nothing."""

import shutil
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from deskyard.declaration import declaration
from deskyard.host import toolchain
from deskyard.host.at_once import together
from deskyard.host.facts import require_programs
from deskyard.host.places import tree
from deskyard.host.progress import Timings, say, step
from deskyard.image.build.build import build
from deskyard.plan.workspace import IMAGES
from deskyard.workspace import workspace

NAME = "demo"
EXAMPLE = Path("examples/one-desktop/Pulumi.demo.yaml")


def equip(timings: Timings, tools: Iterable[str] = toolchain.BASIC) -> None:
    """Programs and toolchain: what builds need, or what tests need beside it."""
    with step("machine", timings):
        require_programs()
    with step("toolchain", timings):
        for name in tools:
            toolchain.get(name)


def build_images(timings: Timings) -> None:
    """The images every workspace needs; an emulated build keeps one processor busy, so they are made at once."""
    together({f"image {image}": partial(build, image) for image in IMAGES}, timings)


def bring_up(timings: Timings) -> dict[str, Any]:
    """Prepare everything and bring the workspace up; its state. What is there already is left as it is."""
    equip(timings)
    build_images(timings)
    declare()
    with step("workspace", timings):
        return workspace.up(NAME)


def declare() -> Path:
    """Declare the workspace as the example does, unless the user has a declaration of that name."""
    path = declaration.stack_file(NAME)
    if not path.exists():
        shutil.copyfile(tree() / EXAMPLE, path)
        say(f"    declared in {path}")
    return path
