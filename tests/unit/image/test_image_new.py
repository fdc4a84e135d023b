"""A new custom image is declared so that it builds, or nothing is touched."""

import shutil
from pathlib import Path

import pytest

from deskyard.errors import ConfigError
from deskyard.host import places
from deskyard.image.build import new
from deskyard.plan.image.image import image_names, read_image
from deskyard.plan.image.layer import layer_files
from deskyard.plan.image.suites import suite_folders
from deskyard.tasks import image as tasks


@pytest.fixture(autouse=True)
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tree with a folder of images that a test may fill."""
    source = places.tree()
    for name in ("bases", "desktop", "gateway"):
        shutil.copytree(source / "images" / name, tmp_path / "images" / name)
    for part in ("ansible", "deskyard", "packer", "tests", "viewer"):
        (tmp_path / part).symlink_to(source / part)
    monkeypatch.setattr(new, "tree", lambda: tmp_path)
    return tmp_path


def test_new_image_is_accepted_with_its_file_and_its_test(tree: Path) -> None:
    folder = new.new("my-image")
    image = read_image(tree, "my-image")
    assert folder == tree / "images/my-image"
    assert [layer_file.path for layer_file in layer_files(image, tree)] == ["usr/local/share/doc/my-image/about.txt"]  # type: ignore[arg-type]
    test = suite_folders(image, tree)[-1] / "test_my_image.py"
    compile(test.read_text(), test.name, "exec")
    first = (folder / "image.yaml").read_text().splitlines()[0].removeprefix("# yaml-language-server: $schema=")
    assert (places.tree() / "images/my-image" / first).resolve() == places.tree() / "schemas/image.schema.json"


def test_new_image_may_start_from_a_custom_one(tree: Path) -> None:
    new.new("mine")
    new.new("next", "mine")
    assert read_image(tree, "next").name == "next"


@pytest.mark.parametrize(
    ("name", "parent", "reason"),
    [
        ("desktop", "desktop", "itself"),
        ("gateway", "desktop", "exists already"),
        ("My_Image", "desktop", "DNS label"),
        ("../escape", "desktop", "DNS label"),
        ("mine", "absent", "not declared"),
        ("mine", "gateway", "image of gateways"),
        ("mine", "../desktop", "DNS label"),
    ],
)
def test_wrong_request_touches_nothing(tree: Path, name: str, parent: str, reason: str) -> None:
    before = sorted(tree.rglob("*"))
    with pytest.raises(ConfigError, match=reason):
        new.new(name, parent)
    assert sorted(tree.rglob("*")) == before


def test_folder_that_is_there_is_left_as_it_is(tree: Path) -> None:
    before = image_names(tree)
    (tree / "images/mine").mkdir()
    with pytest.raises(ConfigError, match="exists already"):
        new.new("mine")
    assert list((tree / "images/mine").iterdir()) == []
    assert image_names(tree) == before


def test_task_tells_the_folder_and_the_next_command(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from invoke import Context

    tasks.new(Context(), "mine")
    assert capsys.readouterr().out == f"{tree}/images/mine/image.yaml; now ./inv image.build mine\n"
