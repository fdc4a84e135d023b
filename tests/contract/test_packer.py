"""Packer accepts our templates with the variables we give, refuses them without, and leaves us a machine that fails."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from deskyard.errors import BuildError, CommandError
from deskyard.host.command import run
from deskyard.host.toolchain import locate
from deskyard.host.vm.cpu import QEMU
from deskyard.host.vm.qemu import Machine, machines_below
from deskyard.image.build.packer import PackerBuild


@pytest.fixture
def build(tmp_path: Path) -> PackerBuild:
    base = tmp_path / "base.qcow2"
    run(["qemu-img", "create", "-q", "-f", "qcow2", str(base), "1M"], timeout=30)
    return PackerBuild(base, "tcg", {"image_name": "test", "image_roles": []}, tmp_path, tmp_path)


def test_the_templates_are_valid_with_the_variables_of_a_build(build: PackerBuild) -> None:
    assert build.validate()[-1].endswith("packer")


def test_a_missing_variable_is_refused(build: PackerBuild) -> None:
    *arguments, templates = build.validate()
    without = [argument for argument in arguments if not argument.startswith("-var=base_disk=")]
    with pytest.raises(CommandError, match="base_disk"):
        run([str(locate("packer")), "validate", *without, templates], timeout=60, env={"CHECKPOINT_DISABLE": "1"})


@pytest.fixture
def failing(tmp_path: Path, build: PackerBuild, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackerBuild]:
    """A build whose machine never answers: its QEMU stands before the first instruction, Packer waits for seconds."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / QEMU).write_text(f'#!/bin/sh\nexec {shutil.which(QEMU)} -S "$@"\n')
    (programs / QEMU).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    arguments = PackerBuild._arguments
    seconds = "-var=boot_minutes=0.05"
    monkeypatch.setattr(PackerBuild, "_arguments", lambda self: [*arguments(self), "-var=memory_mib=64", seconds])
    yield build
    for machine in machines_below(tmp_path):
        machine.end()


def test_machine_of_a_failed_build_shows_its_screen_and_is_ended(failing: PackerBuild, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="SSH"):
        failing.run()
    with Image.open(tmp_path / "screen.png") as picture:
        assert picture.format == "PNG"
    assert list(machines_below(tmp_path)) == []


def test_machine_of_a_failed_build_is_kept_where_it_is_asked_for(failing: PackerBuild, tmp_path: Path) -> None:
    kept = PackerBuild(failing.base_disk, "tcg", failing.variables, tmp_path, tmp_path, keep=True)
    with pytest.raises(BuildError, match="SSH"):
        kept.run()
    assert list(machines_below(tmp_path)) == [Machine(tmp_path)]
    assert f"Port {Machine(tmp_path).ssh_port()}\n" in (tmp_path / "ssh_config").read_text()
