"""OpenAI's driver as a computer of the package `openai-agents`, on a real screen.

The package is not in the lock: its two classes are a stand-in's here. With the package itself, the newest, its own
`Runner` does a task on the desktop (`./inv check.deep`).
"""

import asyncio
import base64
import io
import os
import subprocess
import sys
import venv
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from deskyard_sdk import AsyncDesktop, Desktop, DesktopError
from deskyard_sdk.drivers import AsyncOpenAI, OpenAI
from deskyard_sdk.drivers.agents import async_computer, computer, consent
from PIL import Image

from tests.computer.desktop import HEIGHT, WIDTH, Recorder, Service
from tests.support.openai_agents import package
from tests.support.vendor_api import scripted

TREE = Path(__file__).resolve().parents[2]
EXAMPLE = TREE / "examples/agent/openai_agents.py"
HALF = 512


@pytest.fixture
def agents(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The package where there is one, or else its stand-in in that place."""
    if not find_spec("agents"):
        monkeypatch.setitem(sys.modules, "agents", package())
    return import_module("agents")


def size_of(shown: str) -> tuple[int, int]:
    """The size of a PNG in base64."""
    picture = Image.open(io.BytesIO(base64.b64decode(shown)))
    assert picture.format == "PNG"
    return picture.size


def place(recorder: Recorder, service: Service, x: int, y: int) -> tuple[int, int]:
    """A pixel of the recorder's window on the screen."""
    left, top, *_ = next(w["geometry"] for w in service.windows() if w["id"] == recorder.id)
    return left + x, top + y


def test_a_computer_does_all_that_a_runner_calls(service: Service, recorder: Recorder, agents: Any) -> None:
    with Desktop.connect(service.url) as desktop:
        made: Any = computer(OpenAI(desktop, most=HALF))
        assert isinstance(made, agents.Computer)
        assert (made.environment, made.dimensions) == ("ubuntu", (512, 384))
        assert size_of(made.screenshot()) == (512, 384)
        x, y = (part // 2 for part in place(recorder, service, 40, 60))
        made.move(x, y)
        made.click(x, y, "left")
        made.click(x, y, "wheel", keys=["CTRL"])
        made.double_click(x, y, keys=["SHIFT"])
        made.drag([(x, y), (x + 5, y + 5)])
        made.scroll(x, y, 0, -240)
        made.type("Grüße")
        made.keypress(["SHIFT", "B"])
        made.wait()
    recorder.until(lambda: recorder.text == "GrüßeB", "the keys")
    assert [button for button, *_ in recorder.buttons()] == [1, 2, 1, 1, 1, 4, 4]
    assert all(abs(across - 40) <= 1 and abs(down - 60) <= 1 for _, across, down in recorder.buttons()[:4])
    held = [event.state & 5 for event in recorder.seen if type(event).__name__ == "ButtonPressEvent"]
    assert held[:4] == [0, 4, 1, 1]


def test_a_computer_for_asyncio_acts_and_raises_what_is_refused(
    service: Service, recorder: Recorder, agents: Any
) -> None:
    async def used() -> str:
        async with await AsyncDesktop.connect(service.url) as twin:
            made: Any = await async_computer(AsyncOpenAI(twin))
            assert isinstance(made, agents.AsyncComputer)
            assert made.dimensions == (WIDTH, HEIGHT)
            x, y = place(recorder, service, 20, 20)
            await made.click(x, y, "left")
            await made.type("a")
            with pytest.raises(DesktopError, match=f"0 to {WIDTH - 1}"):
                await made.click(WIDTH, 0, "left")
            with pytest.raises(DesktopError, match="is not known"):
                await made.click(x, y, "third")
            return str(await made.screenshot())

    assert size_of(asyncio.run(used())) == (WIDTH, HEIGHT)
    recorder.until(lambda: recorder.text == "a" and recorder.buttons() == [(1, 20, 20)], "what was asked for")


def test_the_sdk_needs_the_package_for_a_computer_alone(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "agents", None)
    with Desktop.connect(service.url) as desktop:
        driver = OpenAI(desktop)
        with pytest.raises(ModuleNotFoundError, match="agents"):
            computer(driver)
        assert driver.size is None, "the desktop was asked before"


def test_what_a_person_must_agree_to_is_asked_of_the_driver(service: Service) -> None:
    from openai.types.responses import ResponseComputerToolCall

    (call,) = calls({"type": "screenshot"}, older=False)
    check = SimpleNamespace(tool_call=ResponseComputerToolCall(**call))
    heard: list[Mapping[str, Any]] = []

    def agrees(asked: Mapping[str, Any]) -> bool:
        heard.append(asked)
        return True

    with Desktop.connect(service.url) as desktop:
        for confirm in (None, lambda asked: False):
            with pytest.raises(DesktopError) as refused:
                consent(OpenAI(desktop, confirm=confirm))(check)
            assert refused.value.field == "confirm"
        assert consent(OpenAI(desktop, confirm=agrees))(check) is True
    assert [asked["call_id"] for asked in heard] == ["call_0"]


def answer(number: int, *output: dict[str, Any]) -> dict[str, Any]:
    """An answer of OpenAI's API."""
    named = {"id": f"resp_{number}", "object": "response", "created_at": 1, "model": "any", "status": "completed"}
    usage: dict[str, Any] = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return {**named, "parallel_tool_calls": False, "tool_choice": "auto", "tools": [], "usage": usage, "output": output}


def calls(*actions: dict[str, Any], older: bool) -> list[dict[str, Any]]:
    """The calls that ask for actions: the older tool has a call for each."""
    named = {"type": "computer_call", "status": "completed", "pending_safety_checks": []}
    batches: list[dict[str, Any]] = [{"action": action} for action in actions] if older else [{"actions": actions}]
    return [{**named, "id": f"cu_{i}", "call_id": f"call_{i}", **batch} for i, batch in enumerate(batches)]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The newest package with what it needs, in a folder of its own."""
    folder = tmp_path_factory.mktemp("agents")
    venv.create(folder / "venv", with_pip=True)
    pip = [str(folder / "venv/bin/pip"), "install", "--quiet", "--target", str(folder / "packages")]
    subprocess.run([*pip, "openai-agents>=0.24"], check=True, timeout=600)
    return folder / "packages"


@pytest.mark.deep
def test_the_packages_own_classes_are_filled_as_the_stand_ins_are(packages: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not deep", __file__]
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    subprocess.run([sys.executable, "-c", "import agents"], env=environment, check=True, timeout=60)
    done = subprocess.run(command, cwd=TREE, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{done.stdout[-5000:]}{done.stderr[-2000:]}"


def run_example(packages: Path, service: Service, url: str, model: str) -> "subprocess.CompletedProcess[str]":
    """Have the example do a task with a model at this address."""
    variables = {"DESKYARD_LINK": service.url, "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "secret", "MODEL": model}
    variables |= {"PYTHONPATH": f"{packages}:{TREE / 'sdk'}", "OPENAI_AGENTS_DISABLE_TRACING": "1"}
    command = [sys.executable, str(EXAMPLE), "Write"]
    environment = {**os.environ, **variables}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180, check=False)


@pytest.mark.deep
@pytest.mark.parametrize("model", ["gpt-5.5", "computer-use-preview"])
def test_the_example_does_a_task_by_the_packages_own_runner(
    packages: Path, service: Service, recorder: Recorder, model: str
) -> None:
    older = model != "gpt-5.5"
    x, y = place(recorder, service, 20, 20)
    click = {"type": "click", "button": "left", "x": x, "y": y, "keys": ["SHIFT"]}
    asked_for = calls(click, {"type": "type", "text": "Grüße"}, older=older)
    text = {"type": "output_text", "text": "It is done.", "annotations": []}
    end = {"type": "message", "id": "m_1", "role": "assistant", "status": "completed", "content": [text]}
    turns = [answer(number, item) for number, item in enumerate([*asked_for, end])]
    with scripted(*turns) as (url, requests):
        ended = run_example(packages, service, url, model)
    assert (ended.returncode, ended.stdout.strip()) == (0, "It is done."), ended.stderr
    shown = {"environment": "ubuntu", "display_width": WIDTH, "display_height": HEIGHT}
    tool = {"type": "computer_use_preview", **shown} if older else {"type": "computer"}
    assert [request["tools"] for request in requests] == [[tool]] * len(turns)
    output = requests[-1]["input"][-1]
    assert (output["type"], output["call_id"]) == ("computer_call_output", asked_for[-1]["call_id"])
    assert size_of(output["output"]["image_url"].removeprefix("data:image/png;base64,")) == (WIDTH, HEIGHT)
    recorder.until(lambda: recorder.text == "Grüße" and recorder.buttons() == [(1, 20, 20)], "what was asked for")
    assert [event.state & 1 for event in recorder.seen if type(event).__name__ == "ButtonPressEvent"] == [1]


@pytest.mark.deep
def test_the_example_does_nothing_that_a_person_must_agree_to(
    packages: Path, service: Service, recorder: Recorder
) -> None:
    (call,) = calls({"type": "type", "text": "never"}, older=False)
    call["pending_safety_checks"] = [{"id": "sc_1", "code": "malicious_instructions", "message": "look"}]
    with scripted(answer(0, call)) as (url, _):
        ended = run_example(packages, service, url, "gpt-5.5")
    assert ended.returncode == 1 and "confirm: is needed for this call" in ended.stderr
    with Desktop.connect(service.url) as desktop:
        OpenAI(desktop).keypress({"type": "keypress", "keys": ["X"]})
    recorder.until(lambda: recorder.text.lower() == "x", "the key, and nothing before it")
