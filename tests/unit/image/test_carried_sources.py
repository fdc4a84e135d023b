"""What an image that carries Deskyard is handed: the tree as its digest has it, and nothing of whoever builds it."""

import os
import shutil
from pathlib import Path

import pytest

from deskyard.errors import BuildError, ConfigError
from deskyard.host.progress import Timings
from deskyard.image.build import environment, sources
from deskyard.image.build.network import BuildNetwork
from deskyard.plan.image.image import base_image, check_start
from deskyard.plan.image.inputs import IGNORED_NAMES, input_files, inputs
from deskyard.plan.image.lineage import read_lineage

TREE = Path(__file__).parents[3]


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_what_is_copied_is_what_the_digest_stands_for(tmp_path: Path) -> None:
    image = base_image(TREE, "control")
    sources.copy(image, tmp_path)
    copied = files_below(tmp_path)
    roots = tuple(f"{source}/" for source in image.sources)
    counted = {str(path.relative_to(TREE)) for path in input_files(image, TREE)}
    assert {name for name in counted if name in image.sources or name.startswith(roots)} <= copied
    # A role's page is for people, and counts for no image.
    assert {name for name in copied - counted if not name.endswith("README.md")} == set()
    assert {name for name in copied if os.access(TREE / name, os.X_OK) != os.access(tmp_path / name, os.X_OK)} == set()


def test_images_have_the_same_inputs_in_the_copy(tmp_path: Path) -> None:
    sources.copy(base_image(TREE, "control"), tmp_path)
    for name in ("gateway", "desktop"):
        assert read_lineage(tmp_path, name).inputs == read_lineage(TREE, name).inputs


def test_declarations_and_clones_own_folders_stay_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = base_image(TREE, "control")
    tree = tmp_path / "tree"
    shutil.copytree(TREE, tree, ignore=shutil.ignore_patterns(*IGNORED_NAMES, ".venv"))
    for name in ("stacks/workspace/Pulumi.research.yaml", "stacks/workspace/sites/rack.yaml", "web/node_modules/x.js"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("of whoever builds it\n")
    monkeypatch.setattr(sources, "tree", lambda: tree)
    sources.copy(image, tmp_path / "copy")
    copied = {name for name in files_below(tmp_path / "copy") if name.startswith(("stacks/workspace/", "web/node"))}
    assert copied == {"stacks/workspace/Pulumi.yaml", "stacks/workspace/__main__.py"}
    assert inputs(image, tree, {}) == inputs(image, TREE, {})


def test_image_of_a_machine_of_its_own_is_no_desktops_to_start_from() -> None:
    with pytest.raises(ConfigError, match="Mission Control's machine, which is no desktop\n  -> write from: desktop"):
        check_start(base_image(TREE, "control"))
    check_start(base_image(TREE, "desktop"))


def test_other_images_are_handed_none_of_it(tmp_path: Path) -> None:
    assert sources.variables(base_image(TREE, "gateway"), tmp_path, Timings()) == {}
    assert list(tmp_path.iterdir()) == []


def test_environment_is_made_once_and_named_by_what_it_is_made_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[list[str]] = []

    def install(_: object, packages: object, target: Path, *, hooks: list[str]) -> None:
        made.append(hooks)
        (Path(hooks[-1].split()[-1])).write_text("an archive")

    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    monkeypatch.setattr(environment, "install_packages", install)
    monkeypatch.setattr(environment, "find_program", lambda name: name)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    image = base_image(TREE, "control")
    first = environment.environment(image, Timings())
    assert first.read_text() == "an archive" and environment.environment(image, Timings()) == first
    assert len(made) == 1
    monkeypatch.setattr(environment, "PACKAGES", (*environment.PACKAGES, "another"))
    assert environment.environment(image, Timings()) != first


def test_environment_needs_a_chroot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "find_program", lambda _: None)
    with pytest.raises(BuildError, match="install mmdebstrap"):
        environment.environment(base_image(TREE, "control"), Timings())


@pytest.mark.parametrize(
    ("given", "here"),
    [
        ("", ""),
        ("https://pypi.example.org/simple", "https://pypi.example.org/simple"),
        ("http://10.0.2.2:3141/simple", "http://127.0.0.1:3141/simple"),
    ],
)
def test_index_of_packages_is_reached_from_this_machine(given: str, here: str) -> None:
    assert BuildNetwork(pypi_index=given).pypi_index_here == here
