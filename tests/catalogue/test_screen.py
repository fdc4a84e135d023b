"""The real OpenClaw and its own screen: it sees the picture, acts where that shows, and reads what was wrong."""

import json
import re
from collections.abc import Callable, Iterator

import pytest

from deskyard.image.build import program
from tests.catalogue.agent import Agent
from tests.catalogue.workbench import host_with

pytestmark = pytest.mark.deep
Eventually = Callable[[Callable[[], bool], str], None]
KEY, TYPED = "canary-77c1-screen", "Grüße from OpenClaw"
SCREEN = ["vnc_server", "desktop_session", "computer_use"]
ASK = "curl --silent --fail --max-time 60 http://127.0.0.1:6090"
# The field fills the page, so that a click into the middle of the screen is one into it.
FORM = """<!doctype html><meta charset=utf-8><title>empty form</title>
<textarea oninput="document.title = 'written: ' + this.value" style="position: fixed; inset: 0"></textarea>"""


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """OpenClaw with a model of the smallest kind, on a desktop's own screen and its service."""
    folder = tmp_path_factory.mktemp("computer")
    program.lay_out("computer", folder / "computer")
    with host_with(tmp_path_factory, "agent_user", "browser") as bench:
        bench.apply([*SCREEN, "node", "agent_openclaw"], {"computer_bundle_dir": str(folder / "computer")})
        bench.do(f"cat >/home/agent/form.html <<'EOF'\n{FORM}\nEOF\nchown agent: /home/agent/form.html")
        agent = Agent(bench)
        agent.configure()
        agent.have_model(KEY)
        agent.bring(local=KEY)
        yield agent


@pytest.fixture(autouse=True)
def ready(agent: Agent, eventually: Eventually) -> None:
    """The agent has its key, and the service its screen."""
    eventually(agent.has(KEY), "the key")
    eventually(lambda: agent.bench.do(f"{ASK}/v1/windows", check=False).code == 0, "the screen")


def called(agent: Agent, tool: str, **given: object) -> str:
    """What the model says of what a tool answered."""
    return agent.do(f"Please call `{tool}` with `{json.dumps(given, ensure_ascii=False)}` for me.")


def test_it_starts_a_program_sees_it_types_where_the_picture_shows_and_reads_what_came_of_it(agent: Agent) -> None:
    started = called(agent, "screen_launch", application="chromium", targets=["/home/agent/form.html"])
    assert "empty form" in started, started
    seen = called(agent, "screen_see")
    assert "Pictures seen: 1." in seen
    [space] = re.findall(r'"space":\s*"(shot:[^"]+)"', seen)
    actions = [{"type": "click", "x": 640, "y": 500, "space": space}, {"type": "type", "text": TYPED}]
    acted = called(agent, "screen_act", actions=actions, wait={"event": "window.title", "within_ms": 60_000})
    assert "Pictures seen: 1." in acted, acted
    assert f"written: {TYPED}" in called(agent, "screen_windows")


def test_what_it_asks_for_wrongly_comes_back_with_what_helps(agent: Agent) -> None:
    refused = called(agent, "screen_wait", event="no.such.event")
    assert "no.such.event" in refused and "->" in refused
