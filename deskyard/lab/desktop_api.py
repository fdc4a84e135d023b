"""The answers in the OpenAPI document of a desktop's service (`sdk/openapi.json`), as the types of its functions say.

A function of a route names the type of its answer (`Answered`), which mypy holds its code to; so the document, which is
written from these types, says nothing else than the code does. All else of the document is written by hand.
"""

import json
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    TypedDict,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from starlette.applications import Starlette
from starlette.routing import Route

from deskyard.errors import ConfigError

PLACE = "sdk/openapi.json"
REFERENCE = "#/components/schemas/"
JSON = "application/json"
REMEDY = "run ./inv check.api --write, and node sdk/js/generate.js"
SIMPLE = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
Document = dict[str, Any]
Schema = dict[str, Any]


class GatewayRefusal(TypedDict):
    """The refusal of a gateway, before the desktop hears of a request."""

    error: str
    message: str
    remedy: str


def service() -> Starlette:
    """The service with all parts but the protocol of E2B, which has a document of its own; nothing of them runs."""
    from deskyard.computer.accessibility.part import Accessibility
    from deskyard.computer.application import Part, create
    from deskyard.computer.devtools.part import Devtools
    from deskyard.computer.display.part import Display
    from deskyard.computer.launch.part import Launch
    from deskyard.computer.recording.part import Recordings
    from deskyard.computer.streaming.part import Streaming
    from deskyard.computer.work.part import Work

    display, streaming = Display(":99"), Streaming(":99")
    seen: list[Part] = [display, Accessibility(display, ""), Launch(display), Devtools(display)]
    return create([*seen, streaming, Recordings(streaming), Work()], display.privacy)


def require(tree: Path) -> None:
    """Raise `ConfigError` where the document says otherwise than the code."""
    if _text(answered(_kept(tree))) != (tree / PLACE).read_text():
        raise ConfigError("api", PLACE, "says otherwise than the types of the service's answers", REMEDY)


def write(tree: Path) -> bool:
    """Write the answers into the document; false if they stood there."""
    text = _text(answered(_kept(tree)))
    if (tree / PLACE).read_text() == text:
        return False
    (tree / PLACE).write_text(text)
    return True


def answered(document: Document) -> Document:
    """The document with the answers of the service's types."""
    found: Document = json.loads(json.dumps(document))
    schemas = _Schemas()
    types_of = _types()
    for path, item in found["paths"].items():
        for method, operation in item.items():
            if "responses" not in operation:
                continue
            type_ = types_of.get((method.upper(), path))
            content = next(r for status, r in operation["responses"].items() if status != "default").get("content", {})
            if (type_ is None) != (JSON not in content):
                reason = f"disagrees with the code on whether {method.upper()} {path} answers with JSON"
                raise ConfigError("api", PLACE, reason, f"mend the path there, then {REMEDY}")
            if type_ is not None:
                content[JSON]["schema"] = schemas.of(type_)
    refusal = found["components"]["responses"]["Refusal"]["content"][JSON]
    refusal["schema"] = schemas.of(_refusal() | GatewayRefusal)
    found["components"]["schemas"] = dict(sorted(schemas.named.items()))
    return found


def _kept(tree: Path) -> Document:
    return dict(json.loads((tree / PLACE).read_text()))


def _text(document: Document) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _refusal() -> Any:
    from deskyard.computer.answers.answered import Refusal

    return Refusal


def _types() -> dict[tuple[str, str], Any]:
    """The type of the JSON that each method and path is answered with."""
    return {
        (method, route.path): type_
        for route in service().routes
        if isinstance(route, Route)
        for type_ in _answers(route)
        for method in route.methods or ()
        if method != "HEAD"
    }


def _answers(route: Route) -> Iterator[Any]:
    from deskyard.computer.answers.answered import Answered

    said = get_type_hints(route.endpoint, include_extras=True)["return"]
    for answer in get_args(said) if get_origin(said) in (Union, types.UnionType) else (said,):
        if get_origin(answer) is Answered:
            yield get_args(answer)[0]


class _Schemas:
    """JSON Schemas of types; those with a name stand in `named`, once."""

    def __init__(self) -> None:
        self.named: dict[str, Schema] = {}
        self._types: dict[str, Any] = {}

    def of(self, type_: Any) -> Schema:
        origin, arguments = get_origin(type_), get_args(type_)
        if type_ in SIMPLE:
            return {"type": SIMPLE[type_]}
        if origin is Annotated:
            return self._reference(arguments[1].name, arguments[1], lambda: self._open(arguments[1]))
        if is_typeddict(type_):
            return self._reference(type_.__name__, type_, lambda: self._object(type_))
        if origin is list:
            return {"type": "array", "items": self.of(arguments[0])}
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin in (Union, types.UnionType):
            return self._any_of([self.of(member) for member in arguments])
        raise ConfigError("api", str(type_), "is no type of an answer", "use objects, lists, texts, numbers and flags")

    def _reference(self, name: str, type_: Any, schema: Any) -> Schema:
        if self._types.setdefault(name, type_) is not type_:
            raise ConfigError("api", name, "is the name of two types of answers", "give one another name")
        if name not in self.named:
            self.named[name] = {}  # it may hold itself
            self.named[name] = schema()
        return {"$ref": f"{REFERENCE}{name}"}

    def _object(self, type_: Any) -> Schema:
        hints = get_type_hints(type_, include_extras=True)
        # Read by hand: an inherited field's `NotRequired` is in the hints.
        fields = {name: self.of(_bare(hint)) for name, hint in hints.items()}
        needed = [name for name in hints if name in type_.__required_keys__]
        about = {"description": " ".join(type_.__doc__.split())} if type_.__doc__ else {}
        return {"type": "object", **about, "required": needed, "properties": fields}

    def _open(self, marker: Any) -> Schema:
        fields: Mapping[str, Any] = marker.fields
        return {
            "type": "object",
            "description": marker.about,
            "required": list(fields),
            "properties": {name: self.of(type_) for name, type_ in fields.items()},
            "additionalProperties": True,
        }

    @staticmethod
    def _any_of(schemas: list[Schema]) -> Schema:
        if all(set(schema) == {"type"} for schema in schemas):
            return {"type": [schema["type"] for schema in schemas]}
        return {"anyOf": schemas}


def _bare(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) in (NotRequired, Required) else hint
