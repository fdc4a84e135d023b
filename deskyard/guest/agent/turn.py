"""A turn of an agent on a desktop: what is said of it, why it failed, and when it has to end.

Sent together with each program that imports it, so it knows only the standard library of Python 3.10 and later.
"""

import contextlib
import http.client
import json
import os
import queue
import select
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

PIECE = 8192
MAX_REASON, MAX_EXCERPT, MAX_SUMMARY = 500, 4000, 300
# Who asks a person answers before; this is for a line that says nothing any more.
ASK_SECONDS = 660.0
END_SECONDS = 10.0


class Failed(Exception):
    """The task was not done: a word for the cause, and what was said about it."""

    def __init__(self, cause: str, said: str = "") -> None:
        super().__init__(cause)
        self.cause, self.said = cause, said


class Line(Protocol):
    """The connection or the process that a turn hangs on."""

    def shutdown(self, how: int, /) -> None:
        """End it under who reads from it."""


class Watch(threading.Thread):
    """Looks whether the task has to end: its time is over, or nobody listens any more."""

    def __init__(self, seconds: float) -> None:
        super().__init__(daemon=True)
        self.deadline = time.monotonic() + seconds
        self.over, self.ended = threading.Event(), threading.Event()
        self.why = ""
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.link: Line | None = None
        self.before: Callable[[], None] | None = None

    def run(self) -> None:
        """Wait for the first of both, and hang up."""
        left = self.deadline - time.monotonic()
        heard, _, _ = select.select([0], [], [], max(0.0, left))
        rest = b""
        while heard and (piece := os.read(0, PIECE)):
            rest = self._take(rest + piece)
            heard, _, _ = select.select([0], [], [], max(0.0, self.deadline - time.monotonic()))
        self.why = "stopped" if heard else "timeout"
        self.over.set()
        self._answers.put(None)
        self.hang_up()

    def answer(self, id: str, seconds: float) -> dict[str, Any]:
        """The answer of who asked to a question; empty if that takes longer, or the task is over."""
        end = time.monotonic() + seconds
        while not self.over.is_set():
            try:
                found = self._answers.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                break
            if found is not None and found.get("id") == id:
                return found
        return {}

    def withdraw(self, id: str) -> None:
        """Have a question wait no more: it is of no use, or was answered elsewhere."""
        self._answers.put({"id": id})

    def _take(self, heard: bytes) -> bytes:
        """Put whole lines by as answers; what is left of the last."""
        *lines, rest = heard.split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError):
                found = json.loads(line)
                if isinstance(found, dict):
                    self._answers.put(found)
        return rest[-PIECE:]

    def hang_up(self) -> None:
        """End the connection under who reads from it, after a last word and its answer if there is one."""
        if self.before is not None:
            with contextlib.suppress(OSError):
                self.before()
                self.ended.wait(END_SECONDS)
        if self.link is not None:
            with contextlib.suppress(OSError):
                self.link.shutdown(socket.SHUT_RDWR)

    def follow(self, link: Line, before: Callable[[], None] | None = None) -> None:
        """Hang up this connection when it is time, which may be now."""
        self.link, self.before = link, before
        if self.over.is_set():
            self.hang_up()


_saying = threading.Lock()


def say(event: str, **more: Any) -> None:
    """Tell who asked; several threads may."""
    with _saying:
        print(json.dumps({"event": event, **more}), flush=True)


def outcome(run: Callable[[dict[str, Any], Watch], None], request: dict[str, Any]) -> dict[str, str]:
    """Do what is asked; how it ended."""
    watch = Watch(request["seconds"])
    watch.start()
    try:
        run(request, watch)
    except Failed as failure:
        end = {"status": "failed", "cause": failure.cause, "said": failure.said}
    except (OSError, http.client.HTTPException, subprocess.SubprocessError) as error:
        end = {"status": "failed", "cause": "broken", "said": f"{type(error).__name__}: {error}"[:MAX_REASON]}
    except (ValueError, AttributeError, TypeError, KeyError, RecursionError) as error:
        end = {"status": "failed", "cause": "broken", "said": f"an answer that makes no sense ({type(error).__name__})"}
    else:
        return {"status": "done"}
    finally:
        watch.ended.set()
    # After a hang-up any parse error is expected; report the hang-up instead.
    return {"status": watch.why} if watch.over.is_set() else end


def pieces(text: str) -> Iterator[str]:
    """The text in pieces that make no line too long."""
    return (text[at : at + PIECE] for at in range(0, len(text), PIECE))
