"""E2B's unmodified desktop client on a desktop of the image `e2b`, through the gateway."""

import io
from collections.abc import AsyncGenerator, Iterator
from typing import Any, cast

import pytest
from deskyard_sdk.mission import AsyncMissionControl, Operation, Workspace
from e2b import CommandExitException
from e2b_desktop import Sandbox
from PIL import Image

from deskyard.host.deadline import Deadline
from tests.e2e.conftest import alone, door_of
from tests.support.e2b_door import Linked, served
from tests.support.workspaces import Running

pytestmark = [pytest.mark.vm, pytest.mark.deep]

SIZE = (1000, 700)
# Each call of its client is a program that starts on an emulated machine.
ANSWER_SECONDS, WINDOW_SECONDS, PAUSE = 600.0, 900.0, 5.0
TYPED = "typed-by-e2b"


class Given(Linked):
    """Gives the desktop that runs to whoever has one created: that Mission Control makes them is shown elsewhere."""

    workspace_name = ""

    async def workspaces(self) -> AsyncGenerator[Workspace, None]:
        """Its workspace alone."""
        yield cast(Workspace, {"id": self.workspace_name, "tiers": [{"name": "free"}]})

    async def create(self, *_: object, **__: object) -> Operation:
        """Nothing: it is there."""
        return cast(Operation, {"id": "none"})

    async def wait(self, *_: object, **__: object) -> Operation:
        """Nothing was begun."""
        return cast(Operation, {"id": "none", "state": "done"})


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A workspace with one desktop of the image `e2b`."""
    with alone(tmp_path_factory.mktemp("stacks"), "e2b", "10.91.6.0/24", 18448) as running:
        yield running


@pytest.fixture(scope="module")
def sandbox(running: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A desktop as its package creates it."""
    authority = str(door_of(running).authority)

    def link(scopes: str) -> str:
        return str(running.grant("desk", "--mode", "agent", "--scopes", scopes)["url"])

    async def opens(key: str) -> AsyncMissionControl:
        found = Given(link, authority)
        found.workspace_name = running.name
        return found

    with served(tmp_path_factory.mktemp("door") / "e2b.sqlite", opens) as program:
        # Its own patience is ten seconds for a screen, which stands already.
        options: dict[str, Any] = {"request_timeout": ANSWER_SECONDS, "resolution": SIZE, "timeout": 3600}
        yield Sandbox.create(**options, **program.with_key("dyk_any"))


def test_its_screen_is_the_desktops_in_the_size_that_it_asked_for(sandbox: Sandbox) -> None:
    assert sandbox.get_screen_size() == SIZE
    assert Image.open(io.BytesIO(bytes(sandbox.screenshot()))).size == SIZE


def test_its_pointer_is_where_it_was_moved(sandbox: Sandbox) -> None:
    sandbox.move_mouse(300, 200)
    assert sandbox.get_cursor_position() == (300, 200)


def test_what_it_types_reaches_the_window_that_it_started(sandbox: Sandbox) -> None:
    sandbox.launch("xfce4-terminal")
    appeared = Deadline(WINDOW_SECONDS).wait_for(lambda: bool(_windows(sandbox, "xfce4-terminal")), PAUSE)
    assert appeared, "the terminal has shown no window"
    sandbox.write(f"touch ~/{TYPED}")
    sandbox.press("enter")
    home = sandbox.commands.run("echo ~").stdout.strip()
    assert Deadline(WINDOW_SECONDS).wait_for(lambda: sandbox.files.exists(f"{home}/{TYPED}"), PAUSE)


def test_home_is_where_its_programs_look_for_it(running: Running, sandbox: Sandbox) -> None:
    sandbox.files.write("/home/user/from-outside.txt", "Grüße")
    assert running.ssh("desk", "sudo cat /home/agent/from-outside.txt").stdout == "Grüße"


def _windows(sandbox: Sandbox, application: str) -> list[str]:
    """The windows of an application; its client ends with an error where there is none."""
    try:
        return list(sandbox.get_application_windows(application))
    except CommandExitException:
        return []
