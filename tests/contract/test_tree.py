"""What the tree never holds."""

import re
import subprocess
import tomllib
from pathlib import Path

TREE = Path(__file__).parents[2]
MAX_BYTES = 600_000
SECRETS = re.compile(rb"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----|AKIA[0-9A-Z]{16}|ghp_[A-Za-z0-9]{36}")
MACHINE_PATHS = re.compile(rb"/(?:root|home/[a-z]+)/(?:\.cache|\.local|work)|/work/(?:main|shared)")


def tracked() -> list[Path]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=TREE, capture_output=True, check=True, timeout=60).stdout
    return [path for name in listing.decode().split("\0") if name and (path := TREE / name).is_file()]


def test_no_tracked_file_is_large() -> None:
    assert [str(path) for path in tracked() if path.stat().st_size > MAX_BYTES] == []


def test_no_tracked_file_holds_a_private_key_or_token() -> None:
    files = [path for path in tracked() if path != Path(__file__)]
    assert files
    assert [str(path) for path in files if SECRETS.search(path.read_bytes())] == []


def test_no_tracked_file_names_a_path_of_one_machine() -> None:
    files = [path for path in tracked() if path != Path(__file__)]
    assert [str(path) for path in files if MACHINE_PATHS.search(path.read_bytes())] == []


def test_tree_is_no_package_to_build() -> None:
    """A wheel would lack what is no Python: it runs from its clone."""
    project = tomllib.loads((TREE / "pyproject.toml").read_text())
    assert "build-system" not in project
    assert project["tool"]["uv"]["package"] is False


def test_ansible_and_packer_are_no_python_packages() -> None:
    assert not list((TREE / "ansible").glob("**/__init__.py"))
    assert not list((TREE / "packer").glob("**/__init__.py"))
