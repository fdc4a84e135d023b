"""Mission Control's API only grows: what clients of an earlier release were promised is neither gone nor narrower."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from deskyard.errors import ConfigError
from deskyard.host.places import tree
from deskyard.lab import api_changes

Document = dict[str, Any]
PROMISED: Document = json.loads((tree() / api_changes.PROMISED).read_text())


def test_this_tree_takes_nothing_away() -> None:
    api_changes.require(tree())


def call(document: Document, path: str, method: str = "get") -> Any:
    return document["paths"][path][method]


def form(document: Document, name: str) -> Any:
    return document["components"]["schemas"][name]


def parameter(document: Document, name: str) -> Any:
    return next(each for each in call(document, "/api/desktops")["parameters"] if each["name"] == name)


def without_a_parameter(document: Document) -> None:
    call(document, "/api/desktops")["parameters"].remove(parameter(document, "q"))


TAKEN: list[tuple[Callable[[Document], Any], str]] = [
    (lambda d: d["paths"].pop("/api/alerts"), "GET /api/alerts is gone"),
    (lambda d: d["paths"]["/api/desktops"].pop("post"), "POST /api/desktops is gone"),
    (without_a_parameter, "GET /api/desktops: the parameter q is gone"),
    (lambda d: parameter(d, "q").update(required=True), "the parameter q has to be sent now"),
    (lambda d: parameter(d, "limit")["schema"].update(maximum=100), "has maximum 100 now, and had 1000"),
    (lambda d: form(d, "Desktop")["properties"].pop("tier"), "the field tier is gone"),
    (lambda d: form(d, "Desktop")["required"].remove("tier"), "the field tier may be missing now"),
    (lambda d: form(d, "Desktop")["properties"].update(tier={"type": "integer"}), "is integer now, and was string"),
    (
        lambda d: form(d, "Desktop")["properties"].update(tier={"anyOf": [{"type": "string"}, {"type": "null"}]}),
        "is null now, and was string",
    ),
    (lambda d: form(d, "NewDesktop")["properties"].pop("image"), "the field image is not taken any more"),
    (lambda d: form(d, "NewDesktop")["required"].append("tier"), "the field tier has to be sent now"),
    (lambda d: form(d, "NewDesktop")["properties"]["tier"].update(maxLength=9), "has maxLength 9 now, and had 40"),
    (lambda d: form(d, "NewDesktop")["properties"]["tier"].update(pattern="x"), "has the pattern x now"),
    (
        lambda d: form(d, "FleetAction")["properties"]["action"].update(
            enum=["start", "pause", "resume", "freeze", "thaw", "upgrade"]
        ),
        "takes no stop, restart any more",
    ),
    (lambda d: call(d, "/api/desktops", "post")["responses"].pop("202"), "does not answer 202 any more"),
    (
        lambda d: call(d, "/api/desktops/{id}/stop", "post")["requestBody"].update(required=True),
        "a body has to be sent now",
    ),
]


@pytest.mark.parametrize(("change", "says"), TAKEN)
def test_what_is_taken_away_is_named(change: Callable[[Document], Any], says: str) -> None:
    after = copy.deepcopy(PROMISED)
    change(after)
    found = "\n".join(api_changes.taken_away(PROMISED, after))
    assert says in found


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["paths"].update({"/api/new": {"get": {"responses": {}}}}),
        lambda d: form(d, "Desktop")["properties"].update(colour={"type": "string"}),
        lambda d: form(d, "NewDesktop")["properties"].update(colour={"type": "string"}),
        lambda d: form(d, "NewDesktop")["properties"]["tier"].update(maxLength=400),
        lambda d: form(d, "FleetAction")["properties"]["action"]["enum"].append("polish"),
        lambda d: form(d, "Operation")["properties"]["state"]["enum"].append("resting"),
        lambda d: call(d, "/api/desktops")["parameters"].append({"in": "query", "name": "colour", "schema": {}}),
    ],
)
def test_what_is_added_is_nothing_taken_away(change: Callable[[Document], Any]) -> None:
    after = copy.deepcopy(PROMISED)
    change(after)
    assert after != PROMISED and api_changes.taken_away(PROMISED, after) == []


def test_what_is_taken_away_is_not_promised_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "sdk").mkdir()
    monkeypatch.setattr(api_changes, "document", lambda: copy.deepcopy(PROMISED))
    assert api_changes.write(tmp_path) and not api_changes.write(tmp_path)
    lesser = copy.deepcopy(PROMISED)
    del lesser["paths"]["/api/alerts"]
    monkeypatch.setattr(api_changes, "document", lambda: lesser)
    with pytest.raises(ConfigError, match="GET /api/alerts is gone"):
        api_changes.write(tmp_path)
    assert api_changes.promised(tmp_path) == PROMISED
