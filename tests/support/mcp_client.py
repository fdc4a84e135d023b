"""The official client of the Model Context Protocol on our server, for tests without asyncio."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from deskyard_mcp.server import DesktopServer
from deskyard_sdk import AsyncDesktop
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp_types import ImageContent, TextContent

Use = Callable[["Tools"], Awaitable[None]]


class Refused(AssertionError):
    """A tool answered that it does not; `facts` say why."""

    def __init__(self, facts: dict[str, Any]) -> None:
        super().__init__(str(facts))
        self.facts = facts


class Tools:
    """What a client sees of a server: its tools by their names."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.picture: ImageContent | None = None

    async def names(self) -> set[str]:
        """The tools that are listed."""
        return {tool.name for tool in (await self.client.list_tools()).tools}

    async def __call__(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The facts that a tool answers; raises `Refused`. A picture that came stands in `picture`."""
        answer = await self.client.call_tool(tool, arguments)
        self.picture = next((part for part in answer.content if isinstance(part, ImageContent)), None)
        text = next(part.text for part in answer.content if isinstance(part, TextContent))
        facts: dict[str, Any] = json.loads(text)
        assert answer.structured_content == facts, "what programs read is what models read"
        if answer.is_error:
            raise Refused(facts)
        return facts

    async def refusal(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """What a tool says when it does not."""
        try:
            answer = await self(tool, **arguments)
        except Refused as refused:
            assert refused.facts["reason"] and refused.facts["remedy"]
            return refused.facts
        raise AssertionError(f"was not refused: {answer}")


def talk(server: str | StdioServerParameters | Any, use: Use) -> None:
    """Use a server: one that is started by a command, one at a URL, or by any transport of the client."""

    async def talking() -> None:
        async with Client(server) as client:
            await use(Tools(client))

    asyncio.run(talking())


def talk_within(
    link: str, use: Use, ca: str | None = None, ask: Collection[str] = (), user: Any = None, mode: str = "auto"
) -> None:
    """Use a server in this process, on the desktop behind a link; `user` answers what it asks."""

    async def talking() -> None:
        async with (
            await AsyncDesktop.connect(link, ca) as desktop,
            Client(DesktopServer(desktop, ask), elicitation_callback=user, mode=mode) as client,
        ):
            await use(Tools(client))

    asyncio.run(talking())
