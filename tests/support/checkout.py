"""A copy of the tree with images of a test: images are declared in a tree, and those of this one are the product's."""

import shutil
from pathlib import Path

from deskyard.host.places import tree

LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "node_modules", "__pycache__", ".*_cache", "artifacts", "dist")


def checkout(folder: Path, images: Path) -> Path:
    """Make the copy as a new folder: the tree with what lies in `images`, and the environment of this one.

    What both have is the same image in both, digest and all.
    """
    shutil.copytree(tree(), folder, symlinks=True, ignore=LEFT_OUT)
    shutil.copytree(images, folder / "images", symlinks=True, dirs_exist_ok=True)
    (folder / ".venv").symlink_to((tree() / ".venv").resolve())
    return folder
