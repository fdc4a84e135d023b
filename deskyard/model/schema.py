"""JSON Schemas of what people write, for editors and for the tests that keep them up to date."""

import json
from pathlib import Path
from typing import Any

from pydantic.json_schema import models_json_schema

from deskyard.model.image import CustomImage, Image
from deskyard.model.image_base import DistributionBase
from deskyard.model.site import Site
from deskyard.model.workspace import Workspace

PREFIX = "deskyard:"


def schemas() -> dict[str, dict[str, Any]]:
    """Every schema by the name of its file."""
    return {
        "base.schema.json": _with_dialect(DistributionBase.model_json_schema()),
        "image.schema.json": _with_dialect(image_schema()),
        "site.schema.json": _with_dialect(Site.model_json_schema()),
        "stack.schema.json": _with_dialect(stack_schema()),
    }


def image_schema() -> dict[str, Any]:
    """The schema of `image.yaml`: with `from` that of a custom image, else that of one that starts from a base."""
    _, schema = models_json_schema([(Image, "validation"), (CustomImage, "validation")])
    return {
        "title": "Image",
        "type": "object",
        "if": {"required": ["from"]},
        "then": {"$ref": "#/$defs/CustomImage"},
        "else": {"$ref": "#/$defs/Image"},
        **schema,
    }


def stack_schema() -> dict[str, Any]:
    """The schema of `Pulumi.<workspace>.yaml`: the workspace's keys as Pulumi configuration of project deskyard.

    The name is the stack's and so is no key. Other keys (`encryptionsalt`, other namespaces) are Pulumi's own.
    """
    schema = Workspace.model_json_schema()
    properties = {f"{PREFIX}{name}": rule for name, rule in schema["properties"].items() if name != "name"}
    config = {
        "type": "object",
        "description": "The workspace.",
        "properties": properties,
        "required": [f"{PREFIX}{name}" for name in schema["required"] if name != "name"],
        "patternProperties": {"^(?!deskyard:)": {}},
        "additionalProperties": False,
    }
    return {
        "title": "Workspace stack",
        "type": "object",
        "properties": {"config": config},
        "required": ["config"],
        "$defs": schema["$defs"],
    }


def text(schema: dict[str, Any]) -> str:
    """A schema as it stands in its file."""
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"


def differing(folder: Path) -> dict[Path, str]:
    """The files that are not there or not as the model has them, and the text that they have to have."""
    wanted = {folder / name: text(schema) for name, schema in schemas().items()}
    return {path: given for path, given in wanted.items() if not path.exists() or path.read_text() != given}


def write(folder: Path) -> list[Path]:
    """Write every schema into `folder`; answers the files that changed."""
    changed = differing(folder)
    for path, given in changed.items():
        path.write_text(given)
    return list(changed)


def _with_dialect(schema: dict[str, Any]) -> dict[str, Any]:
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
