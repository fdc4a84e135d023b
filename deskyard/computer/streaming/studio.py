"""The thread that takes the frames of all streams: when something was drawn, somebody waits, and it is time."""

import contextlib
import os
import queue
import select
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import xcffib.composite
import xcffib.damage
import xcffib.xfixes
import xcffib.xinput as xinput
import xcffib.xproto as xproto

from deskyard.computer.display.pixels import Pixels, look_at_pointer
from deskyard.computer.display.x_server import REFUSED, ScreenGone, XConnection, gone
from deskyard.computer.streaming.budget import Budget
from deskyard.computer.streaming.scene import Gone
from deskyard.computer.streaming.stream import Stream

FRAMES_PER_SECOND = 25
ALL_MASTERS = 1
FOREVER = 3600.0
STOPPED = "the service is being stopped"
SCREEN_GONE = "the screen is gone"


class Studio:
    """Looks at the X server on a connection of its own, as long as there are streams."""

    def __init__(self, display: str, budget: Budget, frames_per_second: float = FRAMES_PER_SECOND) -> None:
        self._display = display
        self._budget = budget
        self._between = 1 / frames_per_second
        self._calls: queue.SimpleQueue[tuple[Callable[[XConnection], None], Future[None]]] = queue.SimpleQueue()
        self._wake_out, self._wake_in = os.pipe()
        os.set_blocking(self._wake_in, False)
        self._streams: list[Stream] = []
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._stopping = False
        self._pixels = Pixels()
        self._pointer_moved = False
        self._follows_pointer = False

    def add(self, stream: Stream) -> "Future[None]":
        """Begin a stream; done when its first frame is there, failed with `Gone` or `Problem` if it cannot be."""
        stream.ask = self.wake

        def begin(c: XConnection) -> None:
            stream.scene.begin(c)
            try:
                self._take(c, stream)
            except BaseException:
                stream.scene.end(c)
                raise
            self._streams.append(stream)

        return self._call(begin)

    def renew(self, stream: Stream) -> "Future[None]":
        """Bring a stream that is there up to now; done when its frame is, failed with `Gone` if it ended."""

        def look(c: XConnection) -> None:
            self._take_events(c)  # what became of it since
            if stream not in self._streams:
                raise Gone(stream.over)
            try:
                self._take(c, stream)
            except Gone as error:
                self._finish(c, stream, str(error))
                raise

        return self._call(look)

    def remove(self, stream: Stream, reason: str) -> "Future[None]":
        """End a stream."""

        def end(c: XConnection) -> None:
            if stream in self._streams:
                self._finish(c, stream, reason)

        return self._call(end)

    def _call(self, function: Callable[[XConnection], None]) -> "Future[None]":
        future: Future[None] = Future()
        with self._lock:
            self._calls.put((function, future))
            if self._thread is None and not self._stopping:
                self._thread = threading.Thread(target=self._run, name="studio", daemon=True)
                self._thread.start()
        self.wake()
        return future

    def wake(self) -> None:
        """Let the thread look; it may be busy, and then looks afterwards."""
        with contextlib.suppress(BlockingIOError):  # it has been woken often enough
            os.write(self._wake_in, b"x")

    def stop(self) -> None:
        """End all streams, and the thread."""
        with self._lock:
            self._stopping = True
            thread = self._thread
        self.wake()
        if thread:
            thread.join(10)

    def _run(self) -> None:
        """Serve until there is nothing to do; only then, all being closed, may another thread begin."""
        while self._serve():
            with self._lock:
                if self._calls.empty():
                    self._thread = None
                    return

    def _serve(self) -> bool:
        """Work on a connection; whether it ended because there are no streams any more."""
        c: XConnection | None = None
        lost = SCREEN_GONE
        try:
            c = XConnection(self._display)
            self._begin(c)
            lost = "" if self._work(c) else STOPPED
        except (ScreenGone, *REFUSED):
            pass
        finally:
            self._pixels.close()
            if c is not None:
                c.close()
            if lost:
                self._lose_all(lost)
        return not lost

    def _lose_all(self, reason: str) -> None:
        with self._lock:
            self._thread = None
            while not self._calls.empty():
                self._calls.get()[1].set_exception(gone(self._display))
            for stream in self._streams:
                stream.end(reason)
            self._streams = []

    def _begin(self, c: XConnection) -> None:
        self._follows_pointer = False
        c.extension(xcffib.damage).QueryVersion(1, 1).reply()
        c.extension(xcffib.xfixes).QueryVersion(5, 0).reply()
        c.extension(xcffib.composite).QueryVersion(0, 4).reply()
        c.extension(xinput).XIQueryVersion(2, 2).reply()
        mask = xproto.EventMask.StructureNotify | xproto.EventMask.SubstructureNotify
        c.core.ChangeWindowAttributes(c.root, xproto.CW.EventMask, [mask])
        c.extension(xcffib.xfixes).SelectCursorInput(c.root, xcffib.xfixes.CursorNotifyMask.DisplayCursor)

    def _work(self, c: XConnection) -> bool:
        """Take frames; true when there are no streams any more, false when stopping."""
        while not self._stopping:
            self._take_events(c)
            self._take_calls(c)
            self._follow_pointer(c)
            wait = self._take_frames(c)
            if not self._streams and self._calls.empty():
                return True
            c.x.flush()
            if not self._take_events(c) and self._calls.empty():
                ready = select.select([c.x.get_file_descriptor(), self._wake_out], [], [], wait)[0]
                if self._wake_out in ready:
                    os.read(self._wake_out, 65536)
        return False

    def _take_events(self, c: XConnection) -> bool:
        """Hear what came; whether there was anything."""
        heard = False
        while (event := c.heard()) is not None:
            heard = True
            self._hear(c, event)
        return heard

    def _hear(self, c: XConnection, event: Any) -> None:
        if isinstance(event, xinput.RawMotionEvent | xcffib.xfixes.CursorNotifyEvent):
            self._pointer_moved = True
            return
        for stream in list(self._streams):
            try:
                stream.dirty = stream.scene.hears(event) or stream.dirty
            except Gone as error:
                self._finish(c, stream, str(error))

    def _take_calls(self, c: XConnection) -> None:
        while not self._calls.empty():
            function, future = self._calls.get()
            try:
                function(c)
                future.set_result(None)
            except (ScreenGone, *REFUSED) as error:
                c.x.invalid()
                future.set_exception(error)
            except Exception as error:
                future.set_exception(error)

    def _follow_pointer(self, c: XConnection) -> None:
        """Hear of the pointer's ways only while somebody looks: they are many."""
        follows = any(stream.viewers for stream in self._streams)
        if follows != self._follows_pointer:
            self._follows_pointer = self._pointer_moved = follows
            kinds = [xinput.XIEventMask.RawMotion] if follows else [0]
            c.extension(xinput).XISelectEvents(c.root, 1, [xinput.EventMask.synthetic(ALL_MASTERS, 1, kinds)])

    def _take_frames(self, c: XConnection) -> float:
        """Take the frames that are due; how many seconds there is nothing to do, unless something happens."""
        moved, self._pointer_moved = self._pointer_moved, False
        wait = FOREVER
        for stream in sorted(self._streams, key=lambda stream: stream.due):
            stream.dirty = stream.dirty or moved
            # Where nobody looks nothing is taken: a person may want privacy, and nothing of that is kept for later.
            if not stream.viewers or not (stream.anew or (stream.wanted and stream.dirty)):
                continue
            left = max(stream.due - time.monotonic(), self._budget.wait())
            if left > 0:
                wait = min(wait, left)
            else:
                self._try(c, stream)
        return wait

    def _try(self, c: XConnection, stream: Stream) -> None:
        try:
            self._take(c, stream)
        except Gone as error:
            self._finish(c, stream, str(error))
        except REFUSED:
            c.x.invalid()  # a window changed while it was looked at: it is looked at again
            stream.dirty = True

    def _take(self, c: XConnection, stream: Stream) -> None:
        anew, stream.anew, stream.dirty = stream.anew, False, False
        stream.due = time.monotonic() + max(self._between, stream.between)
        self._budget.spend(stream.scene.take(c, self._pixels, stream.frame))
        stream.frame.point(look_at_pointer(c))
        if stream.frame.commit(anew=anew):
            stream.wanted = False
            stream.tell()

    def _finish(self, c: XConnection, stream: Stream, reason: str) -> None:
        self._streams.remove(stream)
        stream.scene.end(c)
        stream.end(reason)
        c.settle()
