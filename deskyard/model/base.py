"""The base of all declarations: frozen, no unknown keys, errors a person understands."""

import difflib
from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from deskyard.errors import ConfigError

# libyaml's parser, which is ten times as fast as the one in Python; PyYAML may have been built without it.
LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
DNS_LABEL = r"^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$"

DnsLabel = Annotated[
    str,
    Field(
        pattern=DNS_LABEL,
        description="A DNS label: lower-case letters, digits and hyphens, starts with a letter, at most 32.",
    ),
]


class Declaration(BaseModel):
    """Something a person writes in YAML."""

    # What was written may be a secret in a wrong place: no text of an error repeats it.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read and check a YAML file; raises `ConfigError` naming the file and the first wrong field."""
        return cls.check(load_yaml(path), path.name)

    @classmethod
    def check(cls, values: Any, source: str) -> Self:
        """Check values that came from `source`; raises `ConfigError` naming the first wrong field."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise _explain(error, source, cls) from error


def parse_yaml(text: str) -> Any:
    """Parse a YAML document; raises `yaml.YAMLError` if it is none, or a key stands twice in it."""
    loader = LOADER(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _require_each_key_once(node, set())
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _require_each_key_once(node: yaml.Node, seen: set[int]) -> None:
    """Raise for a key that stands twice in a mapping: the first would be dropped in silence."""
    # What has a name of its own is met again wherever that stands.
    if id(node) in seen or isinstance(node, yaml.ScalarNode):
        return
    seen.add(id(node))
    keys: set[tuple[str, str]] = set()
    for item in node.value:
        for part in item if isinstance(item, tuple) else (item,):
            _require_each_key_once(part, seen)
        if isinstance(item, tuple) and isinstance(item[0], yaml.ScalarNode):
            key = (item[0].tag, item[0].value)
            if key in keys:
                problem = f"the key {item[0].value!r} stands twice"
                raise yaml.constructor.ConstructorError(None, None, problem, item[0].start_mark)
            keys.add(key)


def load_yaml(path: Path) -> Any:
    """Parse a YAML file; raises `ConfigError` if it is absent or no YAML."""
    try:
        return parse_yaml(path.read_text())
    except FileNotFoundError as error:
        raise ConfigError("file", str(path), "does not exist", "create it, or check the name") from error
    except (OSError, UnicodeDecodeError) as error:
        remedy = "give a file that may be read, and save it as UTF-8"
        raise ConfigError("file", str(path), f"cannot be read ({error})", remedy) from error
    except yaml.YAMLError as error:
        line = str(error).replace("\n", " ")
        raise ConfigError("file", str(path), f"is not valid YAML: {line}", "mend the line named here") from error


def _explain(error: ValidationError, source: str, model: type[BaseModel]) -> ConfigError:
    first = error.errors()[0]
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
    field = f"{source}: {where or 'declaration'}"
    kind = first["type"]
    if kind == "extra_forbidden":
        key = str(first["loc"][-1])
        near = difflib.get_close_matches(key, _keys(model), 1)
        remedy = f"write {near[0]!r}" if near else f"remove it; known keys: {', '.join(sorted(_keys(model)))}"
        # Its value is not shown: it may be a secret that somebody believed to belong here.
        return ConfigError(field, None, "is not a known key", remedy)
    if kind == "missing":
        return ConfigError(field, None, "is required and missing", f"add {where}")
    # A field that found a secret in what was written says what may be shown of it.
    given = first.get("ctx", {}).get("shown", first["input"])
    value = given if isinstance(given, str | int | float | bool) else None
    if not _may_be_shown(first["loc"], model):
        value = None
    if kind == "string_pattern_mismatch" and first["ctx"]["pattern"] == DNS_LABEL:
        reason = "is no DNS label (lower-case letters, digits, hyphens; starts with a letter; at most 32)"
        return ConfigError(field, value, reason, "choose a name such as 'research-1'")
    reason, _, remedy = first["msg"].removeprefix("Value error, ").partition(" -> ")
    return ConfigError(field, value, reason, remedy or "correct the value")


def _may_be_shown(location: tuple[int | str, ...], model: type[BaseModel]) -> bool:
    """False for what is in a field that keeps its value back (`repr=False`)."""
    models = [model]
    for part in location:
        fields = [(name, info) for model in models for name, info in model.model_fields.items()]
        infos = [info for name, info in fields if part in (name, info.alias)]
        if not all(info.repr for info in infos):
            return False
        models = [found for info in infos for found in _models_in(info.annotation)] or models
    return True


def _keys(model: type[BaseModel], seen: frozenset[type[BaseModel]] = frozenset()) -> set[str]:
    keys = {info.alias or name for name, info in model.model_fields.items()}
    for info in model.model_fields.values():
        for part in _models_in(info.annotation):
            if part not in seen:
                keys |= _keys(part, seen | {model})
    return keys


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in getattr(annotation, "__args__", ()) for model in _models_in(part)]
