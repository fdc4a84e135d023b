"""Resources: the screen, its windows, what happened lately, and a process, as they are when they are read."""

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from deskyard_sdk import AsyncDesktop, DesktopError

from deskyard_mcp.answers import LOOK, MOST_TEXT
from deskyard_mcp.seeing import MOST_EVENTS, happened_after, windows
from deskyard_mcp.working import process_facts

SCREEN, WINDOWS, EVENTS = "deskyard://screen", "deskyard://windows", "deskyard://events"
PROCESS = "deskyard://processes/{id}"
JSON = "application/json"


@dataclass(frozen=True)
class Resource:
    """A resource, or a template of many: the scope that it needs, where it is, how it is read, and when it changes."""

    scope: str
    uri: str
    name: str
    read: Callable[..., Awaitable[str | bytes]]
    mime_type: str
    description: str

    def names(self, uri: str) -> bool:
        """Whether it is what a URI names."""
        return re.fullmatch(re.escape(self.uri).replace(r"\{id\}", "[^/]+"), uri) is not None


class Resources:
    """The resources of a desktop, with what a session's scopes leave of them."""

    def __init__(self, desktop: AsyncDesktop, scopes: Sequence[str]) -> None:
        self._desktop, self._scopes = desktop, scopes

    def all(self) -> Sequence[Resource]:
        """All that there are."""
        screen = "The screen as it is now; updated when something was drawn and it is at rest again"
        windows = "The windows; updated when they come, go, move, or change their titles or the focus"
        events = "What happened lately, the newest at the end; updated by each event. The tool `events` has the rest"
        process = "A process that was started; updated when it has ended"
        return [
            Resource("see", SCREEN, "screen", self._screen, "image/jpeg", screen),
            Resource("see", WINDOWS, "windows", self._windows, JSON, windows),
            Resource("see", EVENTS, "events", self._events, JSON, events),
            Resource("shell", PROCESS, "process", self._process, JSON, process),
        ]

    def allowed(self) -> Sequence[Resource]:
        """Those that the session may read."""
        return [resource for resource in self.all() if resource.scope in self._scopes]

    def check(self, uri: str) -> None:
        """Raise `DesktopError` for what is no resource, or needs a scope that the session has not."""
        resource = next((resource for resource in self.all() if resource.names(uri)), None)
        if resource is None:
            known = ", ".join(resource.uri for resource in self.allowed()) or "none: there are tools alone"
            raise DesktopError("uri", uri, "is no resource", f"use one of: {known}")
        if resource.scope not in self._scopes:
            reason = f"needs the scope {resource.scope}, which this session has not"
            scopes = ",".join([*self._scopes, resource.scope])
            raise DesktopError("uri", uri, reason, f"ask for a link with --scopes {scopes}")

    async def _screen(self) -> bytes:
        return (await self._desktop.screen(**LOOK)).data or b""

    async def _windows(self) -> str:
        return json.dumps(await windows(self._desktop), ensure_ascii=False)

    async def _events(self) -> str:
        last = await self._desktop.last_event()
        after = max(0, last - MOST_EVENTS)
        newest, size = list[str](), 0
        for event in reversed(await happened_after(self._desktop, after, last)):
            text = json.dumps(event, ensure_ascii=False)
            size += len(text)
            if size > MOST_TEXT:
                after = event["seq"]
                break
            newest.append(text)
        return f'{{"after": {after}, "events": [{", ".join(reversed(newest))}], "event": {last}}}'

    async def _process(self, id: str) -> str:
        return json.dumps(process_facts((await self._desktop.processes.get(id)).info), ensure_ascii=False)
