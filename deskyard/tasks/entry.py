"""The two commands of the README: see it, and see it tested."""

import os

from invoke import Collection, Context

from deskyard import toolchain
from deskyard.run.host import require_programs
from deskyard.run.image_build import build
from deskyard.run.progress import Timings, say, step
from deskyard.tasks.check import pytest
from deskyard.tasks.front import command

IMAGES = ("gateway", "desktop")


def prepare(timings: Timings) -> None:
    """Programs, toolchain and images: what every workspace needs."""
    with step("prepare this machine", timings):
        require_programs()
    with step("toolchain", timings):
        for name in toolchain.TOOLS:
            toolchain.get(name)
    for image in IMAGES:
        with step(f"image {image}", timings):
            build(image)


@command(
    help={
        "fast": "leave out what needs a virtual machine",
        "yes": "install missing system packages without asking",
        "match": "run only tests that match this pytest expression",
    }
)
def test(_: Context, fast: bool = False, yes: bool = False, match: str = "") -> None:
    """Run everything CI runs: linters, unit and contract tests, images, two workspaces end to end."""
    chosen = ["-k", match] if match else []
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    pytest(*chosen)
    if fast:
        return
    prepare(Timings())
    say("==> tests on virtual machines")
    pytest("-m", "vm", "tests", *chosen)


def add_to(collection: Collection) -> None:
    """Put the two commands at the root: ./inv demo, ./inv test."""
    collection.add_task(test)
