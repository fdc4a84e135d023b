"""Files of the desktop; a path is below the home, or absolute."""

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable
from pathlib import Path

from deskyard_sdk.door import Door
from deskyard_sdk.errors import DesktopError
from deskyard_sdk.forms import Change, Entries, Entry, entry

CHUNK = 1 << 18


class AsyncFiles:
    """Reads, writes, lists, moves, removes and watches files."""

    def __init__(self, door: Door) -> None:
        self._door = door

    async def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """A file's content, or a part of it."""
        headers = {}
        if start or length is not None:
            headers["Range"] = f"bytes={start}-{'' if length is None else start + length - 1}"
        return await self._door.bytes("GET", "/v1/files/content", params={"path": path}, headers=headers)

    async def read_text(self, path: str) -> str:
        """A file's content as text in UTF-8."""
        return (await self.read(path)).decode()

    async def write(
        self, path: str, content: str | bytes, mode: str | None = None, parents: bool = True, overwrite: bool = True
    ) -> Entry:
        """Write a file whole or not at all; directories above it are made."""
        data = content.encode() if isinstance(content, str) else content
        return await self._put(path, data, mode, parents, overwrite)

    async def download(self, path: str, to: str | Path) -> None:
        """Copy a file of the desktop to here, however large it is."""
        async with self._door.stream("GET", "/v1/files/content", params={"path": path}) as response:
            with Path(to).open("wb") as file:
                async for chunk in response.aiter_bytes(CHUNK):
                    file.write(chunk)

    async def upload(self, source: str | Path, path: str, mode: str | None = None) -> Entry:
        """Copy a file from here to the desktop, however large it is."""

        async def chunks() -> AsyncIterator[bytes]:
            with Path(source).open("rb") as file:
                while chunk := file.read(CHUNK):
                    yield chunk

        return await self._put(path, chunks, mode, True, True)

    async def list(self, path: str = "~", depth: int = 1) -> Entries:
        """List a directory, down to a depth; the answer says whether it is `truncated`."""
        answer = await self._door.json("GET", "/v1/files", params={"path": path, "depth": depth})
        return Entries(map(entry, answer["entries"]), answer["truncated"])

    async def stat(self, path: str) -> Entry:
        """The file, directory or link at a path."""
        return entry(await self._door.json("GET", "/v1/files/entry", params={"path": path}))

    async def exists(self, path: str) -> bool:
        """Whether anything stands at a path."""

        try:
            await self.stat(path)
        except DesktopError as error:
            if error.status == 404:
                return False
            raise
        return True

    async def make_directory(self, path: str, parents: bool = True) -> Entry:
        """Make a directory."""
        return entry(await self._door.json("POST", "/v1/files/directory", json={"path": path, "parents": parents}))

    async def move(self, source: str, destination: str, overwrite: bool = False) -> Entry:
        """Move a file or directory."""
        asked = {"source": source, "destination": destination, "overwrite": overwrite}
        return entry(await self._door.json("POST", "/v1/files/move", json=asked))

    async def remove(self, path: str, recursive: bool = False) -> None:
        """Remove a file, or a directory; with all that it holds only if `recursive`."""
        await self._door.json("DELETE", "/v1/files", params={"path": path, "recursive": recursive})

    async def watch(self, path: str, recursive: bool = False) -> AsyncGenerator[Change, None]:
        """The changes in a directory, as they happen. The first is of kind `watching`: from then on none is missed."""
        async for event in self._door.events("/v1/files/events", {"path": path, "recursive": recursive}):
            yield Change(event.get("kind", "watching"), event["path"] if "kind" in event else "")

    async def add_watch(self, path: str, recursive: bool = False) -> str:
        """Have the changes in a directory told as events `file.changed`, whose `watch` is the id that is returned."""
        asked = {"path": path, "recursive": recursive}
        return str((await self._door.json("POST", "/v1/files/watches", json=asked))["id"])

    async def watches(self) -> "dict[str, str]":
        """The directories whose changes are told as events, by the ids of their watches."""
        found = (await self._door.json("GET", "/v1/files/watches"))["watches"]
        return {str(watch["id"]): str(watch["path"]) for watch in found}

    async def remove_watch(self, id: str) -> None:
        """Have a directory's changes be events no longer."""
        await self._door.json("DELETE", f"/v1/files/watches/{id}")

    async def _put(
        self,
        path: str,
        content: bytes | Callable[[], AsyncIterable[bytes]],
        mode: str | None,
        parents: bool,
        overwrite: bool,
    ) -> Entry:
        params = {"path": path, "parents": parents, "overwrite": overwrite} | ({"mode": mode} if mode else {})
        return entry(await self._door.json("PUT", "/v1/files/content", params=params, content=content))
