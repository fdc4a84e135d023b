"""The same desktop for programs without asyncio: its calls wait for the answer."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from deskyard_sdk.accessibility import AsyncAccessibility
from deskyard_sdk.desktop import AsyncDesktop, AsyncWindows
from deskyard_sdk.devtools import AsyncDevtools
from deskyard_sdk.files import AsyncFiles
from deskyard_sdk.forms import ProcessInfo
from deskyard_sdk.processes import AsyncProcess, AsyncProcesses
from deskyard_sdk.recordings import AsyncRecordings
from deskyard_sdk.streams import AsyncStreams
from deskyard_sdk.waking import WAKE_SECONDS

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="deskyard-sdk", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it there, and wait."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def each(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        """Yield the items of a generator that runs on the loop, one by one."""

        async def following() -> list[T]:
            return [item async for item in _first(items)]

        try:
            while found := self.run(following()):
                yield found[0]
        finally:
            self.run(items.aclose())

    def stop(self) -> None:
        """End the loop."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def opened(opening: Coroutine[Any, Any, T]) -> tuple[Loop, T]:
    """A loop of its own, and what is opened there; no thread is left where that fails."""
    loop = Loop()
    try:
        return loop, loop.run(opening)
    except BaseException:
        loop.stop()
        raise


async def _first(items: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    try:
        yield await anext(items)
    except StopAsyncIteration:
        return


class Twin(Protocol[A_co]):
    """An object with a twin for asyncio, and the loop where that lives."""

    _loop: Loop

    @property
    def _twin(self) -> A_co:
        """The twin."""


def waits(call: Callable[Concatenate[A, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Twin[A], P], T]:
    """A call of the twin that waits for its answer."""

    def waiting(self: Twin[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._loop.run(call(self._twin, *args, **kwargs))

    waiting.__doc__ = call.__doc__
    return waiting


def yields(
    call: Callable[Concatenate[A, P], AsyncGenerator[T, None]],
) -> Callable[Concatenate[Twin[A], P], Iterator[T]]:
    """A call of the twin whose items come one by one."""

    def waiting(self: Twin[A], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return self._loop.each(call(self._twin, *args, **kwargs))

    waiting.__doc__ = call.__doc__
    return waiting


class Files:
    """Reads, writes, lists, moves, removes and watches files."""

    def __init__(self, loop: Loop, twin: AsyncFiles) -> None:
        self._loop, self._twin = loop, twin

    read = waits(AsyncFiles.read)
    read_text = waits(AsyncFiles.read_text)
    write = waits(AsyncFiles.write)
    download = waits(AsyncFiles.download)
    upload = waits(AsyncFiles.upload)
    list = waits(AsyncFiles.list)
    stat = waits(AsyncFiles.stat)
    exists = waits(AsyncFiles.exists)
    make_directory = waits(AsyncFiles.make_directory)
    move = waits(AsyncFiles.move)
    remove = waits(AsyncFiles.remove)
    watch = yields(AsyncFiles.watch)
    add_watch = waits(AsyncFiles.add_watch)
    watches = waits(AsyncFiles.watches)
    remove_watch = waits(AsyncFiles.remove_watch)


class Process:
    """A process that was started; it goes on without this."""

    def __init__(self, loop: Loop, twin: AsyncProcess) -> None:
        self._loop, self._twin = loop, twin

    @property
    def info(self) -> ProcessInfo:
        """How it was when last asked."""
        return self._twin.info

    @property
    def id(self) -> str:
        """By what the service knows it."""
        return self._twin.id

    @property
    def pid(self) -> int:
        """Its number on the desktop."""
        return self._twin.pid

    @property
    def event(self) -> int | None:
        """The number of the last event before it began; None of one that was got by its id."""
        return self._twin.event

    refresh = waits(AsyncProcess.refresh)
    output = yields(AsyncProcess.output)
    wait = waits(AsyncProcess.wait)
    write = waits(AsyncProcess.write)
    signal = waits(AsyncProcess.signal)
    resize = waits(AsyncProcess.resize)
    kill = waits(AsyncProcess.kill)


class Processes:
    """Runs commands: text is for a login shell, a list is a program with its arguments."""

    def __init__(self, loop: Loop, twin: AsyncProcesses) -> None:
        self._loop, self._twin = loop, twin

    run = waits(AsyncProcesses.run)
    list = waits(AsyncProcesses.list)
    _start = waits(AsyncProcesses.start)

    def start(self, *args: Any, **more: Any) -> Process:
        """Start a process, as `AsyncProcesses.start` does."""
        return Process(self._loop, self._start(*args, **more))

    def get(self, id: str) -> Process:
        """A process that was started before."""
        return Process(self._loop, self._loop.run(self._twin.get(id)))


class Windows:
    """The windows of the screen."""

    def __init__(self, loop: Loop, twin: AsyncWindows) -> None:
        self._loop, self._twin = loop, twin

    list = waits(AsyncWindows.list)
    do = waits(AsyncWindows.do)
    focus = waits(AsyncWindows.focus)
    close = waits(AsyncWindows.close)
    tile = waits(AsyncWindows.tile)


class Accessibility:
    """The programs' trees; places to look are a program's name, a window, or a node."""

    def __init__(self, loop: Loop, twin: AsyncAccessibility) -> None:
        self._loop, self._twin = loop, twin

    tree = waits(AsyncAccessibility.tree)
    find = waits(AsyncAccessibility.find)
    invoke = waits(AsyncAccessibility.invoke)
    write = waits(AsyncAccessibility.write)
    set_value = waits(AsyncAccessibility.set_value)
    focus = waits(AsyncAccessibility.focus)


class Streams:
    """Makes, lists and ends streams; to look at them takes asyncio, or any viewer of VNC in a WebSocket."""

    def __init__(self, loop: Loop, twin: AsyncStreams) -> None:
        self._loop, self._twin = loop, twin

    create = waits(AsyncStreams.create)
    list = waits(AsyncStreams.list)
    get = waits(AsyncStreams.get)
    delete = waits(AsyncStreams.delete)


class Devtools:
    """Starts and ends the browser of programs, and says where other libraries connect to it."""

    def __init__(self, loop: Loop, twin: AsyncDevtools) -> None:
        self._loop, self._twin = loop, twin

    start = waits(AsyncDevtools.start)
    state = waits(AsyncDevtools.state)
    stop = waits(AsyncDevtools.stop)

    def address(self) -> tuple[str, dict[str, str]]:
        """The address and headers, as `AsyncDevtools.address` gives them."""
        return self._twin.address()


class Recordings:
    """Tells whether the desktop is recorded, lists and fetches what there is."""

    def __init__(self, loop: Loop, twin: AsyncRecordings) -> None:
        self._loop, self._twin = loop, twin

    state = waits(AsyncRecordings.state)
    list = waits(AsyncRecordings.list)
    get = waits(AsyncRecordings.get)
    frames = waits(AsyncRecordings.frames)
    actions = waits(AsyncRecordings.actions)
    delete = waits(AsyncRecordings.delete)
    download = waits(AsyncRecordings.download)


class Desktop:
    """A desktop; made by `connect`, and closed at the end of `with`."""

    def __init__(self, loop: Loop, twin: AsyncDesktop) -> None:
        self._loop, self._twin = loop, twin
        self.files = Files(loop, twin.files)
        self.processes = Processes(loop, twin.processes)
        self.windows = Windows(loop, twin.windows)
        self.accessibility = Accessibility(loop, twin.accessibility)
        self.streams = Streams(loop, twin.streams)
        self.recordings = Recordings(loop, twin.recordings)
        self.devtools = Devtools(loop, twin.devtools)

    @classmethod
    def connect(
        cls,
        url: str,
        ca: str | None = None,
        session: str | Path | None = None,
        wake_within: float = WAKE_SECONDS,
    ) -> "Desktop":
        """Open a desktop, as `AsyncDesktop.connect` does."""
        return cls(*opened(AsyncDesktop.connect(url, ca, session, wake_within)))

    def __enter__(self) -> "Desktop":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._loop.run(self._twin.close())
        self._loop.stop()

    @property
    def facts(self) -> dict[str, Any]:
        """The gateway's facts about the session, without its token; empty inside the desktop."""
        return self._twin.facts

    run = waits(AsyncDesktop.run)
    applications = waits(AsyncDesktop.applications)
    launch = waits(AsyncDesktop.launch)
    launch_command = waits(AsyncDesktop.launch_command)
    open = waits(AsyncDesktop.open)
    act = waits(AsyncDesktop.act)
    screen = waits(AsyncDesktop.screen)
    events = yields(AsyncDesktop.events)
    wait_for = waits(AsyncDesktop.wait_for)
    last_event = waits(AsyncDesktop.last_event)
    pointer = waits(AsyncDesktop.pointer)
    drive = waits(AsyncDesktop.drive)
    hand_over = waits(AsyncDesktop.hand_over)
    is_private = waits(AsyncDesktop.is_private)
    clipboard = waits(AsyncDesktop.clipboard)
    set_clipboard = waits(AsyncDesktop.set_clipboard)
    clipboard_picture = waits(AsyncDesktop.clipboard_picture)
    set_clipboard_picture = waits(AsyncDesktop.set_clipboard_picture)
