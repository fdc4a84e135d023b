"""Who asks gateways: the way to each is opened by itself."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import pytest

from deskyard.control.link import way
from deskyard.control.link.asker import Asker
from deskyard.errors import DeskyardError, SiteError
from tests.support.served import served

SECONDS = 30
# More than asyncio has threads of its own, on any host.
GONE = 40


class Ways:
    """Opens the way to gateways of before in no time that ends, and says of all others that they do not run."""

    def __init__(self) -> None:
        self.waiting, self.ended = threading.Semaphore(0), threading.Event()

    def open(self, name: str) -> NoReturn:
        if name.startswith("gone"):
            self.waiting.release()
            self.ended.wait(SECONDS)
        raise SiteError("gateway", name, "does not run", "start it")


@pytest.fixture
def ways(tmp_path: Path) -> Iterator[Ways]:
    ways = Ways()

    class Handler(way.Handler):
        open_way = staticmethod(ways.open)

    with served(tmp_path / "way.sock", lambda listener: way.Server(listener, Handler)):
        yield ways
        ways.ended.set()


def test_gateways_that_cannot_be_reached_keep_no_other_from_being_asked(ways: Ways, tmp_path: Path) -> None:
    asker = Asker(tmp_path / "way.sock")

    def ask(name: str) -> None:
        with suppress(DeskyardError):
            asker.ask(name, ["status"])

    threads = [threading.Thread(target=ask, args=(f"gone{number}",)) for number in range(GONE)]
    for thread in threads:
        thread.start()
    try:
        for _ in threads:
            assert ways.waiting.acquire(timeout=SECONDS / 2), "the way to some is not even asked for"
        with pytest.raises(DeskyardError, match="does not run"):
            asker.ask("there", ["status"])
    finally:
        ways.ended.set()
        for thread in threads:
            thread.join(SECONDS)
