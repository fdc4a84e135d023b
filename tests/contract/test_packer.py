"""Packer accepts our templates with the variables we give, and refuses them without."""

from pathlib import Path

import pytest

from deskyard.errors import CommandError
from deskyard.run.command import run
from deskyard.run.packer import PackerBuild
from deskyard.toolchain import locate


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
