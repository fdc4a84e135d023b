"""The official client of the Model Context Protocol on our server, for tests without asyncio."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import Any

from deskyard_mcp.server import DesktopServer
from deskyard_sdk import AsyncDesktop
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.subscriptions import ResourceUpdated, Subscription
from mcp_types import ImageContent, ResourceUpdatedNotification, TextContent, TextResourceContents

PATIENCE = 60.0
# The protocol's revisions before 2026-07-28, and the newest that both know.
MODES = ("legacy", "auto")
Use = Callable[["Tools"], Awaitable[None]]


class Refused(AssertionError):
    """A tool answered that it does not; `facts` say why."""

    def __init__(self, facts: dict[str, Any]) -> None:
        super().__init__(str(facts))
        self.facts = facts


class Updates:
    """The resources that a client was said to have changed, in their order."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[str] = asyncio.Queue()

    async def hear(self, message: object) -> None:
        """Take a notification, as the older revisions send it."""
        if isinstance(message, ResourceUpdatedNotification):
            self._queue.put_nowait(message.params.uri)

    async def follow(self, subscription: Subscription) -> None:
        """Take them from a stream of the newest revision, to its end."""
        async for event in subscription:
            assert isinstance(event, ResourceUpdated)
            self._queue.put_nowait(event.uri)

    async def next(self) -> str:
        """The next; it must come."""
        return await asyncio.wait_for(self._queue.get(), PATIENCE)

    def rest(self) -> list[str]:
        """Those that came and that nobody took."""
        return [self._queue.get_nowait() for _ in range(self._queue.qsize())]


async def to_the_end(subscription: Subscription) -> list[object]:
    """What a stream of the newest revision still brings until the server ends it."""
    async with asyncio.timeout(PATIENCE):
        return [event async for event in subscription]


class Tools:
    """What a client sees of a server: its tools by their names."""

    def __init__(self, client: Client, updates: Updates) -> None:
        self.client = client
        self.updates = updates
        self.picture: ImageContent | None = None

    @contextlib.asynccontextmanager
    async def subscribed(self, *uris: str) -> AsyncIterator[Updates]:
        """Be subscribed to resources, as the client's revision has it; over at the end."""
        if self.client.protocol_version < "2026":
            for uri in uris:
                await self.client.subscribe_resource(uri)
            yield self.updates
            for uri in uris:
                await self.client.unsubscribe_resource(uri)
            return
        async with self.client.listen(resource_subscriptions=uris) as subscription:
            following = asyncio.create_task(self.updates.follow(subscription))
            yield self.updates
            following.cancel()
            await asyncio.wait([following])

    async def read(self, uri: str) -> dict[str, Any]:
        """A resource that is JSON."""
        (content,) = (await self.client.read_resource(uri)).contents
        assert isinstance(content, TextResourceContents) and content.mime_type == "application/json"
        return dict(json.loads(content.text))

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


def talk(server: str | StdioServerParameters | Any, use: Use, mode: str = "auto") -> None:
    """Use a server: one that is started by a command, one at a URL, or by any transport of the client."""

    async def talking() -> None:
        async with client_of(server, mode) as tools:
            await use(tools)

    asyncio.run(talking())


@contextlib.asynccontextmanager
async def client_of(server: Any, mode: str = "auto", user: Any = None) -> AsyncIterator[Tools]:
    """A client of a server; several may be there at once."""
    updates = Updates()
    # A stream's frames come to this handler, too.
    handler = updates.hear if mode == "legacy" else None
    async with Client(server, mode=mode, message_handler=handler, elicitation_callback=user) as client:
        yield Tools(client, updates)


def talk_within(
    link: str, use: Use, ca: str | None = None, ask: Collection[str] = (), user: Any = None, mode: str = "auto"
) -> None:
    """Use a server in this process, on the desktop behind a link; `user` answers what it asks."""

    async def talking() -> None:
        async with (
            await AsyncDesktop.connect(link, ca) as desktop,
            client_of(DesktopServer(desktop, ask), mode, user) as tools,
        ):
            await use(tools)

    asyncio.run(talking())
