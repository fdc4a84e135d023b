"""The accessibility bus of the desktop's session: switched on, connected again when it comes back, and asked.

All of it is plain D-Bus messages in the event loop. Each call has an end of its own, so that a program that hangs holds
up nobody but who asks it.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from jeepney import (
    DBusAddress,
    DBusErrorResponse,
    HeaderFields,
    MatchRule,
    Message,
    MessageType,
    Properties,
    new_method_call,
)
from jeepney.bus_messages import message_bus
from jeepney.io.asyncio import DBusConnection, open_dbus_connection
from jeepney.io.common import RouterClosed

from deskyard.computer.fields import wrong
from deskyard.computer.problem import Problem

RETRY_SECONDS = 1.0
CONNECT_SECONDS = 20.0
SPACE = "org.a11y.atspi."
REGISTRY = DBusAddress("/org/a11y/atspi/registry", "org.a11y.atspi.Registry", f"{SPACE}Registry")
LAUNCHER = DBusAddress("/org/a11y/bus", "org.a11y.Bus", "org.a11y.Bus")
STATUS = DBusAddress("/org/a11y/bus", "org.a11y.Bus", "org.a11y.Status")
# What programs are asked to tell; each costs them a message whenever it happens.
HEARD = ("object:state-changed:focused", "object:state-changed:busy", "document:load-complete", "window:activate")

REFERENCE = re.compile(r"(:[0-9]+\.[0-9]+)((?:/[A-Za-z0-9_]+)+)")
MOST_ID = 300
GONE = "the bus went away"


class Refused(Exception):
    """A program, or the bus in its place, answered with an error."""


class Late(Exception):
    """A program did not answer in time."""


class Line:
    """One connection to a bus: calls are sent as they come, and answered in any order."""

    def __init__(self, connection: DBusConnection, hear: Callable[[Message], None]) -> None:
        self._connection = connection
        self._hear = hear
        self._waiting: dict[int, asyncio.Future[Message]] = {}

    async def run(self) -> None:
        """Take messages until the bus goes away."""
        try:
            while True:
                message = await self._connection.receive()
                future = self._waiting.pop(message.header.fields.get(HeaderFields.reply_serial, -1), None)
                if future is None:
                    self._hear(message)
                elif not future.done():
                    future.set_result(message)
        except (EOFError, OSError):
            return
        finally:
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(Refused(GONE))

    async def call(self, message: Message, seconds: float) -> Any:
        """Send a call and wait for its answer; raises `Refused` or `Late`."""
        serial = next(self._connection.outgoing_serial)
        future = self._waiting[serial] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                await self._connection.send(message, serial=serial)
                answer = await future
        except TimeoutError:
            raise Late from None
        except OSError as error:
            raise Refused(GONE) from error
        finally:
            self._waiting.pop(serial, None)
        if answer.header.message_type is MessageType.error:
            raise Refused(str(answer.header.fields.get(HeaderFields.error_name, "")))
        return answer.body


# What comes of a bus that is about to start, or to end.
UNREACHED = (OSError, EOFError, ValueError, TimeoutError, DBusErrorResponse, RouterClosed, Refused, Late)


@contextlib.asynccontextmanager
async def _opened(address: str, hear: Callable[[Message], None]) -> AsyncIterator[tuple[Line, asyncio.Task[None]]]:
    """A connection, and the task that ends when the bus goes away."""
    async with asyncio.timeout(CONNECT_SECONDS):
        connection = await open_dbus_connection(address)
    async with connection:
        line = Line(connection, hear)
        task = asyncio.create_task(line.run())
        try:
            yield line, task
        finally:
            task.cancel()
            await asyncio.wait([task])


class Bus:
    """The accessibility bus, while there is one."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._line: Line | None = None
        self._listeners: list[Callable[[Message], None]] = []
        self.connected = asyncio.Event()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep connected meanwhile."""
        task = asyncio.create_task(self._stay())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _stay(self) -> None:
        # A service outside of a session has no bus, and all else works.
        while self._session:
            with contextlib.suppress(*UNREACHED):
                await self._serve(await self._address())
            await asyncio.sleep(RETRY_SECONDS)

    async def _address(self) -> str:
        """Where the bus is; programs that start from now on take part in it."""
        async with _opened(self._session, lambda message: None) as (line, _):
            await line.call(Properties(STATUS).set("IsEnabled", "b", True), CONNECT_SECONDS)
            (address,) = await line.call(new_method_call(LAUNCHER, "GetAddress"), CONNECT_SECONDS)
            return str(address)

    async def _serve(self, address: str) -> None:
        async with _opened(address, self._tell) as (line, ended):
            for interface in sorted({_interface(event) for event in HEARD}):
                rule = MatchRule(type="signal", interface=interface)
                await line.call(message_bus.AddMatch(rule), CONNECT_SECONDS)
            for event in HEARD:
                await line.call(new_method_call(REGISTRY, "RegisterEvent", "sass", (event, [], "")), CONNECT_SECONDS)
            self._line = line
            self.connected.set()
            try:
                await asyncio.wait([ended])
            finally:
                self._line = None
                self.connected.clear()

    def _tell(self, message: Message) -> None:
        for listener in list(self._listeners):
            listener(message)

    @contextlib.contextmanager
    def listening(self, listener: Callable[[Message], None]) -> Iterator[None]:
        """Hear the programs' events meanwhile."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    async def ask(self, message: Message, seconds: float) -> Any:
        """Send a message and wait for its answer; raises `Refused` or `Late`, or `Problem` (503) if there is no bus."""
        if self._line is None:
            reason = "is not there"
            remedy = "ask again when the desktop's session has started; the service connects by itself"
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "accessibility", None, reason, remedy)
        return await self._line.call(message, seconds)

    async def call(
        self,
        at: "Reference",
        interface: str,
        method: str,
        seconds: float,
        types: str = "",
        values: tuple[Any, ...] = (),
    ) -> Any:
        """Call a method of an accessibility interface on a program's object, and return its answer."""
        address = DBusAddress(at.path, at.owner, SPACE + interface)
        return await self.ask(new_method_call(address, method, types or None, values), seconds)

    async def properties(self, at: "Reference", interface: str, seconds: float) -> dict[str, Any]:
        """The properties that an object has of an accessibility interface."""
        address = DBusAddress(at.path, at.owner, SPACE + interface)
        (found,) = await self.ask(Properties(address).get_all(), seconds)
        return {name: value for name, (_, value) in found.items()}

    async def property(self, at: "Reference", interface: str, name: str, seconds: float) -> Any:
        """One property of an object: not every program answers when it is asked for all of them."""
        address = DBusAddress(at.path, at.owner, SPACE + interface)
        ((_, value),) = await self.ask(Properties(address).get(name), seconds)
        return value

    async def set(self, at: "Reference", interface: str, name: str, value: float, seconds: float) -> None:
        """Set a property that is a number."""
        address = DBusAddress(at.path, at.owner, SPACE + interface)
        await self.ask(Properties(address).set(name, "d", value), seconds)

    async def process(self, at: "Reference", seconds: float) -> int:
        """The process that an object belongs to."""
        (pid,) = await self.ask(message_bus.GetConnectionUnixProcessID(at.owner), seconds)
        return int(pid)


@dataclass(frozen=True)
class Reference:
    """An object of a program on the bus: the program's name there, and the object's path."""

    owner: str
    path: str

    @property
    def id(self) -> str:
        """How requests and answers name it."""
        return self.owner + self.path


def reference(id: object, field: str) -> Reference:
    """The object that a request names; raises `Problem` for what can be none."""
    found = REFERENCE.fullmatch(id) if isinstance(id, str) and len(id) <= MOST_ID else None
    if found is None:
        raise wrong(field, id, "is no node", "take an id of GET /v1/accessibility or POST /v1/accessibility/find")
    return Reference(*found.groups())


def _interface(event: str) -> str:
    return f"{SPACE}Event.{event.partition(':')[0].capitalize()}"
