"""Streams: the screen, a part of it, or one window, as any viewer of VNC may look at it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from websockets.asyncio.client import ClientConnection

from deskyard_sdk.door import Door


@dataclass(frozen=True)
class Stream:
    """A stream; `kind` is screen, region or window, `path` where its WebSocket is at the service.

    `link` is for people: it shows the stream in a browser that has a session for the desktop (`access.grant`), and
    lets nobody in by itself. Nothing where the service is asked from inside the desktop.
    """

    id: str
    path: str
    kind: str
    size: tuple[int, int]
    viewers: int
    window: str | None = None
    region: tuple[int, ...] | None = None
    link: str | None = None

    @staticmethod
    def of(answer: dict[str, Any]) -> "Stream":
        """The stream of an answer."""
        width, height = answer["size"]
        window, region = answer.get("window"), answer.get("region")
        return Stream(
            str(answer["id"]),
            str(answer["path"]),
            str(answer["kind"]),
            (width, height),
            int(answer["viewers"]),
            str(window) if window is not None else None,
            tuple(region) if region is not None else None,
            str(answer["link"]) if "link" in answer else None,
        )


class AsyncStreams:
    """Makes, lists, opens and ends streams; whoever may see the desktop may look at each."""

    def __init__(self, door: Door) -> None:
        self._door = door

    async def create(self, window: str | int | None = None, region: Sequence[int] | None = None) -> Stream:
        """Make a stream of a window or region, or of the whole screen; it ends with its window."""
        asked = {"window": window, "region": list(region) if region is not None else None}
        given = {name: value for name, value in asked.items() if value is not None}
        return Stream.of(await self._door.json("POST", "/v1/streams", json=given))

    async def list(self) -> "list[Stream]":
        """The streams that there are."""
        return [Stream.of(stream) for stream in (await self._door.json("GET", "/v1/streams"))["streams"]]

    async def get(self, id: str) -> Stream:
        """A stream as it is now; raises with the reason (410) when it is over."""
        return Stream.of(await self._door.json("GET", f"/v1/streams/{id}"))

    async def delete(self, stream: str | Stream) -> None:
        """End a stream, with those who look at it."""
        await self._door.json("DELETE", f"/v1/streams/{_id(stream)}")

    async def open(self, stream: str | Stream) -> ClientConnection:
        """Look at a stream: a WebSocket whose binary messages are RFB 3.8; what is typed into it goes nowhere."""
        return await self._door.socket(f"/v1/streams/{_id(stream)}")


def _id(stream: str | Stream) -> str:
    return stream.id if isinstance(stream, Stream) else stream
