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


def fault_of_cyclonedx(text: str) -> Any:
    """Where a bill of materials, or what was found in one, breaks CycloneDX 1.6; None if it does not."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    return JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
