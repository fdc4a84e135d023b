"""The front door and the map: every task is documented."""

import hashlib
import os
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.support.requirements import need_programs

TREE = Path(__file__).parents[2]


def inv(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["./inv", *arguments], cwd=TREE, capture_output=True, text=True, timeout=120, check=False)


def test_the_map_shows_every_collection() -> None:
    listed = inv("-l")
    assert listed.returncode == 0, listed.stderr
    for task in (
        "demo",
        "test",
        "image.build",
        "workspace.up",
        "access.grant",
        "egress.allow",
        "toolchain.get",
        "site.show",
        "bench",
    ):
        assert f"  {task}" in listed.stdout, listed.stdout


@pytest.mark.parametrize("task", ["demo", "test", "image.build", "workspace.up", "access.grant"])
def test_a_task_explains_itself(task: str) -> None:
    shown = inv("--help", task)
    assert shown.returncode == 0
    assert "Docstring:\n  none" not in shown.stdout
    assert "Options:" in shown.stdout


def test_an_unknown_task_is_refused() -> None:
    assert inv("no.such.task").returncode != 0


def played_uv(folder: Path, version: str) -> Path:
    """A wheel that calls itself uv, and leaves a word where it was run."""
    wheel = folder / f"uv-{version}-py3-none-any.whl"
    about, script = f"uv-{version}.dist-info", f"uv-{version}.data/scripts/uv"
    contents = {
        script: '#!/bin/sh\ntouch "$(dirname "$0")/../../ran"\nexit 7\n',
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: uv\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    contents[f"{about}/RECORD"] = "".join(f"{name},,\n" for name in (*contents, f"{about}/RECORD"))
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in contents.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o100755 if name == script else 0o100644) << 16
            archive.writestr(entry, text)
    return wheel


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """The front door of a checkout without .venv, on a machine that has all system packages."""
    (tmp_path / "host").mkdir()
    (tmp_path / "host/debian.txt").touch()
    for name in ("inv", "requirements.lock"):
        shutil.copy(TREE / name, tmp_path)
    return tmp_path


def test_what_the_machine_lacks_is_named_and_nothing_else(bare: Path) -> None:
    need_programs("dpkg-query")
    (bare / "host/debian.txt").write_text("# what is needed\n\ndpkg\nno-such-package\ncoreutils\nnor-this.one+\n")
    ended = subprocess.run(
        ["./inv", "-l"], cwd=bare, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 3
    named = re.findall(r"system packages are missing:(.*)|apt-get install(.*)", ended.stderr)
    assert named == [(" no-such-package nor-this.one+", ""), ("", " no-such-package nor-this.one+")], ended.stderr


@pytest.mark.parametrize("known", [False, True])
def test_uv_with_another_hash_is_not_run(bare: Path, known: bool) -> None:
    text = (bare / "inv").read_text()
    found = re.search(r"uv==([0-9.]+)((?:\s+--hash=sha256:[0-9a-f]{64})+)'", text)
    assert found, "inv pins no hash of uv"
    wheel = played_uv(bare, found.group(1))
    if known:
        own = f" --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}'"
        (bare / "inv").write_text(text.replace(found.group(0), found.group(0)[:-1] + own))
    env = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(bare), "PIP_CONFIG_FILE": os.devnull}
    ended = subprocess.run(["./inv", "-l"], cwd=bare, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode != 0
    assert (bare / "ran").exists() == known
    assert ("DO NOT MATCH THE HASHES" in ended.stderr) == (not known), ended.stderr
    assert not (bare / ".venv/made-from.lock").exists()


def test_environment_that_others_share_by_a_link_is_not_emptied(bare: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    (shared / "bin").mkdir(parents=True)
    (shared / "made-from.lock").write_text("another lock\n")
    (bare / ".venv").symlink_to(shared)
    ended = subprocess.run(["./inv", "-l"], cwd=bare, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 3
    assert "-> remove the link" in ended.stderr
    assert (shared / "bin").is_dir()
