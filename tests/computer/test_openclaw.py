"""OpenClaw's tools for the screen on a real desktop: called as OpenClaw calls them, by its manifest's names.

That the real OpenClaw loads them, and shows the pictures to its model, was tried by hand with 2026.9.6.
"""

import base64
import io
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.computer.desktop import HEIGHT, WIDTH, Recorder, Service
from tests.support.requirements import need_programs

PLUGIN = Path(__file__).resolve().parents[2] / "ansible/roles/agent_openclaw/files/screen"
# As OpenClaw does: the plugin is loaded, its tools are registered, and called with a number, their input and a signal.
CALLER = """
import { readFileSync } from "node:fs";
const { url, calls } = JSON.parse(readFileSync(0, "utf8"));
const { default: plugin } = await import(%s);
const tools = {};
plugin.register({ pluginConfig: { url }, registerTool: (tool) => { tools[tool.name] = tool; } });
const answers = [];
for (const [name, given] of calls) {
  const said = tools[name].execute("call-1", given, new AbortController().signal);
  answers.push(await said.catch((error) => ({ error: error.message })));
}
console.log(JSON.stringify({ id: plugin.id, tools: Object.values(tools), answers }));
"""


def called(service: Service, *calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    need_programs("node")
    program = CALLER % json.dumps(str(PLUGIN / "index.js"))
    command = ["node", "--input-type=module", "--eval", program]
    given = json.dumps({"url": service.url, "calls": calls})
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def text(answer: dict[str, Any]) -> dict[str, Any]:
    """What an answer says, as its model reads it."""
    assert "error" not in answer, answer
    assert answer["content"][0]["type"] == "text"
    said: dict[str, Any] = json.loads(answer["content"][0]["text"])
    assert answer["details"] == {"answer": said}
    return said


def test_tools_are_those_of_the_manifest_with_schemas_that_refuse_what_is_unknown(service: Service) -> None:
    found = called(service)
    manifest = json.loads((PLUGIN / "openclaw.plugin.json").read_text())
    assert found["id"] == manifest["id"]
    assert [tool["name"] for tool in found["tools"]] == manifest["contracts"]["tools"]
    for tool in found["tools"]:
        assert tool["parameters"]["type"] == "object" and tool["parameters"]["additionalProperties"] is False
        assert tool["description"] and tool["label"] and tool["catalogMode"] == "direct-only"


def test_agent_sees_the_screen_and_acts_where_the_picture_shows(service: Service, recorder: Recorder) -> None:
    window = next(window for window in service.windows() if window["id"] == recorder.id)
    x, y, _, _ = window["geometry"]
    [seen] = called(service, ("screen_see", {}))["answers"]
    picture = seen["content"][1]
    assert (picture["type"], picture["mimeType"]) == ("image", "image/jpeg")
    assert list(Image.open(io.BytesIO(base64.b64decode(picture["data"]))).size) == text(seen)["size"] == [WIDTH, HEIGHT]
    actions = [
        {"type": "click", "x": x + 40, "y": y + 30, "space": text(seen)["space"]},
        {"type": "type", "text": "Grüße, 世界"},
    ]
    acted = called(service, ("screen_act", {"actions": actions}))["answers"][0]
    recorder.until(lambda: recorder.text == "Grüße, 世界", "what was typed")
    assert recorder.buttons() == [(1, 40, 30)]
    assert text(acted)["wait"]["event"] == "screen.settled" and acted["content"][1]["type"] == "image"


def test_what_stopped_says_what_was_done_and_what_is_refused_names_its_remedy(
    service: Service, recorder: Recorder
) -> None:
    typed, outside = {"type": "type", "text": "a"}, {"type": "click", "x": 99_999, "y": 1}
    never = {"type": "wait", "event": "window.appeared", "match": {"title": "no such window"}, "within_ms": 1}
    stopped, wrong, unknown = called(
        service,
        ("screen_act", {"actions": [typed, never, typed]}),
        ("screen_act", {"actions": [typed, outside]}),
        ("screen_wait", {"event": "nonsense"}),
    )["answers"]
    said = text(stopped)
    assert said["ok"] is False and said["remedy"], said
    assert [result["ok"] for result in said["results"]] == [True, False]
    assert "is outside screen: 0 to 1023 -> give a number from 0 to 1023" in wrong["error"]
    assert 'event = "nonsense": is not known -> give one of: window.appeared' in unknown["error"]
    recorder.until(lambda: recorder.text == "a", "what came before the action that failed, and nothing after it")


@pytest.mark.usefixtures("recorder")
def test_windows_programs_and_names_are_listed(service: Service) -> None:
    listed, applications, found = called(
        service, ("screen_windows", {}), ("screen_launch", {}), ("screen_find", {"role": "button", "name": "none"})
    )["answers"]
    assert "recorder" in [window["title"] for window in text(listed)["windows"]]
    assert text(applications)["applications"] and text(found)["nodes"] == []
