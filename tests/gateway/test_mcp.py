"""The MCP server of a session through a real gateway, on the real service for files and processes behind it."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from deskyard_sdk import Desktop, DesktopError

from deskyard.computer.application import create
from deskyard.computer.work.part import Work
from tests.gateway.conftest import run_gateway
from tests.gateway.desktops import FakeDesktops
from tests.gateway.support import HOSTNAME, Gateway
from tests.support.mcp_client import Tools, talk_within

DESKTOP = "127.0.1.10"


class Lived(Gateway):
    """A gateway whose desktops' computer-use service is played by nobody."""

    def play_desktops(self) -> FakeDesktops:
        return FakeDesktops([(DESKTOP, self.ports["desktop"]), (DESKTOP, self.ports["terminal"])])


@pytest.fixture
def lived(tmp_path: Path) -> Iterator[Gateway]:
    with run_gateway(Lived()) as running:
        listening = socket.create_server((DESKTOP, running.ports["computer"]))
        config = uvicorn.Config(create([Work(tmp_path)]), log_level="warning", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        yield running
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


@pytest.fixture
def authority(lived: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The file of the gateway's CA; its name leads here."""
    find = socket.getaddrinfo

    def here(host: Any, *rest: Any, **named: Any) -> Any:
        return find("127.0.0.1" if host in (HOSTNAME, HOSTNAME.encode()) else host, *rest, **named)

    monkeypatch.setattr(socket, "getaddrinfo", here)
    (tmp_path / "ca.pem").write_text(lived.issuer.pem)
    return str(tmp_path / "ca.pem")


def test_tools_are_those_of_the_grant_and_end_with_it(lived: Gateway, authority: str) -> None:
    granted = lived.grant("d1", mode="agent", scopes=["files"])

    async def use(tools: Tools) -> None:
        assert await tools.names() == {"list_files", "read_file", "write_file"}
        await tools("write_file", path="through the door", text="Grüße")
        assert (await tools("read_file", path="through the door"))["text"] == "Grüße"
        assert (await tools.refusal("run", command="true"))["error"] == "tool"
        lived.revoke(granted["id"])
        assert (await tools.refusal("read_file", path="through the door"))["status"] == 401

    talk_within(granted["url"], use, authority)
    with pytest.raises(DesktopError):
        talk_within(granted["url"], use, authority)


def test_a_kept_session_is_gone_on_with_until_it_is_revoked(lived: Gateway, authority: str, tmp_path: Path) -> None:
    granted = lived.grant("d1", mode="agent", scopes=["files"])
    for name in ("first", "second"):
        with Desktop.connect(granted["url"], authority, tmp_path / "session") as desktop:
            desktop.files.write(name, "x")
    assert [event["event"] for event in lived.audit() if event.get("session") == granted["id"]].count("redeem") == 1
    lived.revoke(granted["id"])
    with pytest.raises(DesktopError):
        Desktop.connect(granted["url"], authority, tmp_path / "session")
