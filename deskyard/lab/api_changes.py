"""Says what an OpenAPI document takes away from those who were written for an earlier one: calls, fields, values."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deskyard.errors import ConfigError

# What clients of Mission Control were promised: the document of the last release, and what was added since and written.
PROMISED = "sdk/mission.json"
METHODS = ("get", "put", "post", "delete", "patch")
# A bound, and whether a greater number takes more.
BOUNDS = {
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems"), True),
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems"), False),
}
Schema = Mapping[str, Any]


def document() -> dict[str, Any]:
    """The OpenAPI document that this tree's Mission Control answers as /api/openapi.json."""
    from deskyard.control.web.application import create
    from deskyard.control.web.pages import Pages

    return create("", "https://mission.localhost", Pages()).openapi()


def promised(tree: Path) -> dict[str, Any]:
    """The document that is kept."""
    return dict(json.loads((tree / PROMISED).read_text()))


def require(tree: Path) -> None:
    """Raise `ConfigError` if the tree takes away what was promised."""
    for line in taken_away(promised(tree), document()):
        remedy = f"add beside it instead; what was never released may go from {PROMISED} by hand"
        raise ConfigError("api", PROMISED, f"promises what is taken away: {line}", remedy)


def write(tree: Path) -> bool:
    """Promise what was added; false if there was nothing. Raises `ConfigError` as `require` does."""
    if (tree / PROMISED).exists():
        require(tree)
    text = json.dumps(document(), indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    if (tree / PROMISED).exists() and (tree / PROMISED).read_text() == text:
        return False
    (tree / PROMISED).write_text(text)
    return True


def taken_away(before: Schema, after: Schema) -> list[str]:
    """The losses of a client of `before` in `after`, a line each; additions are none."""
    return list(_Comparison(before, after).calls())


@dataclass(frozen=True)
class _Comparison:
    """Two documents, whose schemas are followed by their names."""

    before: Schema
    after: Schema

    def calls(self) -> Iterator[str]:
        """The parts that are gone or narrower, call by call."""
        for path, methods in self.before["paths"].items():
            for method in METHODS:
                if method in methods:
                    call = self.after["paths"].get(path, {}).get(method)
                    place = f"{method.upper()} {path}"
                    yield from [f"{place} is gone"] if call is None else self._call(place, methods[method], call)

    def _call(self, place: str, old: Schema, new: Schema) -> Iterator[str]:
        yield from self._parameters(place, old, new)
        yield from self._body(place, old.get("requestBody") or {}, new.get("requestBody") or {})
        for status, answer in old["responses"].items():
            if status not in new["responses"]:
                yield f"{place} does not answer {status} any more"
                continue
            for kind, content in (answer.get("content") or {}).items():
                there = (new["responses"][status].get("content") or {}).get(kind)
                if there is None:
                    yield f"{place} does not answer {status} with {kind} any more"
                else:
                    yield from self._answered(f"{place} {status}", content.get("schema", {}), there.get("schema", {}))

    def _parameters(self, place: str, old: Schema, new: Schema) -> Iterator[str]:
        known = {(each["in"], each["name"]): each for each in old.get("parameters", [])}
        there = {(each["in"], each["name"]): each for each in new.get("parameters", [])}
        for key, each in known.items():
            if key not in there:
                yield f"{place}: the parameter {key[1]} is gone"
            else:
                yield from self._taken(f"{place} {key[1]}", each.get("schema", {}), there[key].get("schema", {}))
        for key, each in there.items():
            if each.get("required") and not known.get(key, {}).get("required"):
                yield f"{place}: the parameter {key[1]} has to be sent now"

    def _body(self, place: str, old: Schema, new: Schema) -> Iterator[str]:
        if new.get("required") and not old.get("required"):
            yield f"{place}: a body has to be sent now"
        for kind, content in (old.get("content") or {}).items():
            there = (new.get("content") or {}).get(kind)
            if there is None:
                yield f"{place}: no body of {kind} is taken any more"
            else:
                yield from self._taken(f"{place} body", content.get("schema", {}), there.get("schema", {}))

    def _taken(self, place: str, old: Schema, new: Schema, seen: frozenset[tuple[str, str]] = frozenset()) -> list[str]:
        """The parts of `old` that `new` does not take."""
        pair = (str(old.get("$ref")), str(new.get("$ref")))
        if "$ref" in old and pair in seen:
            return []
        seen |= {pair}
        old, new = self._followed(self.before, old), self._followed(self.after, new)
        for choice in _choices(old) if _choices(old) != [old] else []:
            if wrong := self._taken(place, choice, new, seen):
                return wrong
        if _choices(old) != [old]:
            return []
        if _choices(new) != [new]:
            return min((self._taken(place, old, choice, seen) for choice in _choices(new)), key=len)
        return [f"{place}: {line}" for line in _narrower(old, new)] + self._fields_taken(place, old, new, seen)

    def _fields_taken(self, place: str, old: Schema, new: Schema, seen: frozenset[tuple[str, str]]) -> list[str]:
        wrong = [
            f"{place}: the field {name} has to be sent now"
            for name in new.get("required", [])
            if name not in old.get("required", [])
        ]
        fields = new.get("properties", {})
        for name, field in old.get("properties", {}).items():
            if name in fields:
                wrong += self._taken(f"{place}.{name}", field, fields[name], seen)
            elif new.get("additionalProperties") is False:
                wrong.append(f"{place}: the field {name} is not taken any more")
        if "items" in old and "items" in new:
            wrong += self._taken(f"{place}[]", old["items"], new["items"], seen)
        return wrong

    def _answered(
        self, place: str, old: Schema, new: Schema, seen: frozenset[tuple[str, str]] = frozenset()
    ) -> list[str]:
        """The parts of `old` that an answer of `new` lacks, or has otherwise; fields and values may be added."""
        pair = (str(old.get("$ref")), str(new.get("$ref")))
        if "$ref" in old and pair in seen:
            return []
        seen |= {pair}
        old, new = self._followed(self.before, old), self._followed(self.after, new)
        if _choices(new) != [new] or _choices(old) != [old]:
            wrong: list[str] = []
            for choice in _choices(new):
                nearest = min((self._answered(place, known, choice, seen) for known in _choices(old)), key=len)
                wrong += nearest
            return wrong
        if _types(old) and not _types(new) <= _types(old):
            return [f"{place}: is {_names(new)} now, and was {_names(old)}"]
        wrong = []
        for name, field in old.get("properties", {}).items():
            if name not in new.get("properties", {}):
                wrong.append(f"{place}: the field {name} is gone")
            elif name in old.get("required", []) and name not in new.get("required", []):
                wrong.append(f"{place}: the field {name} may be missing now")
            else:
                wrong += self._answered(f"{place}.{name}", field, new["properties"][name], seen)
        if "items" in old:
            wrong += self._answered(f"{place}[]", old["items"], new.get("items", {}), seen)
        return wrong

    @staticmethod
    def _followed(document: Schema, schema: Schema) -> Schema:
        while "$ref" in schema:
            found: Any = document
            for part in str(schema["$ref"]).removeprefix("#/").split("/"):
                found = found[part]
            schema = found
        return schema


def _choices(schema: Schema) -> list[Schema]:
    return list(schema.get("anyOf") or schema.get("oneOf") or [schema])


def _types(schema: Schema) -> set[str]:
    found = schema.get("type", [])
    return {found} if isinstance(found, str) else set(found)


def _names(schema: Schema) -> str:
    return " or ".join(sorted(_types(schema))) or "anything"


def _narrower(old: Schema, new: Schema) -> Iterator[str]:
    wider = _types(new) | ({"integer"} if "number" in _types(new) else set())
    if wider and not (_types(old) and _types(old) <= wider):
        yield f"takes {_names(new)} now, and took {_names(old)}"
    allowed, before = _values(new), _values(old)
    if allowed is not None and (before is None or (lost := [value for value in before if value not in allowed])):
        yield f"takes no {', '.join(map(str, lost)) if before is not None else 'other value'} any more"
    for bound, greater in BOUNDS.items():
        limit, was = new.get(bound), old.get(bound)
        if limit is not None and (was is None or (limit < was if greater else limit > was)):
            yield f"has {bound} {limit} now, and had {'none' if was is None else was}"
    for rule in ("pattern", "format"):
        if new.get(rule) not in (None, old.get(rule)):
            yield f"has the {rule} {new[rule]} now, and had {old.get(rule, 'none')}"


def _values(schema: Schema) -> list[Any] | None:
    return [schema["const"]] if "const" in schema else schema.get("enum")
