"""The MCP server of a session through a real gateway, on the real service for files and processes behind it."""

from pathlib import Path

import pytest
from deskyard_sdk import Desktop, DesktopError
from mcp import MCPError

from tests.gateway.support import Gateway
from tests.support.mcp_client import MODES, Tools, talk_within, to_the_end


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


@pytest.mark.parametrize("mode", MODES)
def test_a_subscription_through_the_door_hears_and_ends_with_the_grant(
    lived: Gateway, authority: str, mode: str
) -> None:
    granted = lived.grant("d1", mode="agent", scopes=["shell"])

    async def use(tools: Tools) -> None:
        started = [(await tools("start", command=["sleep", "600"]))["id"] for _ in range(2)]
        first, second = (f"deskyard://processes/{id}" for id in started)
        async with tools.subscribed(first) as updates:
            await tools("process", id=started[0], signal="KILL", within_seconds=0.1)
            assert await updates.next() == first
        if mode == "legacy":
            lived.revoke(granted["id"])
            with pytest.raises(MCPError) as refused:
                await tools.client.subscribe_resource(second)
            assert refused.value.error.data["status"] == 401
            return
        async with tools.client.listen(resource_subscriptions=[second]) as subscription:
            lived.revoke(granted["id"])
            assert await to_the_end(subscription) == []

    talk_within(granted["url"], use, authority, mode=mode)
