"""A channel: a stream under an id of its own, with those who look at it. All that ask for the same share its stream."""

import asyncio
import contextlib
import secrets
import time
from collections.abc import Iterator

from deskyard.computer.answers import screen as answers
from deskyard.computer.streaming.stream import Stream
from deskyard.wire.computer import STREAM_BYTES, STREAMS_PATH


class Channel:
    """Made by `POST /v1/streams`; of the event loop alone."""

    def __init__(self, stream: Stream) -> None:
        self.id = secrets.token_urlsafe(STREAM_BYTES)
        self.stream = stream
        self.viewers = 0
        self.watched = time.monotonic()  # when somebody last looked
        self.ended = asyncio.Event()
        self._over = ""
        self._news: set[asyncio.Event] = set()

    @property
    def over(self) -> str:
        """Why it ended, by itself or with its stream."""
        return self._over or self.stream.over

    def end(self, reason: str) -> None:
        """There is nothing more to come; the first reason counts."""
        self._over = self.over or reason
        self.ended.set()
        for news in self._news:
            news.set()

    @contextlib.contextmanager
    def watch(self) -> Iterator[asyncio.Event]:
        """Look on: the event is set whenever there is something new, also when the channel is over."""
        with self.stream.watch() as news:
            self._news.add(news)
            self.viewers += 1
            try:
                yield news
            finally:
                self._news.discard(news)
                self.viewers -= 1
                self.watched = time.monotonic()

    def described(self) -> answers.Stream:
        """The channel as it stands in answers."""
        width, height = self.stream.frame.size
        found: answers.Stream = {
            "id": self.id, "path": f"{STREAMS_PATH}/{self.id}", "kind": self.stream.about["kind"],
            "size": [width, height], "viewers": self.viewers,
        }  # fmt: skip
        return {**found, **self.stream.about}
