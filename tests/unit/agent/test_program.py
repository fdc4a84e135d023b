"""A task for an agent of the owner's choice: one made with the SDK of the Agent Client Protocol, which judges our part.

The program that runs on desktops runs here, without a desktop.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from deskyard.agent import task as agent_task
from deskyard.agent.task import Task
from deskyard.engine import running
from deskyard.errors import ConfigError, SiteError
from deskyard.guest.agent import acp
from deskyard.host.places import tree
from deskyard.model.site import Site
from deskyard.model.workspace import Workspace
from deskyard.plan.workspace import plan_workspace
from deskyard.site.ssh_link import SshLink

# Not imported here: its SDK takes most of a second, in each process of a run.
PROGRAM = [sys.executable, str(tree() / "tests/support/acp_agent.py")]
# Far beyond what anything takes.
SECONDS = 600
STACK = "config:\n  deskyard:network: 10.80.1.0/24\n  deskyard:desktops:\n"


class Desk:
    """A desktop whose programs run on this machine; its agent's home is a folder of the test."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / "agent"
        self.home.mkdir()
        self.declare()

    def declare(self, *words: str, **more: Any) -> None:
        """Declare the agent, called with these words."""
        agent = {"command": [*PROGRAM, *words], **more}
        (self.folder / "Pulumi.lab.yaml").write_text(f"{STACK}    - name: dev1\n      agent: {json.dumps(agent)}\n")

    def do(self, text: str, session: str = "talk", id: str = "") -> list[dict[str, Any]]:
        """Give it a task, to its end."""
        return list(agent_task.events(Task.checked("lab/dev1", text, session, SECONDS, id)))

    def said(self, text: str, session: str = "talk", id: str = "") -> str:
        """What it answers."""
        return "".join(event["text"] for event in self.do(text, session, id) if event["event"] == "text")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    for name, value in {"HOME": tmp_path / "home", "STACKS": tmp_path, "ACCELERATOR": "tcg"}.items():
        monkeypatch.setenv(f"DESKYARD_{name}", str(value))
    monkeypatch.setattr(running, "require_running", lambda *_: None)
    desk = Desk(tmp_path)
    path = [f"HOME={desk.home}", f"PYTHONPATH={tree()}"]
    # Without the account, and without the way.
    monkeypatch.setattr(
        SshLink, "command", lambda self, host, remote, **_: ["env", *path, *remote[remote.index("--") + 1 :]]
    )
    return desk


def test_agent_answers_with_its_tools_and_tokens(desk: Desk) -> None:
    events = desk.do("use the tool")
    assert events[0] == {"event": "begin", "workspace": "lab", "desktop": "dev1", "session": "talk"}
    tools = [event for event in events if event["event"] == "tool"]
    assert [card["state"] for card in tools] == ["started", "done"]
    assert (tools[0]["name"], json.loads(tools[0]["summary"])) == ("Run ls", {"command": "ls"})
    assert tools[1]["output"] == "chosen: yes"
    assert [event["asked"] for event in events if event["event"] == "approval"] == ["Run ls"]
    assert [event for event in events if event["event"] == "usage"] == [
        {"event": "usage", "input": 10, "output": 5, "cached": 2}
    ]
    # It was let end by itself.
    assert (desk.home / "ended").exists()
    # What it thinks is not what it says.
    assert "".join(event["text"] for event in events if event["event"] == "text") == "turn 1: USE THE TOOL"
    assert events[-1]["status"] == "done"


def test_agent_that_asks_is_refused_where_the_owner_wants_it(desk: Desk) -> None:
    desk.declare(permissions="refuse")
    tools = [event for event in desk.do("use the tool") if event["event"] == "tool"]
    assert (tools[-1]["state"], tools[-1]["output"]) == ("failed", "chosen: no")


def test_conversation_goes_on_in_another_process_of_the_agent(desk: Desk) -> None:
    assert desk.said("one") == "turn 1: ONE"
    assert desk.said("two") == "turn 2: TWO"
    assert desk.said("three", session="other") == "turn 1: THREE"


def test_agent_that_cannot_go_on_with_a_conversation_says_so(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    desk.declare("forgetful")
    desk.said("one")
    assert "begins it anew" not in capsys.readouterr().err
    assert desk.said("two") == "turn 1: TWO"
    assert "begins it anew" in capsys.readouterr().err


def test_message_that_is_given_twice_is_done_once(desk: Desk) -> None:
    first = desk.said("one", id="ms_1")
    assert desk.said("one", id="ms_1") == first
    assert desk.said("two", id="ms_2") == "turn 2: TWO"


def test_message_whose_agent_died_is_not_done_again(desk: Desk) -> None:
    with pytest.raises(SiteError, match="a fault of mine"):
        desk.do("die", id="ms_1")
    with pytest.raises(SiteError, match="may have done it already") as caught:
        desk.do("die", id="ms_1")
    assert "another message" in caught.value.remedy
    assert desk.said("on", id="ms_2") == "turn 2: ON"


def test_message_that_the_agent_did_not_take_is_given_again(desk: Desk) -> None:
    with pytest.raises(SiteError, match="wants to be signed in"):
        desk.do("sign in", id="ms_1")
    assert desk.said("sign in", id="ms_1") == "turn 1: SIGN IN"


def test_agent_has_the_keys_of_its_desktop(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = tmp_path / "keys.env"
    keys.write_text("# of the owner\nANTHROPIC_API_KEY='canary-key'\nodd line\n")
    assert acp.keys(keys) == {"ANTHROPIC_API_KEY": "canary-key"}
    assert acp.keys(tmp_path / "none.env") == {}
    program = agent_task._program

    def reading(*given: Any) -> Any:
        module, request = program(*given)
        return module, {**request, "keys": str(keys)}

    monkeypatch.setattr(agent_task, "_program", reading)
    assert desk.said("key").startswith("canary-key")


def test_agent_is_offered_no_files_and_hears_so(desk: Desk) -> None:
    assert desk.said("file").startswith(f"file: {acp.NOT_KNOWN}")


@pytest.mark.parametrize(
    ("words", "text", "reason", "remedy"),
    [
        (["silent"], "go", "broke off: cannot read my settings", "by hand"),
        (["newer"], "go", "version 2 of the protocol", "version of it"),
        (["signed-out"], "go", "wants to be signed in: -32000 Authentication required", "desktop.keys lab/dev1"),
        ([], "refuse", "refused to go on", "by hand"),
    ],
)
def test_what_goes_wrong_there_says_what_to_do(
    desk: Desk, words: list[str], text: str, reason: str, remedy: str
) -> None:
    desk.declare(*words)
    with pytest.raises(SiteError, match=reason) as caught:
        desk.do(text)
    assert remedy in caught.value.remedy


def test_program_that_is_not_there_is_named(desk: Desk) -> None:
    agent = json.dumps({"command": ["no-such-agent"]})
    (desk.folder / "Pulumi.lab.yaml").write_text(f"{STACK}    - name: dev1\n      agent: {agent}\n")
    with pytest.raises(SiteError, match="no-such-agent: No such file") as caught:
        desk.do("go")
    assert "agent: {command: [...]}" in caught.value.remedy


def test_desktop_declared_without_an_agent_says_so_before_it_is_asked(desk: Desk) -> None:
    (desk.folder / "Pulumi.lab.yaml").write_text(f"{STACK}    - name: dev1\n      agent: none\n")
    with pytest.raises(SiteError, match="declared to have no agent"):
        desk.do("go")


def test_desktop_has_the_agent_of_its_workspace_unless_it_has_its_own() -> None:
    given = {"name": "lab", "network": "10.80.1.0/24", "agent": {"command": ["theirs"]}}
    desktops = [{"name": "a"}, {"name": "b", "agent": "none"}, {"name": "c", "agent": {"command": ["own"]}}]
    workspace = Workspace.check({**given, "desktops": desktops}, "test")
    plan = plan_workspace(workspace, Site(), "tcg")
    agents = [desktop["agent"] for desktop in json.loads(json.dumps(plan.as_dict()))["desktops"]]
    assert [agent if agent == "none" else agent["command"] for agent in agents] == [["theirs"], "none", ["own"]]
    with pytest.raises(ConfigError, match="command"):
        Workspace.check({**given, "agent": {"command": []}, "desktops": desktops}, "test")
    with pytest.raises(ConfigError, match="folder belongs to a command"):
        Workspace.check({**given, "agent": {"folder": "work"}, "desktops": desktops}, "test")
    Workspace.check({**given, "agent": {"permissions": "ask"}, "desktops": desktops}, "test")


def test_ctrl_c_cancels_the_turn_and_the_agent_is_gone(
    desk: Desk, ctrl_c: None, eventually: Callable[[Callable[[], bool], str], None]
) -> None:
    events = agent_task.events(Task.checked("lab/dev1", "wait", "talk", SECONDS))
    heard = []
    with pytest.raises(KeyboardInterrupt), closing(events):
        for event in events:
            heard.append(event)
            if event["event"] == "text":
                threading.Timer(0, os.kill, [os.getpid(), signal.SIGINT]).start()
    assert [event.get("text") for event in heard] == [None, "waiting"]
    eventually(lambda: (desk.home / "cancelled").exists(), "the agent heard that its turn is cancelled")
    assert desk.said("on") == "turn 2: ON"


def test_time_that_is_over_ends_the_turn(desk: Desk) -> None:
    events = list(agent_task.events(Task.checked("lab/dev1", "wait", "talk", 3)))
    assert (events[-1]["event"], events[-1]["status"]) == ("end", "timeout")


def test_agent_that_is_to_ask_hears_what_a_person_chose_of_its_own_options(desk: Desk) -> None:
    desk.declare(permissions="ask")
    asked: list[dict[str, Any]] = []

    def ask(question: dict[str, Any]) -> str:
        asked.append(question)
        return "yes"

    found = list(agent_task.events(Task.checked("lab/dev1", "use the tool", "talk", SECONDS), ask))
    options = [
        {"id": "always", "name": "Always", "kind": "allow_always"},
        {"id": "yes", "name": "Yes", "kind": "allow_once"},
        {"id": "no", "name": "No", "kind": "reject_once"},
    ]
    assert asked == [{"id": "q1", "asked": "Run ls", "options": options}]
    assert [event for event in found if event["event"] == "heard"] == [{"event": "heard", "id": "q1", "option": "yes"}]
    assert [event.get("output") for event in found if event["event"] == "tool"][-1] == "chosen: yes"
    assert found[-1]["status"] == "done"


@pytest.mark.parametrize("answer", [None, "something else"])
def test_without_an_answer_that_it_offered_it_hears_its_own_refusal(desk: Desk, answer: str | None) -> None:
    desk.declare(permissions="ask")
    found = list(agent_task.events(Task.checked("lab/dev1", "use the tool", "talk", SECONDS), lambda _: answer))
    assert [event["option"] for event in found if event["event"] == "heard"] == [None]
    assert [event.get("output") for event in found if event["event"] == "tool"][-1] == "chosen: no"


def test_where_nobody_can_be_asked_it_hears_its_own_refusal(desk: Desk) -> None:
    desk.declare(permissions="ask")
    found = desk.do("use the tool")
    assert [event["kind"] for event in found if event["event"] == "approval"] == ["refuse"]
    assert [event.get("output") for event in found if event["event"] == "tool"][-1] == "chosen: no"


def test_who_is_interrupted_while_a_question_is_open_ends_the_turn_and_the_agent(desk: Desk) -> None:
    desk.declare(permissions="ask")

    def ask(_: dict[str, Any]) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(agent_task.events(Task.checked("lab/dev1", "use the tool", "talk", SECONDS), ask))
    # It was told, and let end by itself.
    assert (desk.home / "ended").exists()


@pytest.mark.parametrize(("id", "known"), [(5, "5"), ("x" * 9999, "x" * 100), (None, "None")])
def test_ids_that_a_desktop_made_up_go_on_as_short_text(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, id: object, known: str
) -> None:
    desk.declare(permissions="ask")
    given: list[dict[str, Any]] = []

    class Stream:
        def __init__(self, *_: object) -> None:
            self.say = lambda **answer: given.append(answer)

        def __enter__(self) -> "Stream":
            return self

        def __exit__(self, *_: object) -> None:
            return

        def lines(self) -> Iterator[dict[str, Any]]:
            yield {"event": "question", "id": id, "seconds": 10**9}
            yield {"event": "end", "status": "done"}

    monkeypatch.setattr(agent_task, "DesktopStream", Stream)
    asked: list[dict[str, Any]] = []
    list(agent_task.events(Task.checked("lab/dev1", "use the tool", "talk", SECONDS), asked.append))
    assert (asked, given) == ([{"id": known}], [{"id": known, "option": None}])
