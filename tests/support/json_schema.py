"""JSON Schema for tests, imported late: its package loads a grammar for two seconds, in each process of a run."""

from typing import Any


def objection(value: Any, schema: dict[str, Any]) -> str:
    """The first thing that a schema has against a value; empty if it holds."""
    import jsonschema

    try:
        jsonschema.validate(value, schema)
    except jsonschema.ValidationError as error:
        return error.message or repr(error)
    return ""
