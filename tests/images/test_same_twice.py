"""Builds an image twice, with the real Packer, and compares every file on both disks."""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deskyard.host.places import tree

pytestmark = [pytest.mark.vm, pytest.mark.deep]
IMAGE = "desktop"
BUILD_SECONDS, READ_SECONDS = 3 * 3600, 1800


def inv(*arguments: str, data: Path, timeout: float) -> str:
    """What a task prints, with a folder of its own for images."""
    env = {**os.environ, "XDG_DATA_HOME": str(data)}
    env.pop("DESKYARD_HOME", None)
    done = subprocess.run(
        ["./inv", *arguments], cwd=tree(), env=env, capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-8000:]}"
    return done.stdout


def build(data: Path) -> Path:
    """The folder of the image, built from the base disk that both share."""
    return Path(inv("image.build", IMAGE, data=data, timeout=BUILD_SECONDS).splitlines()[-1]).parent


@pytest.fixture
def data() -> Iterator[Path]:
    """A folder for both; pytest's own are so deep that ssh would greet the guest for each command anew."""
    with tempfile.TemporaryDirectory(prefix="twice-") as folder:
        yield Path(folder)


def test_two_builds_from_one_base_have_the_same_files_to_the_byte(data: Path) -> None:
    # Both at once: a build that another one's presence changes would show as well.
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(build, [data / "first", data / "second"])
    output = inv("image.diff", str(first), str(second), "--files", "--json", data=data, timeout=READ_SECONDS)
    difference = json.loads(output)
    assert difference["files"] == [], difference["files"][:40]
    assert difference["packages"] == {"added": {}, "removed": {}, "changed": {}}
    assert difference["inputs"] == []
