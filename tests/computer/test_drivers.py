"""Drivers for the vendors' computer-use tools on a real screen; the vendors' own types judge what they take and give.

Gemini's functions have no types: they are as https://ai.google.dev/gemini-api/docs/computer-use describes them.
The packages of vendors are imported where they judge: each process of a parallel run collects this file, and they take
four seconds of a processor.
"""

import asyncio
import base64
import io
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from deskyard_sdk import AsyncDesktop, Desktop, DesktopError
from deskyard_sdk.drivers import Anthropic, AsyncAnthropic, AsyncOpenAI, Gemini, OpenAI
from deskyard_sdk.drivers.toolset import async_toolset, toolset
from PIL import Image
from pydantic import TypeAdapter

from tests.computer.desktop import HEIGHT, WIDTH, Person, Recorder, Service, XServer
from tests.support.vendor_api import scripted

HALF = 512
QUICK = {"event": "screen.settled", "quiet_ms": 1, "within_ms": 3000}
# The screen was smaller when it was seen last.
FAR = {"pointer": {"x": WIDTH, "y": 5}}


@pytest.fixture
def desktop(service: Service) -> Iterator[Desktop]:
    with Desktop.connect(service.url) as desktop:
        yield desktop


def size_of(data: str) -> tuple[int, int]:
    """The size of a picture in base64."""
    return Image.open(io.BytesIO(base64.b64decode(data))).size


def place(recorder: Recorder, service: Service, x: int, y: int) -> tuple[int, int]:
    """A pixel of the recorder's window on the screen."""
    left, top, *_ = next(w["geometry"] for w in service.windows() if w["id"] == recorder.id)
    return left + x, top + y


class Claude:
    """A model of Anthropic's: its calls and our results are checked by its package's types."""

    def __init__(self, driver: Anthropic) -> None:
        self.driver = driver

    def toolset(self, name: str, **given: Any) -> list[dict[str, Any]]:
        """Call a member of the toolset; what was answered."""
        from anthropic.types.beta import BetaComputerToolUseBlock

        call = {"type": "tool_use", "id": "toolu_1", "name": name, "toolset_name": "computer", "input": given}
        TypeAdapter[Any](BetaComputerToolUseBlock).validate_python(call)
        return self.answered(call)

    def computer(self, action: str, **given: Any) -> list[dict[str, Any]]:
        """Call the one tool of before."""
        return self.answered({"id": "toolu_1", "name": "computer", "input": {"action": action, **given}})

    def answered(self, call: dict[str, Any]) -> list[dict[str, Any]]:
        """The content of the result."""
        from anthropic.types.beta import BetaToolResultBlockParam
        from anthropic.types.beta.beta_tool_result_block_param import Content

        result = self.driver.run(call)
        TypeAdapter(BetaToolResultBlockParam).validate_python(result)
        assert (result["tool_use_id"], result.get("toolset_name")) == ("toolu_1", call.get("toolset_name"))
        content: list[dict[str, Any]] = result["content"]
        TypeAdapter(list[Content]).validate_python(content)
        assert not result.get("is_error"), content
        return content


def test_claude_is_told_the_size_of_its_pictures_and_clicks_in_their_pixels(
    service: Service, desktop: Desktop, recorder: Recorder
) -> None:
    claude = Claude(Anthropic(desktop, most=HALF))
    tool = claude.driver.tool()
    assert (tool["type"], tool["display_width_px"], tool["display_height_px"]) == ("computer_20251124", 512, 384)
    (shown,) = claude.computer("screenshot")
    assert size_of(shown["source"]["data"]) == (512, 384)
    x, y = place(recorder, service, 40, 60)
    (after,) = claude.computer("left_click", coordinate=[x // 2, y // 2])
    assert after["type"] == "image"
    claude.computer("double_click", coordinate=[x // 2, y // 2], text="ctrl+shift")
    recorder.until(lambda: len(recorder.buttons()) == 3, "the clicks")
    assert all(abs(across - 40) <= 1 and abs(down - 60) <= 1 for _, across, down in recorder.buttons())
    assert [event.state & 5 for event in recorder.seen if type(event).__name__ == "ButtonPressEvent"] == [0, 5, 5]


def test_claude_does_all_that_its_toolset_has(service: Service, desktop: Desktop, recorder: Recorder) -> None:
    from anthropic.types.beta import BetaComputerMemberName

    claude = Claude(Anthropic(desktop))
    x, y = place(recorder, service, 30, 30)
    at = {"coordinate": [x, y]}
    calls: dict[str, dict[str, Any]] = {
        "screenshot": {},
        "zoom": {"region": [x, y, x + 50, y + 40]},
        "mouse_move": at,
        "cursor_position": {},
        "left_click": at,
        "right_click": {},
        "middle_click": at,
        "double_click": at,
        "triple_click": {"text": "shift"},
        "left_mouse_down": {},
        "left_mouse_up": {},
        "left_click_drag": {"start_coordinate": [x, y], "coordinate": [x + 20, y + 10]},
        "scroll": {"scroll_direction": "down", "scroll_amount": 3, **at},
        "key": {"text": "ctrl+shift+T", "repeat": 2},
        "hold_key": {"text": "shift", "duration": 0},
        "type": {"text": "Grüße"},
        "wait": {"duration": 0},
    }
    assert set(calls) == set(get_args(BetaComputerMemberName))
    answers = {name: claude.toolset(name, **given) for name, given in calls.items()}
    assert answers["cursor_position"][0]["text"] == f"X={x},Y={y}"
    assert size_of(answers["zoom"][0]["source"]["data"]) == (50, 40)
    assert answers["left_click"] == [{"type": "text", "text": "left_click: done."}]
    recorder.until(lambda: recorder.text.endswith("Grüße"), "the text")
    pressed = [button for button, *_ in recorder.buttons()]
    assert pressed == [1, 3, 2, 1, 1, 1, 1, 1, 1, 1, 5, 5, 5]


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("left_click", {"coordinate": [WIDTH, 0]}, f"0 to {WIDTH - 1}"),
        ("left_click", {"coordinate": [1]}, "2 whole numbers"),
        ("key", {"text": "ctrl+nothing"}, "is no key"),
        ("scroll", {"scroll_direction": "in", "scroll_amount": 1}, "up, down, left, right"),
        ("hold_key", {"text": "a", "duration": 101}, "0 to 100"),
        ("zoom", {"region": [5, 5, 5, 9]}, "x0 < x1"),
        ("type", {}, "is missing"),
        ("fly", {}, "is not known"),
    ],
)
def test_claude_reads_why_a_call_was_refused(desktop: Desktop, name: str, given: dict[str, Any], said: str) -> None:
    result = Anthropic(desktop).run({"id": "toolu_1", "name": name, "input": given})
    assert result["is_error"] is True
    assert said in result["content"][0]["text"]


def test_claude_waits_for_a_person(service: Service, desktop: Desktop, person: Person) -> None:
    before = service.last()
    person.tap()
    service.wait("person.took", after=before)
    result = Anthropic(desktop).run({"id": "toolu_1", "name": "type", "input": {"text": "x"}})
    assert "person.left" in result["content"][0]["text"]


def test_claude_reads_where_the_pointer_is_whoever_moved_it(
    service: Service, desktop: Desktop, recorder: Recorder, person: Person
) -> None:
    claude = Claude(Anthropic(desktop, most=HALF))
    x, y = place(recorder, service, 20, 30)
    person.pointer(x, y)
    recorder.until(lambda: recorder.moved_to(x, y), "the pointer over the window")
    # Before anything was done or seen, and while the person has the mouse.
    assert claude.toolset("cursor_position")[0]["text"] == f"X={x // 2},Y={y // 2}"
    before = service.last()
    person.tap()
    service.wait("person.took", after=before)
    asked = {"id": "toolu_1", "name": "mouse_move", "input": {"coordinate": [50, 60]}}
    assert claude.driver.run(asked)["is_error"]
    assert claude.computer("cursor_position")[0]["text"] == f"X={x // 2},Y={y // 2}"


@pytest.mark.parametrize("most", [1001, 1000, 777, 512])
def test_claude_finds_the_pointer_in_the_pixel_of_its_picture_where_it_put_it(desktop: Desktop, most: int) -> None:
    claude = Claude(Anthropic(desktop, most=most))
    claude.toolset("screenshot")
    width, height = claude.driver.tool()["display_width_px"], claude.driver.tool()["display_height_px"]
    assert width == most
    for part in range(13):
        x, y = (width - 1) * part // 12, (height - 1) * (12 - part) // 12
        claude.driver._loop.run(claude.driver._twin.do([{"type": "move", "x": x, "y": y, "space": "shot"}], QUICK))
        assert claude.toolset("cursor_position")[0]["text"] == f"X={x},Y={y}"


@pytest.mark.parametrize(
    ("pointer", "said"),
    [({}, "the service is of before"), ({"pointer": None}, "a person wants privacy"), (FAR, "is outside")],
)
def test_claude_reads_no_place_of_a_pointer_that_is_not_told_or_is_elsewhere(
    desktop: Desktop, monkeypatch: pytest.MonkeyPatch, pointer: dict[str, Any], said: str
) -> None:
    claude = Claude(Anthropic(desktop))
    claude.toolset("screenshot")
    door: Any = desktop._twin._door

    async def says(method: str, path: str) -> dict[str, Any]:
        assert (method, path) == ("GET", "/v1/drive")
        return {"driver": "agent", "stopped": False, "event": 7, **pointer}

    monkeypatch.setattr(door, "json", says)
    refused = claude.driver.run({"id": "toolu_1", "name": "cursor_position", "input": {}})
    assert refused["is_error"] and said in refused["content"][0]["text"]


def test_a_picture_that_the_service_forgot_is_taken_anew(
    service: Service, desktop: Desktop, recorder: Recorder
) -> None:
    claude = Claude(Anthropic(desktop))
    claude.toolset("screenshot")
    service.part._shots._shots.clear()
    x, y = place(recorder, service, 10, 10)
    claude.toolset("left_click", coordinate=[x, y])
    recorder.until(lambda: recorder.buttons() == [(1, 10, 10)], "the click")


def computer_call(*actions: dict[str, Any], checks: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """A call as the API sends it, checked by its package's types."""
    from openai.types.responses import ResponseComputerToolCall

    call = {"type": "computer_call", "id": "cu_1", "call_id": "call_1", "status": "completed"}
    whole = {**call, "actions": list(actions), "pending_safety_checks": checks or []}
    ResponseComputerToolCall.model_validate(whole)
    return whole


def shown_by(output: dict[str, Any]) -> str:
    """The picture of a result, which is checked by the package's types."""
    from openai.types.responses.response_input_item_param import ComputerCallOutput

    TypeAdapter(ComputerCallOutput).validate_python(output)
    assert output["call_id"] == "call_1"
    kind, _, data = output["output"]["image_url"].partition(",")
    assert kind == "data:image/png;base64"
    return str(data)


def test_openai_does_several_actions_in_one_call(service: Service, desktop: Desktop, recorder: Recorder) -> None:
    driver = OpenAI(desktop)
    assert size_of(shown_by(driver.run(computer_call({"type": "screenshot"})))) == (WIDTH, HEIGHT)
    x, y = place(recorder, service, 20, 20)
    at = {"x": x, "y": y}
    output = driver.run(
        computer_call(
            {"type": "move", **at, "keys": ["SHIFT"]},
            {"type": "click", "button": "left", **at},
            {"type": "click", "button": "wheel", **at, "keys": ["CTRL"]},
            {"type": "double_click", **at},
            {"type": "drag", "path": [at, {"x": x + 5, "y": y + 5}]},
            {"type": "scroll", "scroll_x": 0, "scroll_y": -240, **at},
            {"type": "type", "text": "a"},
            {"type": "keypress", "keys": ["SHIFT", "B"]},
            {"type": "keypress", "keys": ["ENTER"]},
            {"type": "wait"},
        )
    )
    assert size_of(shown_by(output)) == (WIDTH, HEIGHT)
    recorder.until(lambda: recorder.text == "aB\n", "the keys")
    assert [button for button, *_ in recorder.buttons()] == [1, 2, 1, 1, 1, 4, 4]


def test_openais_older_tool_has_one_action_and_a_size(service: Service, desktop: Desktop, recorder: Recorder) -> None:
    from openai.types.responses import ResponseComputerToolCall

    driver = OpenAI(desktop, most=HALF)
    tool = driver.tool("computer_use_preview")
    assert (tool["display_width"], tool["display_height"], tool["environment"]) == (512, 384, "linux")
    x, y = place(recorder, service, 20, 20)
    call = computer_call() | {"actions": None, "action": {"type": "click", "button": "right", "x": x // 2, "y": y // 2}}
    ResponseComputerToolCall.model_validate(call)
    assert size_of(shown_by(driver.run(call))) == (512, 384)
    recorder.until(lambda: [button for button, *_ in recorder.buttons()] == [3], "the click")


def test_openai_is_answered_with_the_picture_and_the_reason_of_a_refusal(desktop: Desktop) -> None:
    driver = OpenAI(desktop)
    call = computer_call({"type": "click", "button": "left", "x": WIDTH, "y": 0})
    with pytest.raises(DesktopError):
        driver.run(call)
    output, message = driver.answer(call)
    shown_by(output)
    assert f"0 to {WIDTH - 1}" in message["content"][0]["text"]
    assert driver.answer(computer_call({"type": "screenshot"}))[1:] == []


def message(*content: dict[str, Any], stop: str = "tool_use") -> dict[str, Any]:
    """An answer of Anthropic's API."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    named = {"id": "msg_1", "type": "message", "role": "assistant", "model": "any", "stop_sequence": None}
    return {**named, "content": list(content), "stop_reason": stop, "usage": usage}


def test_anthropics_own_loop_takes_the_driver(service: Service, desktop: Desktop, recorder: Recorder) -> None:
    import anthropic

    x, y = place(recorder, service, 20, 20)
    calls = {
        "left_click": {"coordinate": [x, y]},
        "type": {"text": "Grüße"},
        "cursor_position": {},
        "screenshot": {},
        "mouse_move": {"coordinate": [WIDTH, 0]},
    }
    used = [
        {"type": "tool_use", "id": f"toolu_{name}", "name": name, "toolset_name": "computer", "input": given}
        for name, given in calls.items()
    ]
    end = message({"type": "text", "text": "It is done."}, stop="end_turn")
    tools = [toolset(Anthropic(desktop), confirm=lambda context: True)]
    with scripted(message(*used), end) as (url, asked):
        client = anthropic.Anthropic(base_url=url, api_key="secret", max_retries=0)
        task: Any = [{"role": "user", "content": "Write"}]
        runner = client.beta.messages.tool_runner(max_tokens=9, model="any", messages=task, tools=tools, thread=False)
        last = runner.until_done()
    assert last.content[0].type == "text" and last.content[0].text == "It is done."
    assert asked[0]["tools"] == [{"type": "computer_toolset_20260801"}]
    results = {result["tool_use_id"]: result for result in asked[1]["messages"][-1]["content"]}
    assert results["toolu_cursor_position"]["content"][0]["text"] == f"X={x},Y={y}"
    assert size_of(results["toolu_screenshot"]["content"][0]["source"]["data"]) == (WIDTH, HEIGHT)
    assert results["toolu_mouse_move"]["is_error"] and f"0 to {WIDTH - 1}" in str(results["toolu_mouse_move"])
    recorder.until(lambda: recorder.text == "Grüße" and recorder.buttons() == [(1, 20, 20)], "what was asked for")


def member(name: str, **given: Any) -> Any:
    """A call of a member of the toolset, as the package hands it over."""
    from anthropic.types.beta import BetaToolUseBlock

    return BetaToolUseBlock(type="tool_use", id="toolu_1", toolset_name="computer", name=name, input=given)


def test_anthropics_toolset_says_a_refusal_in_the_words_of_the_desktop(desktop: Desktop) -> None:
    tools = toolset(Anthropic(desktop), confirm=lambda context: True)
    result: Any = tools.tool_result(member("left_click", coordinate=[WIDTH, 0]))
    (said,) = result["content"]
    assert result["is_error"] is True and said["text"].startswith("actions[0].x")
    assert f"0 to {WIDTH - 1}" in said["text"]


def test_anthropics_toolset_does_nothing_that_a_person_did_not_confirm(
    service: Service, desktop: Desktop, recorder: Recorder
) -> None:
    tools = toolset(Anthropic(desktop), confirm=lambda context: context.member != "type")
    refused: Any = tools.tool_result(member("type", text="never"))
    assert refused["is_error"] is True
    assert "is_error" not in tools.tool_result(member("key", text="x"))
    recorder.until(lambda: recorder.text == "x", "the key")


def test_anthropics_toolset_for_asyncio_acts_refuses_and_ends(
    service: Service, desktop: Desktop, recorder: Recorder
) -> None:
    from anthropic.tools import ToolsetClosedError

    x, y = place(recorder, service, 20, 20)

    async def used() -> list[Any]:
        async with await AsyncDesktop.connect(service.url) as twin:
            tools = async_toolset(AsyncAnthropic(twin), confirm=lambda context: True)
            calls = [
                member("left_click", coordinate=[x, y]),
                member("type", text="Grüße"),
                member("cursor_position"),
                member("screenshot"),
                member("mouse_move", coordinate=[WIDTH, 0]),
            ]
            results = [await tools.tool_result(call) for call in calls]
            await tools.close()
            with pytest.raises(ToolsetClosedError):
                await tools.tool_result(calls[0])
            return results

    clicked, typed, pointer, screen, refused = asyncio.run(used())
    assert not any(result.get("is_error") for result in (clicked, typed, pointer, screen))
    assert pointer["content"] == [{"type": "text", "text": f"X={x},Y={y}"}]
    assert size_of(screen["content"][0]["source"]["data"]) == (WIDTH, HEIGHT)
    assert refused["is_error"] is True and f"0 to {WIDTH - 1}" in refused["content"][0]["text"]
    recorder.until(lambda: recorder.text == "Grüße" and recorder.buttons() == [(1, 20, 20)], "what was asked for")


def response(output: dict[str, Any]) -> dict[str, Any]:
    """An answer of OpenAI's API."""
    named = {"id": "resp_1", "object": "response", "created_at": 1, "model": "any", "status": "completed"}
    return {**named, "parallel_tool_calls": False, "tool_choice": "auto", "tools": [], "output": [output]}


def test_openais_own_loop_takes_the_driver(service: Service, desktop: Desktop, recorder: Recorder) -> None:
    import openai
    from openai.lib.computer import ComputerToolset

    x, y = place(recorder, service, 20, 20)
    calls = computer_call({"type": "click", "button": "left", "x": x, "y": y}, {"type": "type", "text": "Grüße"})
    text = {"type": "output_text", "text": "It is done.", "annotations": []}
    end = {"type": "message", "id": "m_1", "role": "assistant", "status": "completed", "content": [text]}
    with scripted(response(calls), response(end)) as (url, asked):
        client = openai.OpenAI(base_url=url, api_key="secret", max_retries=0)
        driver: Any = OpenAI(desktop)
        said = ComputerToolset(driver).run(client, {"model": "any", "input": "Write"})
    assert said.output_text == "It is done."
    shown_by(asked[1]["input"][-1])
    recorder.until(lambda: recorder.text == "Grüße" and recorder.buttons() == [(1, 20, 20)], "what was asked for")


def test_openais_toolsets_take_the_driver_of_their_own_kind_alone(service: Service, desktop: Desktop) -> None:
    from openai.lib.computer import AsyncComputerToolset, ComputerToolset
    from openai.types.responses import ResponseComputerToolCall

    given = computer_call({"type": "screenshot"})

    async def used() -> Any:
        async with await AsyncDesktop.connect(service.url) as twin:
            driver: Any = AsyncOpenAI(twin)
            with pytest.raises(ValueError, match="flavor"):
                ComputerToolset(driver)
            return await AsyncComputerToolset(driver).execute(ResponseComputerToolCall(**given))

    shown_by(asyncio.run(used()))
    waiting: Any = OpenAI(desktop)
    with pytest.raises(ValueError, match="flavor"):
        AsyncComputerToolset(waiting)


def test_openais_toolset_ends_a_batch_at_what_the_desktop_refuses(
    service: Service, desktop: Desktop, recorder: Recorder
) -> None:
    from openai.lib.computer import ComputerToolset
    from openai.types.responses import ResponseComputerToolCall

    outside = {"type": "click", "button": "left", "x": WIDTH, "y": 0}
    call = computer_call({"type": "type", "text": "a"}, outside, {"type": "type", "text": "never"})
    driver: Any = OpenAI(desktop)
    tools = ComputerToolset(driver)
    with pytest.raises(DesktopError, match=f"0 to {WIDTH - 1}"):
        tools.execute(ResponseComputerToolCall(**call))
    # The toolset is free for the next call, and what came after the refusal was not done.
    tools.execute(ResponseComputerToolCall(**computer_call({"type": "type", "text": "b"})))
    recorder.until(lambda: recorder.text == "ab", "the text")


def test_what_a_person_must_agree_to_is_not_done_without(desktop: Desktop) -> None:
    checks = [{"id": "sc_1", "code": "malicious_instructions", "message": "look"}]
    call = computer_call({"type": "screenshot"}, checks=checks)
    for confirm in (None, lambda call: False):
        with pytest.raises(DesktopError) as refused:
            OpenAI(desktop, confirm=confirm).run(call)
        assert refused.value.field == "confirm"
    output = OpenAI(desktop, confirm=lambda asked: asked == call).run(call)
    assert output["acknowledged_safety_checks"] == checks


class Bard:
    """A model of Google's; what it answers is checked by hand."""

    def __init__(self, driver: Gemini) -> None:
        self.driver = driver

    def __call__(self, name: str, **args: Any) -> dict[str, Any]:
        answer = self.driver.run({"functionCall": {"id": "f1", "name": name, "args": args}})["functionResponse"]
        assert (answer["id"], answer["name"]) == ("f1", name)
        (part,) = answer["parts"]
        assert part["inlineData"]["mimeType"] == "image/png"
        assert size_of(part["inlineData"]["data"]) == (WIDTH, HEIGHT)
        response: dict[str, Any] = answer["response"]
        return response


def grid(x: int, y: int) -> dict[str, int]:
    """A pixel of the screen on the grid."""
    return {"x": x * 1000 // WIDTH, "y": y * 1000 // HEIGHT}


def test_gemini_clicks_on_its_grid_types_and_presses(service: Service, desktop: Desktop, recorder: Recorder) -> None:
    gemini = Bard(Gemini(desktop))
    assert gemini.driver.tool() == {"computerUse": {"environment": "ENVIRONMENT_BROWSER"}}
    x, y = place(recorder, service, 100, 100)
    assert gemini("click_at", **grid(x, y)) == {"url": ""}
    gemini("hover_at", **grid(x, y))
    gemini("type_text_at", **grid(x, y), text="Grüße")
    gemini("type_text_at", **grid(x, y), text="x", press_enter=False, clear_before_typing=False)
    gemini("key_combination", keys="Control+A")
    gemini("scroll_at", **grid(x, y), direction="down", magnitude=400)
    gemini("drag_and_drop", **grid(x, y), destination_x=grid(x + 20, 0)["x"], destination_y=grid(0, y)["y"])
    gemini("scroll_document", direction="up")
    gemini("go_back")
    gemini("navigate", url="https://example.test/")
    recorder.until(lambda: recorder.text.endswith("https://example.test/\n"), "the address")
    # The recorder writes the letters of ctrl+a and ctrl+l, too.
    assert recorder.text == "aGrüße\nxalhttps://example.test/\n"
    pressed = [button for button, *_ in recorder.buttons()]
    assert pressed == [1, 1, 1, 5, 5, 5, 1]
    assert all(abs(across - 100) <= 1 and abs(down - 100) <= 1 for _, across, down in recorder.buttons())


def test_geminis_newer_models_have_functions_of_their_own(
    service: Service, desktop: Desktop, recorder: Recorder
) -> None:
    gemini = Bard(Gemini(desktop))
    at = grid(*place(recorder, service, 100, 100))
    for name in ("click", "double_click", "triple_click", "middle_click", "right_click"):
        assert gemini(name, **at, intent="look") == {"url": ""}
    gemini("move", **at)
    gemini("mouse_down", **at)
    gemini("mouse_up", **at)
    gemini("scroll", **at, direction="down")
    gemini("scroll", **at, direction="up", magnitude_in_pixels=100)
    gemini("scroll", **at, direction="up", magnitude=200)
    gemini("drag_and_drop", start_x=at["x"], start_y=at["y"], end_x=at["x"] + 20, end_y=at["y"])
    assert gemini("take_screenshot") == {"url": ""}
    gemini("wait", seconds=0)
    gemini("type", text="Grüße")
    gemini("type", text="x", press_enter=True)
    gemini("key_down", key="shift")
    gemini("press_key", key="b")
    gemini("key_up", key="shift")
    gemini("hotkey", keys=["shift", "c"])
    gemini("press_key", key="equals")
    recorder.until(lambda: recorder.text == "Grüßex\nBC=", "the keys")
    pressed = [button for button, *_ in recorder.buttons()]
    assert pressed == [1, 1, 1, 1, 1, 1, 2, 3, 1, 5, 5, 5, 4, 4, 4, 1]
    assert all(abs(across - 100) <= 1 and abs(down - 100) <= 1 for _, across, down in recorder.buttons())


def test_gemini_reads_why_a_call_was_refused_and_sees_how_things_are(desktop: Desktop) -> None:
    gemini = Bard(Gemini(desktop))
    assert "0 to 999" in gemini("click_at", x=1000, y=0)["error"]
    assert "args.text is missing" in gemini("type_text_at", x=1, y=1)["error"]
    assert "use one of: click_at" in gemini("fly")["error"]
    assert "args.keys is empty" in gemini("hotkey", keys=[])["error"]
    assert "is no key" in gemini("key_down", key="nothing")["error"]
    assert "0 to 100" in gemini("wait", seconds=101)["error"]
    risky = {"safety_decision": {"decision": "require_confirmation", "explanation": "buys"}}
    assert "confirm" in gemini("hover_at", x=1, y=1, **risky)["error"]
    agreed = Bard(Gemini(desktop, confirm=lambda call: call["args"]["safety_decision"]["explanation"] == "buys"))
    assert agreed("hover_at", x=1, y=1, **risky) == {"url": "", "safety_acknowledgement": "true"}


def test_gemini_opens_a_browser_once(service: Service, desktop: Desktop, server: XServer) -> None:
    browser = ["env", f"DISPLAY={server.display}", "xterm", "-class", "Chromium", "-T", "a browser"]
    gemini = Bard(Gemini(desktop, browser=browser))
    for _ in range(2):
        assert gemini("open_web_browser") == {"url": ""}
        (window,) = [window for window in service.windows() if window["class"] == "Chromium"]
    before = service.last()
    desktop.windows.close(window["id"])
    service.wait("window.closed", match={"id": window["id"]}, after=before)
