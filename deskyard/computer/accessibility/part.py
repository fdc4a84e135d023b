"""Accessibility as a part of the service: the programs' trees, read, searched and used through their own names."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus

from starlette.requests import Request
from starlette.routing import BaseRoute, Route

from deskyard.computer.accessibility import nodes
from deskyard.computer.accessibility.bus import Bus, Late, Reference, Refused, reference
from deskyard.computer.accessibility.readiness import Readiness
from deskyard.computer.accessibility.search import Found, Search, Sought, Window
from deskyard.computer.accessibility.texts import Texts
from deskyard.computer.answers.answered import Answered
from deskyard.computer.answers.screen import Did, Nodes, Used
from deskyard.computer.caller import caller
from deskyard.computer.claims import digest
from deskyard.computer.display.events import READY
from deskyard.computer.display.part import Display
from deskyard.computer.display.spaces import window_id
from deskyard.computer.fields import Fields, body, query, wrong
from deskyard.computer.problem import Problem, described
from deskyard.wire.computer import ACT, SEE

MOST_NODES = 5000
MOST_DEPTH = 100
MOST_WITHIN_MS = 60_000
MOST_TEXT = 20_000
BIGGEST = 1e15


class Accessibility:
    """The accessibility bus of the session whose screen `display` is."""

    def __init__(self, display: Display, session: str) -> None:
        self._display = display
        self.bus = Bus(session)
        display.log.conditions[READY] = Readiness(self.bus, display.log, display.windows).wait
        display.read_back.texts = Texts(self.bus, display.window)

    def routes(self) -> Sequence[BaseRoute]:
        """The paths of accessibility."""
        return [
            Route("/v1/accessibility", self._tree, methods=["GET"]),
            Route("/v1/accessibility/find", self._find, methods=["POST"]),
            Route("/v1/accessibility/invoke", self._invoke, methods=["POST"]),
            Route("/v1/accessibility/set", self._set, methods=["POST"]),
            Route("/v1/accessibility/focus", self._focus, methods=["POST"]),
        ]

    def running(self) -> AbstractAsyncContextManager[None]:
        """The connection to the bus."""
        return self._running()

    @contextlib.asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        async with self.bus.running():
            yield

    async def _tree(self, request: Request) -> Answered[Nodes]:
        caller(request).require(SEE)
        fields = query(request)
        sought = await self._sought(fields)
        depth = fields.integer("depth", 0, MOST_DEPTH, 40)
        details = fields.flag("details", False)
        search = self._search(fields, 1000)
        fields.done()
        return await self._answered(search.tree(sought, depth, details))

    async def _find(self, request: Request) -> Answered[Nodes]:
        caller(request).require(SEE)
        fields = await body(request)
        sought = await self._sought(fields, looks_for=True)
        search = self._search(fields, 50)
        fields.done()
        return await self._answered(search.find(sought))

    def _search(self, fields: Fields, most: int) -> Search:
        seconds = fields.integer("within_ms", 1, MOST_WITHIN_MS, 10_000) / 1000
        return Search(self.bus, seconds, fields.integer("nodes", 1, MOST_NODES, most))

    async def _sought(self, fields: Fields, looks_for: bool = False) -> Sought:
        """Read from a request which nodes to look for, and where."""
        application = fields.text("application") if fields.given("application") else None
        window = await self._window(fields) if fields.given("window") else None
        within = reference(fields.take("node"), fields.at("node")) if fields.given("node") else None
        if within and (application or window):
            raise wrong(fields.at("node"), within.id, "stands beside application or window", "give the node alone")
        hidden = fields.flag("hidden", False)
        if not looks_for:
            return Sought(application, window, within, hidden=hidden)
        role = fields.text("role") if fields.given("role") else None
        role = nodes.OLD_NAMES.get(role, role) if role else role
        if role is not None and role not in nodes.ROLES:
            raise wrong(fields.at("role"), role, "is no role", f"give one of: {', '.join(nodes.ROLES)}")
        name = fields.text("name") if fields.given("name") else None
        states = tuple(fields.list("states", len(nodes.STATES), []))
        for state in states:
            if state not in nodes.STATES:
                raise wrong(fields.at("states"), state, "is no state", f"give some of: {', '.join(nodes.STATES)}")
        if role is None and name is None and not states:
            raise wrong(fields.at("role"), None, "is missing beside name and states", "give at least one of them")
        return Sought(application, window, within, role, name, fields.flag("exact", False), states, hidden)

    async def _window(self, fields: Fields) -> Window:
        where = fields.at("window")
        facts = await self._display.window(window_id(fields.take("window"), where), where)
        return Window(facts["pid"], facts["title"])

    async def _answered(self, searching: Awaitable[Found]) -> Answered[Nodes]:
        try:
            found = await searching
        except Refused as error:
            raise _gone("node", error) from error
        except Late:
            raise _late("accessibility", None) from None
        return Answered(found.described(self._display.log.last))

    async def _invoke(self, request: Request) -> Answered[Used]:
        async def do(at: Reference, fields: Fields, seconds: float) -> Did:
            asked = fields.text("action") if fields.given("action") else None
            fields.done()
            names = await nodes.actions(self.bus, at, seconds) if await self._has(at, "Action", seconds) else []
            index = _index(names, asked)
            (done,) = await self.bus.call(at, "Action", "DoAction", seconds, "i", (index,))
            _must(done, "action", names[index])
            return {"action": names[index]}

        return await self._used(request, "invoke", do)

    async def _set(self, request: Request) -> Answered[Used]:
        async def do(at: Reference, fields: Fields, seconds: float) -> Did:
            if fields.has("value"):
                value = fields.number("value", -BIGGEST, BIGGEST)
                fields.done()
                return await self._set_value(at, value, seconds)
            text = fields.text("text", most=MOST_TEXT)
            fields.done()
            return await self._set_text(at, text, seconds)

        return await self._used(request, "set", do)

    async def _set_value(self, at: Reference, value: float, seconds: float) -> Did:
        if not await self._has(at, "Value", seconds):
            raise Problem(HTTPStatus.CONFLICT, "value", at.id, "is of a node without one", "use keys or actions")
        await self.bus.set(at, "Value", "CurrentValue", value, seconds)
        return {"value": (await self.bus.properties(at, "Value", seconds)).get("CurrentValue")}

    async def _set_text(self, at: Reference, text: str, seconds: float) -> Did:
        if not await self._has(at, "EditableText", seconds):
            reason = "is of a node whose program lets no other write into it"
            remedy = "focus the node, then act: key ctrl+a, and type"
            raise Problem(HTTPStatus.CONFLICT, "text", None, reason, remedy)
        if "\0" in text:
            raise wrong("text", None, "has a NUL", "leave it out")
        (done,) = await self.bus.call(at, "EditableText", "SetTextContents", seconds, "s", (text,))
        _must(done, "text", None)
        return {"text": await nodes.text(self.bus, at, seconds), "untrusted": ["text"]}

    async def _focus(self, request: Request) -> Answered[Used]:
        async def do(at: Reference, fields: Fields, seconds: float) -> Did:
            fields.done()
            (done,) = await self.bus.call(at, "Component", "GrabFocus", seconds)
            _must(done, "node", at.id)
            return {}

        return await self._used(request, "focus", do)

    async def _has(self, at: Reference, interface: str, seconds: float) -> bool:
        return interface in await nodes.interfaces(self.bus, at, seconds)

    async def _used(
        self, request: Request, kind: str, do: Callable[[Reference, Fields, float], Awaitable[Did]]
    ) -> Answered[Used]:
        """Do something with the node that a request names, unless a person drives; all of it is recorded."""
        who = caller(request)
        who.require(ACT)
        fields = await body(request)
        at = reference(fields.take("node"), "node")
        seconds = fields.integer("within_ms", 1, MOST_WITHIN_MS, 10_000) / 1000
        note = {"kind": f"accessibility.{kind}", "session": who.session, "scope": ACT, "node": at.id}
        if isinstance(text := fields.peek("text"), str):
            note["text_sha256"] = digest(text)
        self._display.drive.check()
        event = self._display.log.last
        try:
            async with asyncio.timeout(seconds):
                answer = await do(at, fields, seconds)
        except Problem as problem:
            self._display.sink.note(note | {"ok": False, "error": described(problem)["error"]})
            raise
        except (Late, TimeoutError):
            self._display.sink.note(note | {"ok": False, "error": "late"})
            raise _late("node", at.id) from None
        except Refused as error:
            self._display.sink.note(note | {"ok": False, "error": "gone"})
            raise _gone(at.id, error) from error
        self._display.sink.note(note | {"ok": True})
        return Answered({"ok": True, **answer, "event": event})


def _index(names: list[str], asked: str | None) -> int:
    """Which of the actions is meant; the first where none is named."""
    if not names:
        raise Problem(HTTPStatus.CONFLICT, "node", None, "has no actions", "click the middle of its rectangle")
    if asked is None:
        return 0
    found = [index for index, name in enumerate(names) if name.lower() == asked.lower()]
    if not found:
        raise wrong("action", asked, "is none of the node's", f"give one of: {', '.join(names)}")
    return found[0]


def _must(done: object, field: str, value: object) -> None:
    if not done:
        reason = "was not taken by the program"
        raise Problem(HTTPStatus.CONFLICT, field, value, reason, "look at the node's states, and at the screen")


def _late(field: str, value: object) -> Problem:
    reason = "was not answered for in time: its program hangs or is busy"
    remedy = "look at the screen, then ask again with more within_ms; an action may have been done"
    return Problem(HTTPStatus.GATEWAY_TIMEOUT, field, value, reason, remedy)


def _gone(value: object, error: Refused) -> Problem:
    reason = f"is not there any more ({error})"
    return Problem(HTTPStatus.GONE, "node", value, reason, "look for the node again")
