"""Programs by their own names instead of by pixels: trees, search and use, and programs that do not answer."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from deskyard_sdk import Desktop, DesktopError, actions

from tests.computer.desktop import PATIENCE, Person, Recorder, Service, XServer
from tests.support.mcp_client import Tools, talk_within
from tests.support.requirements import need_programs

PROGRAM = "mousepad"
NODE = ":1.2/org/a11y/atspi/accessible/1"


@dataclass
class Editor:
    """A text editor with a window in front."""

    process: "subprocess.Popen[bytes]"
    window: dict[str, Any]


@pytest.fixture
def editor(server: XServer, service: Service) -> Iterator[Editor]:
    """A GTK program of its own for each test."""
    need_programs(PROGRAM, "/usr/libexec/at-spi-bus-launcher")
    before = service.last()
    process = server.start(PROGRAM, "--disable-server")
    window = service.wait("window.appeared", match={"class": PROGRAM}, after=before)
    yield Editor(process, window)
    before = service.last()
    os.killpg(process.pid, signal.SIGKILL)
    service.wait("window.closed", match={"id": window["id"]}, after=before)


def find(service: Service, **sought: Any) -> list[dict[str, Any]]:
    answer = service.client.post("/v1/accessibility/find", json={"application": PROGRAM, **sought})
    assert answer.status_code == 200, answer.text
    return list(answer.json()["nodes"])


def use(service: Service, how: str, **fields: Any) -> dict[str, Any]:
    answer = service.client.post(f"/v1/accessibility/{how}", json=fields)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def below(node: dict[str, Any]) -> list[dict[str, Any]]:
    return [node, *(inner for child in node.get("children", []) for inner in below(child))]


def test_a_programs_tree_says_roles_names_states_and_places(service: Service, editor: Editor) -> None:
    answer = service.client.get(f"/v1/accessibility?window={editor.window['id']}").json()
    assert (answer["truncated"], answer["silent"]) == ([], [])
    (frame,) = answer["nodes"]
    assert (frame["role"], frame["name"]) == ("frame", editor.window["title"])
    text = next(node for node in below(frame) if node["role"] == "text" and "multi line" in node["states"])
    x, y, width, height = service.client.get("/v1/windows").json()["windows"][-1]["geometry"]
    left, top, across, down = text["rectangle"]
    assert x <= left and y <= top and left + across <= x + width and top + down <= y + height
    assert "untrusted" in answer


def test_a_tree_is_cut_at_its_depth_and_number_of_nodes(service: Service, editor: Editor) -> None:
    at = f"/v1/accessibility?window={editor.window['id']}"
    shallow, few = (service.client.get(f"{at}&{bound}").json() for bound in ("depth=1", "nodes=3"))
    assert shallow["truncated"] == ["depth"]
    assert all("children" not in inner for node in shallow["nodes"] for inner in node["children"][0]["children"])
    assert few["truncated"] == ["nodes"]
    assert len(below(few["nodes"][0])) == 3


def test_nodes_are_found_by_role_name_and_state(service: Service, editor: Editor) -> None:
    menus = find(service, role="menu", name="fil")
    assert [menu["name"] for menu in menus] == ["File"]
    assert find(service, role="menu", name="fil", exact=True) == []
    assert find(service, states=["focused"], role="menu item") == []
    (inside,) = find(service, role="text", states=["multi line"], window=editor.window["id"], application=None)
    assert inside["text"] == ""
    assert find(service, application="no such program", role="text") == []


def test_a_place_that_was_found_can_be_clicked(service: Service, editor: Editor) -> None:
    (menu,) = find(service, role="menu", name="File", exact=True)
    x, y, width, height = menu["rectangle"]
    service.did({"type": "click", "x": x + width // 2, "y": y + height // 2}, wait={"event": "region.changed"})
    service.wait("screen.settled")
    shown = find(service, role="menu item", node=menu["id"], application=None)
    assert any(item["name"].startswith("New") for item in shown)
    service.did({"type": "key", "keys": "Escape"})


def test_an_action_is_invoked_by_its_name(service: Service, editor: Editor) -> None:
    item = find(service, role="menu item", name="New Window", hidden=True)[0]
    before = service.last()
    assert use(service, "invoke", node=item["id"], action="CLICK")["action"] == "Click"
    service.wait("window.appeared", match={"class": PROGRAM}, after=before)
    assert service.notes.entries[-1]["kind"] == "accessibility.invoke"
    refused = service.client.post("/v1/accessibility/invoke", json={"node": item["id"], "action": "explode"})
    assert (refused.status_code, refused.json()["error"]) == (400, "action")


def test_a_text_is_set_and_read_back(service: Service, editor: Editor) -> None:
    (text,) = find(service, role="text", states=["multi line"])
    written = "Grüße, 世界 🎉\nzweite Zeile"
    answer = use(service, "set", node=text["id"], text=written)
    assert (answer["text"], answer["untrusted"]) == (written, ["text"])
    assert find(service, role="text", states=["multi line"])[0]["text"] == written
    assert written not in str(service.notes.entries[-1])


def test_typed_text_is_read_back_from_its_program(service: Service, editor: Editor) -> None:
    service.wait("app.ready", match={"id": editor.window["id"]})
    answer = service.did(
        {"type": "type", "text": "Grüße, 世界\nzweite", "read_back": True},
        {"type": "key", "keys": "shift+Left"}, {"type": "type", "text": "E!", "read_back": True},
        {"type": "type", "text": "."},
    )  # fmt: skip
    read = [result.get("read_back") for result in answer["results"]]
    assert read == ["same", None, "same", None]
    (text,) = find(service, role="text", window=editor.window["id"])
    assert text["text"] == "Grüße, 世界\nzweitE!."


def test_what_no_program_tells_of_is_not_said_to_be_typed(service: Service, recorder: Recorder) -> None:
    answer = service.did({"type": "type", "text": "secret", "read_back": True})
    assert answer["results"][0]["read_back"] == "unknown"
    recorder.until(lambda: recorder.text == "secret", "the text")


def test_who_may_not_see_has_nothing_read_back(service: Service, recorder: Recorder) -> None:
    headers = {"x-deskyard-session": "s1", "x-deskyard-scopes": "act,files,shell"}
    asked = {"actions": [{"type": "type", "text": "a", "read_back": True}]}
    answer = service.client.post("/v1/act", json=asked, headers=headers)
    assert (answer.status_code, answer.json()["value"]) == (403, "see")
    del asked["actions"][0]["read_back"]
    assert service.client.post("/v1/act", json=asked, headers=headers).status_code == 200
    recorder.until(lambda: recorder.text == "a", "one letter")


def test_the_focus_goes_where_it_is_put(service: Service, editor: Editor) -> None:
    service.client.post(f"/v1/windows/{editor.window['id']}/focus")
    (text,) = find(service, role="text", states=["multi line"])
    use(service, "focus", node=text["id"])
    service.did({"type": "type", "text": "here"}, wait={"event": "screen.settled"})
    assert find(service, role="text", states=["focused"])[0]["text"] == "here"


def test_a_program_that_hangs_costs_the_others_nothing(service: Service, editor: Editor, server: XServer) -> None:
    (text,) = find(service, role="text", states=["multi line"])
    os.kill(editor.process.pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        answer = service.client.get("/v1/accessibility?within_ms=500&depth=2").json()
        assert (answer["silent"], answer["truncated"]) == ([PROGRAM], ["time"])
        assert any(node["name"] == "xfwm4" for node in answer["nodes"])
        for route, more in (("set", {"text": "x"}), ("invoke", {}), ("focus", {})):
            asked = {"node": text["id"], "within_ms": 200, **more}
            late = service.client.post(f"/v1/accessibility/{route}", json=asked)
            assert (late.status_code, late.json()["error"]) == (504, "node")
        assert service.client.get("/v1/screen?format=jpeg").status_code == 200
        assert time.monotonic() - began < 10
    finally:
        os.kill(editor.process.pid, signal.SIGCONT)
    assert find(service, role="text", states=["multi line"])


def test_a_bus_that_went_away_is_connected_to_again(service: Service, editor: Editor, server: XServer) -> None:
    launchers = [path.name for path in Path("/proc").iterdir() if runs_bus(path, server)]
    assert len(launchers) == 1
    os.kill(int(launchers[0]), signal.SIGTERM)
    # The test's own end of waiting: what comes back tells nobody but who asks.
    until = time.monotonic() + PATIENCE
    asked = "/v1/accessibility?depth=0"
    while service.client.get(asked).status_code != 503:
        assert time.monotonic() < until, "the bus did not go"
    while service.client.get(asked).status_code != 200:
        assert time.monotonic() < until, "the bus did not come back"
    before = service.last()
    another = server.start(PROGRAM, "--disable-server")
    window = service.wait("window.appeared", match={"class": PROGRAM}, after=before)
    assert find(service, role="text", states=["multi line"], window=window["id"], application=None)
    another.kill()
    service.wait("window.closed", match={"id": window["id"]}, after=before)


def runs_bus(process: Path, server: XServer) -> bool:
    """Whether a process is the launcher of the accessibility bus of this display's session."""
    with contextlib.suppress(OSError):
        environment = (process / "environ").read_bytes().split(b"\0")
        # The bus adds its own id to the address.
        ours = any(entry.startswith(f"DBUS_SESSION_BUS_ADDRESS={server.bus}".encode()) for entry in environment)
        return ours and b"at-spi-bus-launcher" in (process / "cmdline").read_bytes()
    return False


def test_a_node_that_is_gone_is_said_to_be(service: Service, editor: Editor) -> None:
    (text,) = find(service, role="text", states=["multi line"])
    gone = {"node": text["id"].rpartition("/")[0] + "/4711", "text": "x"}
    answer = service.client.post("/v1/accessibility/set", json=gone)
    assert (answer.status_code, answer.json()["error"]) == (410, "node")


def test_no_node_is_used_while_a_person_drives(service: Service, editor: Editor, person: Person) -> None:
    (text,) = find(service, role="text", states=["multi line"])
    before = service.last()
    person.tap()
    service.wait("person.took", after=before)
    refused = service.client.post("/v1/accessibility/set", json={"node": text["id"], "text": "x"})
    assert (refused.status_code, refused.json()["error"]) == (409, "driver")


@pytest.mark.parametrize(
    ("path", "asked", "field"),
    [
        ("find", {}, "role"), ("find", {"role": "knob"}, "role"), ("find", {"states": ["loud"]}, "states"),
        ("find", {"name": "x", "node": "1"}, "node"), ("find", {"name": "x", "colour": 1}, "colour"),
        ("find", {"name": "x", "node": NODE, "application": "y"}, "node"), ("find", {"name": "x", "nodes": 0}, "nodes"),
        ("find", {"name": "x", "within_ms": 10**9}, "within_ms"), ("find", {"name": 5}, "name"),
        ("invoke", {"node": "/org/a11y"}, "node"), ("invoke", {}, "node"), ("set", {"node": NODE}, "text"),
        ("set", {"node": NODE, "value": "much"}, "value"), ("set", {"node": NODE, "text": 5}, "text"),
        ("focus", {"node": ":1.2/org/../x"}, "node"),
    ],
)  # fmt: skip
def test_a_wrong_question_is_named(service: Service, path: str, asked: dict[str, Any], field: str) -> None:
    answer = service.client.post(f"/v1/accessibility/{path}", json=asked)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"] == field
    assert answer.json()["remedy"]


@pytest.mark.parametrize("query", ["depth=-1", "nodes=0", "node=x", "window=0", "colour=red", "hidden=maybe"])
def test_a_wrong_tree_is_refused(service: Service, query: str) -> None:
    answer = service.client.get(f"/v1/accessibility?{query}")
    assert (answer.status_code, answer.json()["error"]) == (400, query.partition("=")[0])


@pytest.mark.parametrize(
    ("method", "path", "scope"),
    [
        ("GET", "", "see"),
        ("POST", "/find", "see"),
        *(("POST", f"/{path}", "act") for path in ("invoke", "set", "focus")),
    ],
)
def test_each_path_of_accessibility_wants_its_scope(service: Service, method: str, path: str, scope: str) -> None:
    headers = {"x-deskyard-session": "s1", "x-deskyard-scopes": "files" if scope == "see" else "see"}
    answer = service.client.request(method, f"/v1/accessibility{path}", headers=headers)
    assert (answer.status_code, answer.json()["value"]) == (403, scope)


def test_without_a_bus_it_is_said_and_all_else_works(server: XServer) -> None:
    alone = Service(server.display)
    try:
        answer = alone.client.get("/v1/accessibility")
        assert (answer.status_code, answer.json()["error"]) == (503, "accessibility")
        assert alone.windows() is not None
    finally:
        alone.stop()


def test_the_sdk_finds_and_uses_elements(service: Service, editor: Editor) -> None:
    with Desktop.connect(service.url) as desktop:
        tree = desktop.accessibility.tree(window=editor.window["id"])
        assert tree.nodes[0].role == "frame" and tree.nodes[0].children
        (text,) = desktop.accessibility.find(role="text", application=PROGRAM, most=1).nodes
        assert desktop.accessibility.write(text, "Grüße") == "Grüße"
        desktop.accessibility.focus(text)
        (again,) = desktop.accessibility.find(role="text", states=["focused"], application=PROGRAM).nodes
        assert (again.id, again.data["text"]) == (text.id, "Grüße")
        assert text.rectangle and text.middle == tuple(
            text.rectangle[at] + text.rectangle[at + 2] // 2 for at in (0, 1)
        )
        menu = desktop.accessibility.find(role="menu", name="help", application=PROGRAM).nodes[0]
        assert desktop.accessibility.invoke(menu) == menu.data["actions"][0]
        with pytest.raises(DesktopError) as refused:
            desktop.accessibility.set_value(text, 3)
        assert (refused.value.field, refused.value.status) == ("value", 409)
        desktop.act(actions.key("Escape"))


def test_agents_find_and_use_elements_by_the_protocol(service: Service, editor: Editor) -> None:
    async def use(tools: Tools) -> None:
        found = await tools("elements", role="text", window=editor.window["id"])
        (text,) = found["elements"]
        assert "children" not in text and "name" in found["untrusted"]
        assert (await tools("use_element", id=text["id"], text="Grüße"))["text"] == "Grüße"
        await tools("use_element", id=text["id"], focus=True)
        tree = await tools("elements", window=editor.window["id"])
        assert tree["elements"][0]["role"] == "frame" and tree["elements"][0]["children"]
        assert (await tools.refusal("use_element", id=text["id"], text="x", focus=True))["error"] == "action"
        assert (await tools.refusal("elements", role="wizard"))["error"] == "role"
        assert (await tools.refusal("use_element", id="the button"))["error"] == "node"

    talk_within(service.url, use)
