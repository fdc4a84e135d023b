"""A task and its answer, with the program that runs on desktops, here without a desktop; a desktop may say anything."""

import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deskyard.agent import task as agent_task
from deskyard.agent.task import Task
from deskyard.desktop import stream
from deskyard.engine import running
from deskyard.errors import ConfigError, SiteError
from deskyard.guest.agent import task as task_program
from deskyard.host.places import tree
from deskyard.site.guest_program import source
from deskyard.site.ssh_link import SshLink
from tests.support import agent_server

TOKEN = "canary-3f0d-token"
STACK = "config:\n  deskyard:network: 10.80.1.0/24\n  deskyard:desktops:\n    - name: dev1\n"
SYSTEMCTL = "#!/bin/sh\nprintf 'LoadState=%s\\nActiveState=%s\\nExecStart={ argv[]=x gateway run --port %s ; }\\n' "


class Desktop:
    """A desktop whose programs run on this machine, with a gateway of an agent that is none."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.secret, self.log = folder, folder / "agent.env", folder / "log"
        self.secret.write_text(f"OPENCLAW_GATEWAY_TOKEN={TOKEN}\n")
        self.server = agent_server.server(self.secret, self.log, 0)
        self.port = int(self.server.server_address[1])
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.unit("loaded", "active")

    def unit(self, load: str, active: str) -> None:
        program = self.folder / "systemctl"
        program.write_text(f"{SYSTEMCTL}{load} {active} {self.port}\n")
        program.chmod(0o755)

    def noted(self, line: str) -> bool:
        """Whether the gateway noted it, after a while."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if self.log.exists() and line in self.log.read_text().splitlines():
                return True
            time.sleep(0.05)
        return False


@pytest.fixture
def desktop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desktop]:
    for name, value in {"HOME": tmp_path / "home", "STACKS": tmp_path, "ACCELERATOR": "tcg"}.items():
        monkeypatch.setenv(f"DESKYARD_{name}", str(value))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(running, "require_running", lambda *_: None)
    (tmp_path / "Pulumi.lab.yaml").write_text(STACK)
    desktop = Desktop(tmp_path)
    monkeypatch.setattr(agent_task, "SECRET", str(desktop.secret))
    # Without the account, and without the way.
    monkeypatch.setattr(SshLink, "command", lambda self, host, remote, **_: list(remote[remote.index("--") + 1 :]))
    yield desktop
    desktop.server.shutdown()
    desktop.server.server_close()


def task(text: str, session: str = "", seconds: int = 60) -> Task:
    return Task.checked("lab/dev1", text, session, seconds)


def saying(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Let the desktop run something else."""
    monkeypatch.setattr(SshLink, "command", lambda self, host, remote, **_: ["sh", "-c", script])


def test_answer_comes_in_pieces_as_the_agent_says_them(desktop: Desktop) -> None:
    came = [(time.monotonic(), event) for event in agent_task.events(task("count", "report"))]
    events = [event for _, event in came]
    assert events[0] == {"event": "begin", "workspace": "lab", "desktop": "dev1", "session": "report"}
    assert [event["text"] for event in events[1:-1]] == list(agent_server.PIECES)
    assert (events[-1]["event"], events[-1]["status"]) == ("end", "done")
    # The first was here before the last was said.
    assert came[3][0] - came[1][0] > agent_server.PAUSE_SECONDS
    assert desktop.noted("session report")
    assert TOKEN not in str(events)


def test_task_without_a_session_is_a_conversation_of_its_own(desktop: Desktop) -> None:
    named = {next(iter(agent_task.events(task("count"))))["session"] for _ in range(2)}
    assert len(named) == 2 and all(agent_task.SESSION.match(name) for name in named)


@pytest.mark.parametrize(
    ("text", "reason", "remedy"),
    [
        ("fail", "could not do it: internal error", "desktop.keys lab/dev1"),
        ("wrong", "right key of its model: 401 Incorrect", "desktop.set-key lab NAME"),
        ("missing", "right key of its model: Secret owner", "desktop.set-key lab NAME"),
        ("off", "over HTTP", agent_task.HTTP_SETTING),
        ("cut", "IncompleteRead|in the middle", "journalctl"),
        ("nonsense", "makes no sense", "journalctl"),
    ],
)
def test_what_goes_wrong_there_says_what_to_do(desktop: Desktop, text: str, reason: str, remedy: str) -> None:
    with pytest.raises(SiteError, match=reason) as caught:
        list(agent_task.events(task(text)))
    assert remedy in caught.value.remedy and caught.value.value == "lab/dev1"


@pytest.mark.parametrize(
    ("load", "active", "reason", "remedy"),
    [
        ("not-found", "inactive", "has no agent", "image: agent"),
        ("loaded", "failed", "does not run: failed", "systemctl status agent-openclaw.service"),
    ],
)
def test_desktop_whose_agent_is_not_there_says_so(
    desktop: Desktop, load: str, active: str, reason: str, remedy: str
) -> None:
    desktop.unit(load, active)
    with pytest.raises(SiteError, match=reason) as caught:
        list(agent_task.events(task("count")))
    assert remedy in caught.value.remedy


@pytest.mark.parametrize("content", ["", "OPENCLAW_GATEWAY_TOKEN=\n", "OTHER=1\n"])
def test_desktop_without_a_secret_says_so(desktop: Desktop, content: str) -> None:
    desktop.secret.write_text(content)
    with pytest.raises(SiteError, match="secret") as caught:
        list(agent_task.events(task("count")))
    assert "agent-openclaw-secret" in caught.value.remedy


def test_gateway_that_starts_is_waited_for(desktop: Desktop, monkeypatch: pytest.MonkeyPatch) -> None:
    desktop.server.shutdown()
    desktop.server.server_close()
    said: list[str] = []

    def start_when_waited_for(line: str) -> None:
        said.append(line.strip())
        if len(said) > 1:
            return
        desktop.server = agent_server.server(desktop.secret, desktop.log, desktop.port)
        threading.Thread(target=desktop.server.serve_forever, daemon=True).start()

    monkeypatch.setattr(agent_task, "say", start_when_waited_for)
    assert [event["event"] for event in agent_task.events(task("count"))][-1] == "end"
    assert said[0] == "dev1: its agent is starting"


def test_task_that_takes_too_long_is_ended(desktop: Desktop) -> None:
    events = list(agent_task.events(task("hang", seconds=10)))
    assert events[1]["text"] == "begun" and events[-1]["status"] == "timeout"
    assert desktop.noted("hung up")


def test_who_stops_listening_ends_the_task(desktop: Desktop) -> None:
    events = agent_task.events(task("hang"))
    assert [next(events)["event"], next(events)["event"]] == ["begin", "text"]
    events.close()
    assert desktop.noted("hung up")


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_the_task(desktop: Desktop, capfd: pytest.CaptureFixture[str]) -> None:
    def interrupt() -> None:
        desktop.noted("session s")
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        list(agent_task.events(task("hang", "s")))
    assert "did not say" not in capfd.readouterr().err
    assert desktop.noted("hung up")


def test_half_a_request_does_nothing(desktop: Desktop, monkeypatch: pytest.MonkeyPatch) -> None:
    command, length = SshLink.command, len(source(task_program)) + 40

    def cut(self: SshLink, host: str, remote: Any) -> list[str]:
        return ["sh", "-c", f'head -c {length} | "$@"', "sh", *command(self, host, remote)]

    monkeypatch.setattr(SshLink, "command", cut)
    with pytest.raises(SiteError, match="exit code"):
        list(agent_task.events(task("count")))
    assert not desktop.log.exists()


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo hello", "makes no sense"),
        ("echo '[]'", "makes no sense"),
        ("head -c 1000000 /dev/zero", "makes no sense"),
        ("true", "did not say how"),
        ('echo \'{"event": "end", "status": "glad"}\'', "did not say how"),
        ("echo no >&2; exit 3", "exit code 3: no"),
        ("echo lost >&2; exit 255", "cannot be reached over SSH: lost"),
        ('echo \'{"event": "end", "status": "failed", "cause": "x", "said": "\\u001b[2J"}\'', r"broke off:  \[2J"),
    ],
)
def test_senseless_answers_are_errors_of_that_desktop(
    desktop: Desktop, monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    saying(monkeypatch, script)
    with pytest.raises(SiteError, match=reason) as caught:
        list(agent_task.events(task("count")))
    assert caught.value.value == "lab/dev1"


@pytest.mark.parametrize("script", ["exec sleep 600", "exec yes"])
def test_program_that_does_not_end_is_cut_off(desktop: Desktop, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    monkeypatch.setattr(stream, "END_SECONDS", 1.0)
    saying(monkeypatch, f'echo \'{{"event": "begin"}}\'; {script}')
    events = agent_task.events(task("count"))
    next(events)
    started = time.monotonic()
    events.close()
    assert time.monotonic() - started < 30


def test_program_that_outlasts_its_time_is_cut_off(desktop: Desktop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "SLACK_SECONDS", 0.0)
    saying(monkeypatch, "exec sleep 600")
    with pytest.raises(SiteError, match="exit code"):
        list(agent_task.events(task("count", seconds=1)))


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("text", {"text": " \n"}),
        ("text", {"text": "x" * (agent_task.MAX_TEXT + 1)}),
        ("text", {"text": "a\udc80"}),
        ("--session", {"session": "agent:main:main"}),
        ("--session", {"session": "Report"}),
        ("--session", {"session": "global"}),
        ("--session", {"session": "a\n"}),
        ("--session", {"session": "x" * 65}),
        ("--timeout", {"seconds": 0}),
        ("--timeout", {"seconds": agent_task.MAX_SECONDS + 1}),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_what_is_no_task_is_refused_and_its_text_not_shown(field: str, values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        Task.checked(**{"target": "lab/dev1", "text": "canary", "session": "", "seconds": 60, **values})
    assert caught.value.field == field and (field != "text" or caught.value.value is None)


@pytest.mark.parametrize(("target", "reason"), [("lab", "names no desktop"), ("lab/none", "is not in workspace lab")])
def test_desktop_that_is_not_declared_is_refused(desktop: Desktop, target: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        list(agent_task.events(Task.checked(target, "count", "", 60)))


def test_images_with_an_agent_are_found_also_those_made_from_one(tmp_path: Path) -> None:
    for folder in ("ansible", "deskyard"):
        (tmp_path / folder).symlink_to(tree() / folder)
    shutil.copytree(tree() / "images", tmp_path / "images")
    for name, parent in {"mine": "agent", "plain": "desktop", "broken": "nothing"}.items():
        (tmp_path / "images" / name).mkdir()
        text = f"name: {name}\nversion: 0.1.0\ndescription: Mine.\nfrom: {parent}\ndisk_gib: 20\nroles: []\n"
        (tmp_path / "images" / name / "image.yaml").write_text(text)
    assert agent_task.images_with_agent(tmp_path) == ["agent", "mine"]
