"""The images of examples/ are sound as they stand: copied to images/ they are accepted, with all that they name."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from deskyard.model.image import CustomImage
from deskyard.model.schema import schemas
from deskyard.plan.image.image import read_image
from deskyard.plan.image.layer import layer_files
from deskyard.plan.image.lineage import read_lineage
from deskyard.plan.image.suites import suite_folders
from tests.support.json_schema import objection

TREE = Path(__file__).parents[2]
EXAMPLES = sorted((TREE / "examples/images").iterdir())


def in_a_tree(example: Path, folder: Path) -> CustomImage:
    """Copy an example to where a user copies it: beside the images of the tree."""
    for name in ("bases", "desktop"):
        shutil.copytree(TREE / "images" / name, folder / "images" / name)
    shutil.copytree(example, folder / "images" / example.name, symlinks=True)
    for part in ("ansible", "deskyard", "packer", "tests", "viewer"):
        (folder / part).symlink_to(TREE / part)
    image = read_image(folder, example.name)
    assert isinstance(image, CustomImage)
    return image


def test_there_are_examples() -> None:
    assert EXAMPLES


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
class TestExample:
    def test_schema_holds_and_is_named_for_editors(self, example: Path) -> None:
        text = (example / "image.yaml").read_text()
        schema = text.splitlines()[0].removeprefix("# yaml-language-server: $schema=")
        assert (example / schema).resolve() == TREE / "schemas/image.schema.json"
        assert objection(json.loads(json.dumps(yaml.safe_load(text))), schemas()["image.schema.json"]) == ""

    def test_copied_to_images_it_is_accepted_with_all_that_it_names(self, example: Path, tmp_path: Path) -> None:
        image = in_a_tree(example, tmp_path)
        assert image.packages
        assert image.roles
        assert layer_files(image, tmp_path)
        assert tmp_path / "images" / example.name / "tests" in suite_folders(image, tmp_path)
        assert f"images/{example.name}/image.yaml" in read_lineage(tmp_path, example.name).inputs

    def test_without_a_part_that_it_names_it_is_refused(self, example: Path, tmp_path: Path) -> None:
        (copy := tmp_path / "copy").mkdir()
        shutil.copytree(example, copy / example.name, symlinks=True)
        shutil.rmtree(copy / example.name / "roles")
        with pytest.raises(Exception, match="is a role neither of"):
            in_a_tree(copy / example.name, tmp_path)
