"""Builds a program from the Go modules that a folder of this tree names."""

import shutil
from pathlib import Path

from deskyard.host.command import run
from deskyard.host.places import tree
from deskyard.host.progress import say
from deskyard.host.toolchain.tool import GoModule

BUILD_SECONDS = 2400
# Hundreds of lines of downloads and packages would bury everything else: one line for so many.
LINES_A_SAY = 200


def build(module: GoModule, version: str, target: Path) -> None:
    """Build `target` outside the tree: go writes into the module folder it builds from."""
    workshop = target.parent.with_name(target.parent.name + ".building")
    shutil.rmtree(workshop, ignore_errors=True)
    shutil.copytree(tree() / module.folder, workshop)
    options = ["-v", "-mod=mod", "-trimpath", "-ldflags", f"-s -w -X {module.version_variable}=v{version}"]
    try:
        if module.generator:
            _go(["run", *options, *module.generator], workshop)
        _go(["build", *options, "-o", target.name, module.package], workshop)
        target.parent.mkdir(parents=True, exist_ok=True)
        (workshop / target.name).replace(target)
    finally:
        shutil.rmtree(workshop, ignore_errors=True)


def _go(argv: list[str], folder: Path) -> None:
    run(["go", *argv], cwd=folder, timeout=BUILD_SECONDS, on_line=_Progress())


class _Progress:
    """Counts what go says of its work; what else it said is in the error if it fails."""

    def __init__(self) -> None:
        self._downloads = self._packages = 0

    def __call__(self, line: str) -> None:
        if line.startswith("go: downloading"):
            self._downloads += 1
            if self._downloads % LINES_A_SAY == 0:
                say(f"    {self._downloads} modules downloaded")
        elif line and " " not in line:
            self._packages += 1
            if self._packages % LINES_A_SAY == 0:
                say(f"    {self._packages} packages compiled")
