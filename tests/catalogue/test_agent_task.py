"""`agent.task` against the real OpenClaw: it does what it is told, says so by and by, and stops when nobody listens."""

import json
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from deskyard.agent import task
from deskyard.agent.task import Task
from deskyard.engine import running
from deskyard.errors import SiteError
from deskyard.lab.desk import DESK
from deskyard.site.ssh_link import SshLink
from tests.catalogue.agent import SERVICE, Agent
from tests.catalogue.workbench import Workbench

pytestmark = pytest.mark.deep
Eventually = Callable[[Callable[[], bool], str], None]
KEY, OTHER = "canary-4a77-task", "canary-d3c8-other"
STACK = f"config:\n  deskyard:network: 10.80.1.0/24\n  deskyard:desktops:\n    - name: {DESK}\n"
PROMPTS = "home/agent/.openclaw/workspace"
PAGES = (
    "systemd-run --quiet --unit=pages.service sh -c 'cd /srv && exec python3 -m http.server 18080 2>/root/pages.log'"
)


@pytest.fixture(scope="module")
def agent(bench: Workbench) -> Iterator[Agent]:
    """The agent, with a model that it asks and the key for it."""
    bench.apply(["node", "agent_openclaw"])
    agent = Agent(bench)
    agent.configure()
    agent.have_model(KEY)
    agent.bring(local=KEY)
    yield agent
    agent.bring()


@pytest.fixture(autouse=True)
def owner(agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eventually: Eventually) -> None:
    """A workspace whose desktop is the host; there is no gateway of a workspace on the way."""
    for name, value in {"HOME": tmp_path / "home", "STACKS": tmp_path, "ACCELERATOR": "tcg"}.items():
        monkeypatch.setenv(f"DESKYARD_{name}", str(value))
    (tmp_path / "Pulumi.lab.yaml").write_text(STACK)
    monkeypatch.setattr(running, "require_running", lambda *_: None)
    config = str(agent.bench.yard.ssh_config)
    way = ["ssh", "-F", config, DESK]
    monkeypatch.setattr(SshLink, "command", lambda self, host, remote, **_: [*way, shlex.join(remote)])
    eventually(agent.has(KEY), "the key")


def done(text: str, session: str = "") -> list[dict[str, Any]]:
    """What happens when the agent gets a task."""
    return list(task.events(Task.checked(f"lab/{DESK}", text, session, 600)))


def test_agent_makes_a_file_by_its_shell_and_says_so_in_pieces(agent: Agent) -> None:
    command = "echo made by $(id -un) > /home/agent/task.txt; cat /home/agent/task.txt"
    events = done(f"Please run `{command}` for me.", "report")
    pieces = [event["text"] for event in events if event["event"] == "text"]
    assert "".join(pieces) == "The command said: made by agent"
    assert len(pieces) > 1
    assert (events[0]["event"], events[-1]["status"]) == ("begin", "done")
    assert (agent.bench.root / "home/agent/task.txt").read_text() == "made by agent\n"
    # The conversation goes on on the desktop under the same name.
    listed = json.loads(agent.bench.do("openclaw sessions --json", user="agent").stdout)
    assert "agent:main:report" in [session["key"] for session in listed["sessions"]]


def noted(words: str) -> str:
    """What its model was told about them, besides the conversation."""
    return "".join(event["text"] for event in done(f"What is noted of `{words}`?") if event["event"] == "text")


def test_first_task_knows_its_machine_and_is_no_talk_about_the_agents_name(agent: Agent) -> None:
    assert noted("a machine of your own").startswith("It is noted: This is a machine of your own")
    assert (agent.bench.root / PROMPTS / "AGENTS.md").exists()
    # What OpenClaw begins such a talk with, and what would come of it.
    assert agent.bench.do(f"ls /{PROMPTS} | grep -v -x -e AGENTS.md -e memory", check=False).stdout == ""


def test_what_is_written_down_for_it_reaches_its_model(agent: Agent) -> None:
    assert noted("the harbour") == "Nothing is noted."
    prompt = agent.bench.root / PROMPTS / "AGENTS.md"
    before = prompt.read_text()
    prompt.write_text(f"{before}Mind the harbour.\n")
    try:
        assert noted("the harbour") == "It is noted: Mind the harbour."
    finally:
        prompt.write_text(before)


def test_agent_opens_a_page_in_its_browser(agent: Agent, eventually: Eventually) -> None:
    agent.bench.do(f"echo hello >/srv/page.html; {PAGES}")
    # No screen here; a command that takes long goes on while the agent answers.
    opening = "openclaw browser start --headless && openclaw browser open http://127.0.0.1:18080/page.html"
    done(f"Please run `{opening}` for me.")
    eventually(lambda: "GET /page.html" in agent.bench.do("cat /root/pages.log").stdout, "the page")


def test_task_of_who_stops_listening_ends_with_what_it_runs(agent: Agent) -> None:
    def runs() -> bool:
        return agent.bench.do("pgrep -x -f 'sleep 7421'", check=False).code == 0

    with closing(task.events(Task.checked(f"lab/{DESK}", "Please run `sleep 7421`.", "", 600))) as events:
        assert next(events)["event"] == "begin"
        end = time.monotonic() + 120
        while not runs() and time.monotonic() < end:
            time.sleep(0.2)
        assert runs()
    end = time.monotonic() + 60
    while runs() and time.monotonic() < end:
        time.sleep(0.5)
    assert not runs()


def test_key_that_the_model_does_not_know_is_said(agent: Agent) -> None:
    agent.have_model(OTHER)
    try:
        with pytest.raises(SiteError, match="right key of its model") as caught:
            done("Please run `true`.")
    finally:
        agent.have_model(KEY)
    assert f"desktop.keys lab/{DESK}" in caught.value.remedy


def test_agent_that_is_stopped_is_said(agent: Agent) -> None:
    agent.bench.do(f"systemctl stop {SERVICE}")
    try:
        with pytest.raises(SiteError, match="does not run: inactive"):
            done("Please run `true`.")
    finally:
        agent.bench.do(f"systemctl start {SERVICE}")
