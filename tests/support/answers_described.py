"""A desktop's answers, held against the OpenAPI document of its service: nothing may be missing, and nothing be said
that the document does not have."""

import copy
import json
import re
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import jsonschema_rs

DOCUMENT: dict[str, Any] = json.loads((Path(__file__).resolve().parents[2] / "sdk/openapi.json").read_text())
JSON = "application/json"


class Described:
    """An OpenAPI document, by which answers are judged."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self.seen: set[str] = set()  # operations with an answer that is no refusal

    @cached_property
    def _paths(self) -> list[tuple[re.Pattern[str], dict[str, Any]]]:
        # What stands there as it is goes before what has a part of any name.
        paths = sorted(self._document["paths"].items(), key=lambda path: ("{" in path[0], path[0]))
        return [(re.compile(re.sub(r"{\w+}", "[^/]+", path)), item) for path, item in paths]

    def operation(self, method: str, path: str) -> dict[str, Any] | None:
        """The operation of a request; None for one that the document does not have."""
        for pattern, item in self._paths:
            if pattern.fullmatch(path) and method.lower() in item:
                return dict(item[method.lower()])
        return None

    def objection(self, method: str, path: str, status: int, media_type: str, body: bytes) -> str:
        """The first thing in which an answer is not as it is described; empty if it is."""
        operation = self.operation(method, path)
        if operation is None:
            return ""
        responses = operation["responses"]
        response = responses.get(str(status)) or (responses["default"] if status >= 400 else None)
        if response is None:
            return f"{operation['operationId']}: {status} is not described"
        if "$ref" in response:
            response = self._document["components"]["responses"][response["$ref"].rpartition("/")[2]]
        content = response.get("content", {})
        if status < 400 and not media_type and not content:
            self.seen.add(operation["operationId"])
            return ""
        if media_type not in content:
            return f"{operation['operationId']}: {media_type} is not described for {status}"
        if status < 400:
            self.seen.add(operation["operationId"])
        if media_type != JSON:
            return ""
        try:
            self._validator(json.dumps(content[JSON]["schema"])).validate(json.loads(body))
        except jsonschema_rs.ValidationError as error:
            return f"{operation['operationId']}: {error.message}"
        return ""

    @cache  # noqa: B019  # there is one for a run
    def _validator(self, schema: str) -> Any:
        return jsonschema_rs.validator_for({**json.loads(schema), "components": {"schemas": self._closed}})

    @cached_property
    def _closed(self) -> dict[str, Any]:
        """The schemas that say no to what they do not name."""
        schemas: dict[str, Any] = copy.deepcopy(self._document["components"]["schemas"])
        for schema in schemas.values():
            schema.setdefault("additionalProperties", False)
        return schemas
