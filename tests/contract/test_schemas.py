"""Committed schemas are the model's, and every declaration in the tree satisfies its own."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from deskyard.model.schema import schemas, text
from deskyard.plan.image.image import read_image
from tests.support.json_schema import objection

TREE = Path(__file__).parents[2]
IMAGES = sorted(TREE.glob("images/*/image.yaml"))
STACKS = sorted(TREE.glob("examples/**/Pulumi.*.yaml"))


@pytest.mark.parametrize("name", schemas())
def test_the_committed_schema_is_up_to_date(name: str) -> None:
    path = TREE / "schemas" / name
    assert path.exists(), "run ./inv check.schemas --write"
    assert path.read_text() == text(schemas()[name]), "run ./inv check.schemas --write"


def test_there_are_declarations_to_check() -> None:
    assert {path.parent.name for path in IMAGES} >= {"desktop", "gateway"}
    assert len(STACKS) >= 3


@pytest.mark.parametrize("path", IMAGES + STACKS, ids=lambda path: str(path.relative_to(TREE)))
def test_a_declaration_satisfies_its_schema_and_names_it_for_editors(path: Path) -> None:
    name = "image.schema.json" if path in IMAGES else "stack.schema.json"
    first = path.read_text().splitlines()[0]
    modeline = "# yaml-language-server: $schema="
    assert first.startswith(modeline), first
    assert (path.parent / first.removeprefix(modeline)).resolve() == TREE / "schemas" / name
    assert objection(_plain(yaml.safe_load(path.read_text())), schemas()[name]) == ""


@pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.parent.name)
def test_an_image_declaration_is_named_after_its_folder(path: Path) -> None:
    assert read_image(TREE, path.parent.name).name == path.parent.name


def test_the_schema_refuses_an_unknown_key() -> None:
    stack = {"config": {"deskyard:network": "10.80.1.0/24", "deskyard:desktops": [{"name": "a"}], "deskyard:x": 1}}
    assert objection(stack, schemas()["stack.schema.json"]) != ""


@pytest.mark.parametrize(
    "change", [{"base": {}}, {"disk_gib": "large"}, {"packages": ["a b"]}, {"from": None}, {"artifacts": []}], ids=str
)
def test_schema_of_an_image_that_starts_from_another_refuses_what_the_model_refuses(change: dict[str, Any]) -> None:
    image = {"name": "mine", "version": "1.0.0", "description": "Mine.", "from": "desktop"}
    assert objection(image, schemas()["image.schema.json"]) == ""
    assert objection({**image, **change}, schemas()["image.schema.json"]) != ""


def test_schema_asks_an_image_without_another_for_its_base() -> None:
    image = {"name": "mine", "version": "1.0.0", "description": "Mine.", "disk_gib": 4, "roles": ["image_hygiene"]}
    assert "'base' is a required property" in objection(image, schemas()["image.schema.json"])


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value))
