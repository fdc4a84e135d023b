"""The stream of E2B's unmodified desktop package: who has its key is led to the desktop, through a real gateway."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from deskyard_e2b import stream
from deskyard_e2b.naming import sandbox_of
from deskyard_sdk import DesktopError
from deskyard_sdk.mission import AsyncMissionControl, DesktopState
from e2b_desktop import Sandbox, main

from tests.gateway.support import Gateway
from tests.gateway.test_e2b import KEY, Played
from tests.support import npm
from tests.support.e2b_door import Served, served

DOMAIN = "e2b.example.test"
MACHINE = "0a1b2c3d4e5f6071"
# What the package starts: they note what they are called with, and whether a VNC server runs.
SHIMS = {
    "x11vnc": 'echo "$@" >> ~/called; case "$1" in -bg) touch ~/runs ;; esac',
    "pgrep": "test -e ~/runs",
    "pkill": "rm ~/runs",
    "netstat": 'echo "tcp 0 0 127.0.0.1:6080 "',
}


class Machines(Played):
    """The same, where the desktop at a seat is of one machine, which may have changed since."""

    machine = MACHINE

    async def desktop(self, id: str) -> DesktopState:
        found = await super().desktop(id)
        return {**found, "machine": self.machine} if id == "demo.seat" else found


@pytest.fixture
def states() -> dict[str, str]:
    return {"demo.d1": "ready", "demo.seat": "ready"}


@pytest.fixture
def door(lived: Gateway, authority: str, states: dict[str, str], tmp_path: Path) -> Iterator[Served]:
    async def opens(key: str) -> AsyncMissionControl:
        if key != KEY:
            raise DesktopError("caller", "", "is not known here", "sign in", 401)
        return Machines(lived, states, authority)

    with served(tmp_path / "e2b.sqlite", opens, domain=DOMAIN) as found:
        yield found


@pytest.fixture
def desktop(door: Served) -> Iterator[Sandbox]:
    """A desktop of the package, with what it starts in place."""
    yield from prepared(door, "demo--d1")


def prepared(door: Served, id: str) -> Iterator[Sandbox]:
    """A sandbox that is connected to, as one that the package created is."""
    found = Sandbox.connect(id, **door.with_key(KEY))
    # Only `create` sets these, after it has started a screen and a session of its own.
    found._display = ":0"
    found._Sandbox__vnc_server = main._VNCServer(found)
    for name, text in SHIMS.items():
        found.files.write(f"shims/{name}", f"#!/bin/sh\n{text}\n")
    found.commands.run("chmod +x ~/shims/*; rm -f ~/called ~/runs")
    found.files.write(".bash_profile", 'export PATH="$HOME/shims:$PATH"\n')
    yield found
    found.files.remove(".bash_profile")


def begun(desktop: Sandbox, **options: Any) -> Any:
    """Its stream, which goes on."""
    desktop.stream.start(**options)
    return desktop.stream


def opened(door: Served, url: str, method: str = "GET") -> httpx.Response:
    """What a browser is answered that asks for an address; its name leads to the program."""
    place = urlsplit(url)
    return httpx.request(method, f"{door.url}{place.path}?{place.query}", headers={"Host": place.netloc})


def facts(lived: Gateway, answer: httpx.Response) -> dict[str, Any]:
    """What the link of an answer opens, which it does once."""
    assert answer.status_code == 302, answer.text
    assert (answer.headers["Cache-Control"], answer.headers["Referrer-Policy"]) == ("no-store", "no-referrer")
    place, _, ticket = answer.headers["Location"].partition("#")
    assert place.startswith(lived.origin)
    status, found, _ = lived.redeem(ticket)
    assert status == 200, found
    assert lived.redeem(ticket)[0] != 200
    return found


def refused(answer: httpx.Response, status: int = 401, says: str = "require_auth=True") -> bool:
    """Whether a browser gets no link, but why."""
    assert "Location" not in answer.headers
    assert answer.headers["Content-Type"].startswith("text/plain")
    return answer.status_code == status and says in answer.text


def test_the_address_of_a_stream_leads_to_the_desktop_once_for_who_has_its_key(
    lived: Gateway, door: Served, desktop: Sandbox
) -> None:
    shown = begun(desktop, require_auth=True)
    url = shown.get_url(auth_key=shown.get_auth_key())
    assert urlsplit(url).netloc == f"6080-demo--d1.{DOMAIN}"
    assert facts(lived, opened(door, url))["mode"] == "drive"
    seen = facts(lived, opened(door, shown.get_url(auth_key=shown.get_auth_key(), view_only=True)))
    assert (seen["mode"], seen["desktop"]) == ("view", "d1")


def test_the_javascript_package_s_address_leads_there_too(
    lived: Gateway, door: Served, desktop: Sandbox, e2b_packages: Path
) -> None:
    def url(*, require_auth: bool) -> str:
        said = {"id": desktop.sandbox_id, "requireAuth": require_auth, "options": door.for_javascript(KEY)}
        return npm.run(e2b_packages, "stream.mjs", said)

    assert facts(lived, opened(door, url(require_auth=True)))["mode"] == "drive"
    desktop.stream.stop()
    assert refused(opened(door, url(require_auth=False)))


def test_without_the_key_nobody_is_led_anywhere(door: Served, desktop: Sandbox) -> None:
    shown = begun(desktop, require_auth=True)
    key = shown.get_auth_key()
    for url in (
        shown.get_url(),
        shown.get_url(auth_key="A" * 16),
        shown.get_url(auth_key=key[:-1]),
        shown.get_url(auth_key=key).replace("demo--d1", "demo--nobody"),
        shown.get_url(auth_key=key).replace("demo--d1", "demo--seat"),
    ):
        assert refused(opened(door, url)), url
    assert refused(opened(door, shown.get_url(auth_key=key), "HEAD"), 405, "")
    assert refused(opened(door, shown.get_url(auth_key=key), "POST"), 405, "open it in a browser")
    assert opened(door, shown.get_url(auth_key=key).replace("6080-", "49983-")).status_code == 401, "E2B's own daemon"
    other = opened(door, shown.get_url(auth_key=key).replace("/vnc.html", "/"))
    assert (other.status_code, other.json()["code"]) == (401, 401)


def test_a_stream_without_a_key_is_shown_to_nobody(door: Served, desktop: Sandbox) -> None:
    shown = begun(desktop)
    assert refused(opened(door, shown.get_url()))
    assert refused(opened(door, shown.get_url(auth_key="None")))
    shown.stop()
    first = begun(desktop, require_auth=True).get_auth_key()
    shown.stop()
    # The package goes on with its option, and gives the word "None" for the key.
    assert refused(opened(door, begun(desktop).get_url(auth_key="None")))
    assert refused(opened(door, shown.get_url(auth_key=first)))


def test_a_desktop_hears_another_key_and_the_file_none(door: Served, desktop: Sandbox) -> None:
    key = begun(desktop, require_auth=True).get_auth_key()
    called = desktop.files.read("called").split()
    assert called[0] == "-storepasswd" and called[2].endswith("/.vnc/passwd")
    assert stream.KEY.fullmatch(called[1]) and called[1] != key
    assert refused(opened(door, desktop.stream.get_url(auth_key=called[1])))
    assert key.encode() not in door.state.read_bytes()


@pytest.mark.parametrize("ending", ["stop", "again", "restart", "files", "hour"])
def test_a_key_opens_nothing_once_its_stream_is_over(
    lived: Gateway, door: Served, desktop: Sandbox, states: dict[str, str], ending: str
) -> None:
    shown = begun(desktop, require_auth=True)
    url = shown.get_url(auth_key=shown.get_auth_key())
    assert facts(lived, opened(door, url))
    if ending in ("stop", "again"):
        shown.stop()
    if ending == "again":
        next_url = begun(desktop, require_auth=True).get_url(auth_key=shown.get_auth_key())
        assert facts(lived, opened(door, next_url))
    elif ending == "restart":
        door.restart()
        door.connect(KEY, "demo--d1")
    elif ending == "files":
        desktop.pause(keep_memory=False)
        # Somebody starts it by another way than the program's.
        states["demo.d1"] = "ready"
    elif ending == "hour":
        assert door.program is not None
        streams = door.program.ending.sandboxes.streams
        now = streams.clock()
        streams.clock = lambda: now + stream.KEY_SECONDS - 1
        assert facts(lived, opened(door, url))
        streams.clock = lambda: now + stream.KEY_SECONDS + 1
    assert refused(opened(door, url))


def test_a_stream_goes_on_with_what_was_paused(lived: Gateway, door: Served, desktop: Sandbox) -> None:
    shown = begun(desktop, require_auth=True)
    url = shown.get_url(auth_key=shown.get_auth_key())
    desktop.pause()
    assert refused(opened(door, url), 409, "is paused")
    Sandbox.connect(desktop.sandbox_id, **door.with_key(KEY))
    assert facts(lived, opened(door, url))


def test_a_sandbox_that_is_killed_takes_its_stream_along(door: Served, states: dict[str, str]) -> None:
    made = door.create(KEY)
    for desktop in prepared(door, made.sandbox_id):
        url = begun(desktop, require_auth=True).get_url(auth_key=desktop.stream.get_auth_key())
        assert opened(door, url).status_code == 302
    assert made.kill()
    assert refused(opened(door, url))
    # Another desktop of the same name is another sandbox.
    states[made.sandbox_id.replace("--", ".", 1)] = "ready"
    door.connect(KEY, made.sandbox_id)
    assert refused(opened(door, url))


def test_the_next_machine_at_a_seat_is_not_shown(door: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    for desktop in prepared(door, sandbox_of("demo.seat", MACHINE)):
        url = begun(desktop, require_auth=True).get_url(auth_key=desktop.stream.get_auth_key())
        assert opened(door, url).status_code == 302
        with monkeypatch.context() as later:
            later.setattr(Machines, "machine", "0f" * 8)
            assert refused(opened(door, url), 404, "was not found")


def test_who_lost_the_key_of_mission_control_leads_nobody(
    door: Served, desktop: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = begun(desktop, require_auth=True).get_url(auth_key=desktop.stream.get_auth_key())

    async def revoked(*_: Any, **__: Any) -> str:
        raise DesktopError("caller", "", "is not known here", "sign in", 401)

    with monkeypatch.context() as later:
        later.setattr(Machines, "link", revoked)
        assert refused(opened(door, url), 401, "sign in")
    assert refused(opened(door, url)), "its key was forgotten"
    door.connect(KEY, "demo--d1")
    assert opened(door, url).status_code == 302
