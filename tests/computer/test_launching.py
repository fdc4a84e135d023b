"""Applications by their desktop files, files and addresses by what opens them: with the window that comes of it."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deskyard_sdk import Desktop, DesktopError
from deskyard_sdk.drivers import Gemini

from deskyard.computer.launch.applications import Application, folders, installed
from tests.computer.desktop import Person, Service, XServer
from tests.support.mcp_client import Tools, talk_within
from tests.support.requirements import need_programs

ENTRY = "[Desktop Entry]\nType=Application\nName={name}\nName[de]=Anders\nExec={command}\n{more}\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: XServer) -> Path:
    """A home with applications of its own; what is launched gets the session's environment."""
    need_programs("mousepad", "xdg-open")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    place = tmp_path / "share/applications"
    place.mkdir(parents=True)
    entries = {
        "editor": ("Editor", "mousepad --disable-server %F", "Categories=Utility;\nMimeType=text/plain;"),
        "failing": ("Failing", "false", ""),
        "missing": ("Missing", "no-such-program", ""),
        "still": ("Still", "sleep 60", ""),
        "hidden": ("Hidden", "true", "NoDisplay=true"),
        "broken": ("Broken", '"unfinished', ""),
    }
    for id, (name, command, more) in entries.items():
        (place / f"{id}.desktop").write_text(ENTRY.format(name=name, command=command, more=more))
    return tmp_path


@pytest.fixture
def desk(server: XServer, home: Path) -> Iterator[Service]:
    """A service whose account has that home."""
    running = Service(server.display, bus=server.bus, home=home)
    yield running
    for window in running.windows():
        if window["class"].lower() == "mousepad":
            before = running.last()
            os.kill(window["pid"], signal.SIGKILL)
            running.wait("window.closed", match={"id": window["id"]}, after=before)
    running.stop()


def launch(desk: Service, **asked: Any) -> dict[str, Any]:
    answer = desk.client.post("/v1/launch", json=asked)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_installed_applications_are_listed_as_a_menu_would(desk: Service) -> None:
    found = {entry["id"]: entry for entry in desk.client.get("/v1/applications").json()["applications"]}
    assert (found["editor.desktop"]["name"], found["editor.desktop"]["types"]) == ("Editor", ["text/plain"])
    assert not {"hidden.desktop", "broken.desktop"} & set(found)


def test_an_application_is_launched_and_its_window_awaited(desk: Service, home: Path) -> None:
    (home / "letter.txt").write_text("Dear all")
    answer = launch(desk, application="editor", targets=["~/letter.txt"], wait="ready")
    assert "letter.txt" in answer["window"]["title"]
    assert os.getsid(answer["window"]["pid"]) == answer["pid"]
    assert desk.notes.entries[-1]["kind"] == "launch"


def test_a_file_is_opened_by_what_the_desktop_has_for_it(desk: Service, home: Path) -> None:
    (home / "note.txt").write_text("A note")
    (home / "share/applications/mimeapps.list").write_text("[Default Applications]\ntext/plain=editor.desktop\n")
    assert "note.txt" in launch(desk, open=str(home / "note.txt"))["window"]["title"]


def test_a_command_is_launched_and_its_window_awaited(desk: Service, home: Path) -> None:
    (home / "list.txt").write_text("Milk")
    answer = launch(desk, command=["mousepad", "--disable-server", str(home / "list.txt")])
    assert "list.txt" in answer["window"]["title"] and answer["untrusted"] == ["title", "class", "instance"]
    assert os.getsid(answer["window"]["pid"]) == answer["pid"]
    note = desk.notes.entries[-1]
    assert (note["kind"], note["scope"], note["ok"]) == ("launch", "shell", True)
    assert "list.txt" not in str(note) and len(note["command_sha256"]) == 64


def test_a_command_wants_the_scope_of_processes(desk: Service) -> None:
    headers = {"x-deskyard-session": "s1", "x-deskyard-scopes": "see,act,files"}
    answer = desk.client.post("/v1/launch", json={"command": "xterm"}, headers=headers)
    assert (answer.status_code, answer.json()["value"]) == (403, "shell")
    assert desk.notes.entries == []


def test_what_shows_no_window_is_said_to(desk: Service) -> None:
    late = desk.client.post("/v1/launch", json={"application": "still.desktop", "within_ms": 100})
    assert (late.status_code, late.json()["error"]) == (408, "launch")
    os.killpg(int(late.json()["value"]), signal.SIGKILL)
    assert launch(desk, application="failing", wait="nothing")["window"] is None


@pytest.mark.parametrize(
    ("asked", "status", "field"),
    [
        ({"application": "failing"}, 409, "launch"), ({"application": "missing"}, 409, "application"),
        ({"application": "nothing"}, 404, "application"), ({"application": "hidden"}, 404, "application"),
        ({}, 400, "application"), ({"open": "x", "application": "editor"}, 400, "open"),
        ({"command": []}, 400, "command"), ({"command": ["no-such-program"]}, 409, "command"),
        ({"command": ["false"]}, 409, "launch"), ({"command": ["a"], "open": "x"}, 400, "command"),
        ({"command": ["true"], "targets": ["x"]}, 400, "targets"),
        ({"open": "/no/such/file"}, 404, "open"), ({"open": "--help"}, 400, "open"), ({"open": 5}, 400, "open"),
        ({"application": "editor", "targets": ["-x"]}, 400, "targets[0]"),
        ({"application": "editor", "wait": 5}, 400, "wait"),
        ({"application": "editor", "colour": 1}, 400, "colour"),
    ],
)  # fmt: skip
def test_a_wrong_launch_is_refused(desk: Service, asked: dict[str, Any], status: int, field: str) -> None:
    answer = desk.client.post("/v1/launch", json=asked)
    assert (answer.status_code, answer.json()["error"]) == (status, field), answer.text


def test_nothing_is_launched_while_a_person_drives(desk: Service, server: XServer) -> None:
    person = Person(server)
    before = desk.last()
    person.tap()
    desk.wait("person.took", after=before)
    assert desk.client.post("/v1/launch", json={"application": "editor"}).status_code == 409
    person.leave()
    desk.wait("person.left", after=before)


@pytest.mark.parametrize(
    ("method", "path", "scope"), [("GET", "/v1/applications", "see"), ("POST", "/v1/launch", "act")]
)
def test_launching_wants_its_scope(service: Service, method: str, path: str, scope: str) -> None:
    headers = {"x-deskyard-session": "s1", "x-deskyard-scopes": "files,shell"}
    answer = service.client.request(method, path, headers=headers)
    assert (answer.status_code, answer.json()["value"]) == (403, scope)


@pytest.mark.parametrize(
    ("command", "targets", "argv"),
    [
        (("prog", "%U"), ("a", "b"), ["prog", "a", "b"]), (("prog", "%f", "-x"), ("a", "b"), ["prog", "a", "-x"]),
        (("prog", "%i", "%c", "100%%"), (), ["prog", "Name", "100%"]), (("prog",), ("a",), ["prog", "a"]),
    ],
)  # fmt: skip
def test_a_command_takes_its_targets_where_it_says(
    command: tuple[str, ...], targets: tuple[str, ...], argv: list[str]
) -> None:
    assert Application("x", "Name", "", command, (), ()).argv(targets) == argv


def test_an_accounts_own_desktop_file_stands_for_the_systems(tmp_path: Path) -> None:
    environment = {"XDG_DATA_DIRS": str(tmp_path / "system")}
    for place, name in zip(folders(environment, tmp_path), ("Own", "System"), strict=True):
        place.mkdir(parents=True)
        (place / "x.desktop").write_text(ENTRY.format(name=name, command="true", more=""))
    assert installed(folders(environment, tmp_path))["x.desktop"].name == "Own"


def test_the_sdk_lists_launches_and_opens(desk: Service, home: Path) -> None:
    (home / "letter.txt").write_text("Dear all")
    with Desktop.connect(desk.url) as desktop:
        assert {"Editor"} <= {application.name for application in desktop.applications()}
        done = desktop.launch("editor", "~/letter.txt", wait="ready", within=100)
        assert done.window and "letter.txt" in done.window.title and done.pid
        assert desktop.launch("failing", wait="nothing").window is None
        other = desktop.launch_command(["mousepad", "--disable-server", str(home / "letter.txt")], within=100)
        assert other.window and other.window.id != done.window.id
        with pytest.raises(DesktopError) as refused:
            desktop.open("/no/such/file")
        assert (refused.value.field, refused.value.status) == ("open", 404)


def test_agents_launch_by_the_protocol_and_wait_until_keys_are_taken(desk: Service, home: Path) -> None:
    (home / "letter.txt").touch()

    async def use(tools: Tools) -> None:
        assert "editor.desktop" in [found["id"] for found in (await tools("applications"))["applications"]]
        done = await tools("launch", application="editor", targets=["~/letter.txt"], within_seconds=100)
        assert "letter.txt" in done["window"]["title"] and "title" in done["untrusted"]
        await tools("wait", event="app.ready", match={"id": done["window"]["id"]}, within_seconds=100)
        await tools("type", text="Grüße")
        (text,) = (await tools("elements", role="text", window=done["window"]["id"]))["elements"]
        assert text["text"] == "Grüße"
        assert (await tools.refusal("launch"))["error"] == "application"
        assert (await tools.refusal("launch", application="nothing"))["status"] == 404

    talk_within(desk.url, use)


def test_geminis_driver_opens_the_desktops_own_browser(desk: Service, home: Path) -> None:
    (home / "page.txt").write_text("A page")
    (home / "share/applications/mimeapps.list").write_text("[Default Applications]\ntext/plain=editor.desktop\n")
    with Desktop.connect(desk.url) as desktop:
        answer = Gemini(desktop, search=str(home / "page.txt")).run({"name": "open_web_browser", "args": {}})
    assert "error" not in answer["functionResponse"]["response"]
    assert any("page.txt" in window["title"] for window in desk.windows())
