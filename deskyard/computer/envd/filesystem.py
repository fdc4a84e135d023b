"""E2B's Filesystem service: entries, directories, and watches of them."""

import asyncio
import os
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.routing import BaseRoute

from deskyard.computer.caller import caller
from deskyard.computer.envd import metadata
from deskyard.computer.envd.accounts import require_account
from deskyard.computer.envd.connect import Message, server_stream, silence, unary
from deskyard.computer.fields import Fields
from deskyard.computer.problem import Problem
from deskyard.computer.streams import or_silence
from deskyard.computer.work import files, watches
from deskyard.computer.work.entries import DIRECTORY, FILE, Entry, below, look
from deskyard.computer.work.paths import refusals, resolve
from deskyard.computer.work.watches import Change, Watches
from deskyard.wire.computer import FILES

SERVICE = "/filesystem.Filesystem"
TYPES = {FILE: "FILE_TYPE_FILE", DIRECTORY: "FILE_TYPE_DIRECTORY"}
# E2B's clients know five kinds of events; a file that is closed is none of them.
EVENTS = {
    watches.CREATED: "EVENT_TYPE_CREATE",
    watches.MOVED_HERE: "EVENT_TYPE_CREATE",
    watches.CHANGED: "EVENT_TYPE_WRITE",
    watches.REMOVED: "EVENT_TYPE_REMOVE",
    watches.MOVED_AWAY: "EVENT_TYPE_RENAME",
    watches.ATTRIBUTES: "EVENT_TYPE_CHMOD",
}


class Filesystem:
    """The service's methods."""

    def __init__(self, home: Path, watched: Watches) -> None:
        self._home = home
        self._watches = watched
        self._with_entries: set[str] = set()

    def routes(self) -> list[BaseRoute]:
        """All of them."""
        return [
            unary(f"{SERVICE}/Stat", self.stat),
            unary(f"{SERVICE}/MakeDir", self.make_dir),
            unary(f"{SERVICE}/Move", self.move),
            unary(f"{SERVICE}/ListDir", self.list_dir),
            unary(f"{SERVICE}/Remove", self.remove),
            unary(f"{SERVICE}/CreateWatcher", self.create_watcher),
            unary(f"{SERVICE}/GetWatcherEvents", self.get_watcher_events),
            unary(f"{SERVICE}/RemoveWatcher", self.remove_watcher),
            server_stream(f"{SERVICE}/WatchDir", self.watch_dir),
        ]

    async def stat(self, request: Request, message: Message) -> Message:
        """Describe the file, directory or link at a path."""
        path = self._path(request, message)
        return {"entry": await asyncio.to_thread(_entry_at, path)}

    async def make_dir(self, request: Request, message: Message) -> Message:
        """Make a directory, with those above it."""
        path = self._path(request, message)
        await asyncio.to_thread(files.make_directory, path, True)
        return {"entry": await asyncio.to_thread(_entry_at, path)}

    async def move(self, request: Request, message: Message) -> Message:
        """Move an entry; what stands at the destination gives way, as with rename(2)."""
        source, destination = self._path(request, message, "source"), self._path(request, message, "destination")
        with refusals(destination.parent, "destination"):
            await asyncio.to_thread(destination.parent.mkdir, parents=True, exist_ok=True)
        await asyncio.to_thread(files.move, source, destination, True)
        return {"entry": await asyncio.to_thread(_entry_at, destination)}

    async def list_dir(self, request: Request, message: Message) -> Message:
        """List a directory, down to a depth; 0 means 1."""
        path, depth = self._path(request, message), Fields(message).integer("depth", 0, 1 << 32, 1)
        # Deeper than any path can be is all the same.
        entries, cut = await asyncio.to_thread(below, path, max(1, min(depth, files.DEEPEST)))
        if cut:
            remedy = "list with less depth"
            raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "path", str(path), "holds too much to list", remedy)
        return {"entries": await asyncio.to_thread(_described_all, entries)}

    async def remove(self, request: Request, message: Message) -> Message:
        """Remove an entry with all that is below it; that it is not there is no error."""
        path = self._path(request, message)
        if await asyncio.to_thread(os.path.lexists, path):
            await asyncio.to_thread(files.remove, path, True)
        return {}

    async def create_watcher(self, request: Request, message: Message) -> Message:
        """Watch a directory until `RemoveWatcher`."""
        name, _ = self._watches.start(self._path(request, message), message.get("recursive") is True)
        if message.get("includeEntry") is True:
            self._with_entries.add(name)
        return {"watcherId": name}

    async def get_watcher_events(self, request: Request, message: Message) -> Message:
        """List the changes since the last request."""
        _require(request)
        name = str(message.get("watcherId", ""))
        watch = self._watches.find(name)
        return {"events": _events(watch.root, watch.taken(), name in self._with_entries)}

    async def remove_watcher(self, request: Request, message: Message) -> Message:
        """Watch no more."""
        _require(request)
        name = str(message.get("watcherId", ""))
        self._with_entries.discard(name)
        self._watches.find(name)
        self._watches.stop(name)
        return {}

    async def watch_dir(self, request: Request, message: Message) -> AsyncIterator[Message]:
        """The changes in a directory as they happen."""
        path, with_entries = self._path(request, message), message.get("includeEntry") is True
        name, watch = self._watches.start(path, message.get("recursive") is True)
        try:
            yield {"start": {}}
            async for changes in or_silence(watch.next, silence(request)):
                if changes is None:
                    yield {"keepalive": {}}
                    continue
                if not changes:
                    return
                for event in _events(watch.root, changes, with_entries):
                    yield {"filesystem": event}
        finally:
            self._watches.stop(name)

    def _path(self, request: Request, message: Message, field: str = "path") -> Path:
        _require(request)
        return Path(os.path.normpath(resolve(self._home, message.get(field), field)))


def _require(request: Request) -> None:
    caller(request).require(FILES)
    require_account(request)


def _events(root: Path, changes: list[Change], with_entries: bool) -> list[dict[str, Any]]:
    events = []
    for change in changes:
        if change.kind not in EVENTS:
            continue
        event: dict[str, Any] = {"name": change.path, "type": EVENTS[change.kind]}
        if with_entries and os.path.lexists(root / change.path):
            event["entry"] = _entry_at(root / change.path)
        events.append(event)
    return events


def _described_all(entries: list[Entry]) -> list[Message]:
    return [_described(entry) for entry in entries]


def _entry_at(path: Path) -> Message:
    return _described(look(path))


def _described(entry: Entry) -> Message:
    """An entry as protobuf's JSON has it."""
    described: Message = {
        "name": entry.name,
        "type": TYPES.get(entry.type, "FILE_TYPE_UNSPECIFIED"),
        "path": entry.path,
        "size": str(entry.size),
        "mode": entry.mode,
        "permissions": entry.permissions,
        "owner": entry.owner,
        "group": entry.group,
        "modifiedTime": entry.modified.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }
    if entry.link is not None:
        described["symlinkTarget"] = entry.link
    if notes := metadata.read(Path(entry.path)):
        described["metadata"] = notes
    return described
