"""Lays out what the gateway image carries of Deskyard: its program and the built viewer."""

import shutil
import tempfile
from pathlib import Path

from deskyard.host.command import run
from deskyard.host.places import tree
from deskyard.image.build import program

VIEWER_FILES = ("package.json", "package-lock.json", "build.js")


def build(destination: Path) -> None:
    """Fill `destination` with the program below `deskyard` and with `assets`, replacing what was there.

    The viewer's packages come from npm exactly as locked, and none of their install scripts runs. The tree stays
    clean: everything happens in a copy.
    """
    with tempfile.TemporaryDirectory(prefix="deskyard-viewer.") as name:
        copy = Path(name)
        for file in VIEWER_FILES:
            shutil.copy(tree() / "viewer" / file, copy / file)
        shutil.copytree(tree() / "viewer/src", copy / "src")
        run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], timeout=600, cwd=copy)
        run(["node", "build.js", str(copy / "assets")], timeout=120, cwd=copy)
        _lay_out(copy / "assets", destination)


def _lay_out(assets: Path, destination: Path) -> None:
    shutil.rmtree(destination, ignore_errors=True)
    program.lay_out("gateway", destination)
    shutil.copytree(assets, destination / "assets")
