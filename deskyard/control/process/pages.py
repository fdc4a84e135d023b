"""Builds the pages from web/, exactly as its lock names their packages; no install script runs.

python -m deskyard.control.process.pages FOLDER builds them beforehand, as for an image.
"""

import hashlib
import shutil
import sys
import tempfile
from pathlib import Path

from deskyard.host import command
from deskyard.host.places import places, tree
from deskyard.host.progress import say

INSTALL_SECONDS, BUILD_SECONDS = 900, 300
STAMP = ".digest"
LEFT_OUT = {"node_modules"}


def build(folder: Path) -> bool:
    """Build into a folder, unless it holds just this; false if there was nothing to do."""
    digest = _digest()
    if (folder / STAMP).exists() and (folder / STAMP).read_text() == digest:
        return False
    say("    building the pages")
    # In the user's own cache: what is built here is served to people.
    places().cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="web.", dir=places().cache) as name:
        copy, built = Path(name) / "web", Path(name) / "built"
        shutil.copytree(tree() / "web", copy, ignore=shutil.ignore_patterns(*LEFT_OUT))
        npm = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        command.run(npm, timeout=INSTALL_SECONDS, cwd=copy)
        command.run(["node", "build.js", str(built)], timeout=BUILD_SECONDS, cwd=copy)
        for old in folder.iterdir():
            old.unlink()
        for new in sorted(built.iterdir()):
            shutil.copyfile(new, folder / new.name)
    (folder / STAMP).write_text(digest)
    return True


def _digest() -> str:
    digest = hashlib.sha256()
    root = tree() / "web"
    for path in sorted(root.rglob("*")):
        inside = path.relative_to(root)
        if path.is_file() and LEFT_OUT.isdisjoint(inside.parts):
            digest.update(str(inside).encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    build(target)
