"""Lays out what of Deskyard itself an image carries: the gateway's program, or a desktop's computer-use service."""

import shutil
from pathlib import Path

from deskyard.host.places import tree

# What of deskyard/ runs in a machine: files and folders.
PROGRAMS = {
    "gateway": ("__init__.py", "errors.py", "wire", "gateway"),
    "computer": ("__init__.py", "errors.py", "wire", "computer"),
}


def lay_out(program: str, destination: Path) -> None:
    """Fill the folder `deskyard` below `destination`, replacing what was there."""
    package = destination / "deskyard"
    shutil.rmtree(package, ignore_errors=True)
    package.mkdir(parents=True)
    for name in PROGRAMS[program]:
        source = tree() / "deskyard" / name
        if source.is_dir():
            shutil.copytree(source, package / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, package / name)
