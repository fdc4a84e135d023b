"""Lays out what the gateway image carries of Deskyard: its program and the built viewer."""

import shutil
import tempfile
from pathlib import Path

from deskyard.host.command import run
from deskyard.host.places import tree

# What of deskyard/ runs in a gateway: files and folders.
PROGRAM = ("__init__.py", "errors.py", "wire", "gateway")
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
    package = destination / "deskyard"
    package.mkdir(parents=True)
    for name in PROGRAM:
        source = tree() / "deskyard" / name
        if source.is_dir():
            shutil.copytree(source, package / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, package / name)
    shutil.copytree(assets, destination / "assets")
