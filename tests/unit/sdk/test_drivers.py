"""The drivers of models held against their vendors' own types: each action that these know is done, no other is."""

import asyncio
from collections.abc import Mapping
from typing import Any, get_args

import pytest
from anthropic.types.beta import BetaComputerMemberName
from deskyard_sdk import AsyncDesktop, DesktopError
from deskyard_sdk.drivers import AsyncAnthropic, AsyncGemini, AsyncOpenAI
from deskyard_sdk.drivers import anthropic as of_anthropic
from deskyard_sdk.drivers import openai as of_openai
from openai.types.responses.computer_action import ComputerAction

from deskyard.computer.display.acting.actions import read
from deskyard.computer.fields import Fields
from tests.support.answers_described import DOCUMENT
from tests.unit.sdk.asked import NotingDoor, objections

# The union of OpenAI's package stands in an annotation, beside the field that tells its members apart.
ACTIONS: Mapping[str, Any] = {
    get_args(kind.model_fields["type"].annotation)[0]: kind for kind in get_args(get_args(ComputerAction)[0])
}
SAMPLES = {
    "button": "left", "keys": ["CTRL"], "path": [{"x": 1, "y": 2}, {"x": 3, "y": 4}], "scroll_x": 0, "scroll_y": 240,
    "text": "x", "x": 1, "y": 2,
}  # fmt: skip


def acted(driver: Any, call: Mapping[str, Any]) -> tuple[Any, list[dict[str, Any]]]:
    """What a driver answers to a call, and the actions that it asked for, which the service reads."""

    async def use() -> tuple[Any, list[dict[str, Any]]]:
        door = NotingDoor()
        answer = await driver(AsyncDesktop(door)).run(call)
        await door.close()
        assert [found for request in door.asked for found in objections(request, DOCUMENT)] == []
        return answer, [action for request in door.asked if request.name == "act" for action in request.body["actions"]]

    answer, actions = asyncio.run(use())
    for action in actions:
        read(Fields({"actions": [action]}), lambda inner: [inner.take(name, None) for name in ("event", "within_ms")])
    return answer, actions


def test_openais_driver_knows_the_actions_and_buttons_of_its_package() -> None:
    assert set(of_openai.READ) == set(ACTIONS)
    assert set(of_openai.BUTTONS) == set(get_args(ACTIONS["click"].model_fields["button"].annotation))


@pytest.mark.parametrize("type", ACTIONS)
def test_an_action_of_openai_is_done_with_each_of_its_fields(type: str) -> None:
    action = {"type": type} | {name: SAMPLES[name] for name in set(ACTIONS[type].model_fields) - {"type"}}
    ACTIONS[type].model_validate(action)
    _, done = acted(AsyncOpenAI, {"call_id": "c", "actions": [action]})
    assert bool(done) == (type != "screenshot")
    if "keys" in action:
        assert "ctrl" in str(done).lower(), "keys that are held are kept"


@pytest.mark.parametrize("button", of_openai.BUTTONS)
def test_a_button_of_openai_is_one_of_the_services(button: str) -> None:
    _, (click,) = acted(AsyncOpenAI, {"call_id": "c", "actions": [{"type": "click", "x": 1, "y": 2, "button": button}]})
    assert click["button"] == of_openai.BUTTONS[button]


def test_anthropics_driver_knows_the_members_of_its_package() -> None:
    # It takes pictures and tells the pointer without an action.
    assert {*of_anthropic.READ, "screenshot", "zoom", "cursor_position"} == set(get_args(BetaComputerMemberName))


# The functions that agent.py of google-gemini/computer-use-preview calls at 005c5379, with what it reads of each; the
# package google-genai (3.6.1) has no list of them.
FUNCTIONS: Mapping[str, Mapping[str, Any]] = {
    "open_web_browser": {},
    "click_at": {"x": 1, "y": 999},
    "hover_at": {"x": 0, "y": 0},
    "type_text_at": {"x": 1, "y": 2, "text": "x", "press_enter": True, "clear_before_typing": False},
    "scroll_document": {"direction": "down"},
    "scroll_at": {"x": 1, "y": 2, "direction": "left", "magnitude": 800},
    "wait_5_seconds": {},
    "go_back": {},
    "go_forward": {},
    "search": {},
    "navigate": {"url": "https://example.org"},
    "key_combination": {"keys": "control+c"},
    "drag_and_drop": {"x": 1, "y": 2, "destination_x": 998, "destination_y": 999},
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_gemini_is_done_on_its_grid(name: str) -> None:
    answer, done = acted(AsyncGemini, {"functionCall": {"name": name, "args": dict(FUNCTIONS[name])}})
    assert "error" not in answer["functionResponse"]["response"]
    assert {action["space"] for action in done if "x" in action} <= {"norm1000"}
    assert done or name == "open_web_browser"


def test_what_no_vendor_knows_is_refused_with_what_is_known() -> None:
    with pytest.raises(DesktopError) as refused:
        acted(AsyncOpenAI, {"call_id": "c", "actions": [{"type": "fly"}]})
    assert (refused.value.field, refused.value.value) == ("actions[0].type", "fly")
    assert all(name in refused.value.remedy for name in ACTIONS)
    answer, done = acted(AsyncAnthropic, {"id": "t", "name": "fly", "toolset_name": "computer", "input": {}})
    assert answer["is_error"] and "left_click" in str(answer["content"]) and done == []
    answer, done = acted(AsyncGemini, {"functionCall": {"name": "fly", "args": {}}})
    assert "click_at" in answer["functionResponse"]["response"]["error"] and done == []
