"""The events as a WebSocket: a listener that can be sent nothing more is let go, and not left in silence."""

import json

import pytest
from starlette.routing import WebSocketRoute
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import connect

from deskyard.computer.display.events import Log
from deskyard.computer.display.feed import WENT_WRONG, Feed
from deskyard.wire.computer import FILE_CHANGED
from tests.unit.computer.serving import served
from tests.unit.computer.test_callers import Part


class Events(Part):
    """The path of the events."""

    def __init__(self, log: Log) -> None:
        self._feed = Feed(log)

    def routes(self) -> list[WebSocketRoute]:  # type: ignore[override]
        return [WebSocketRoute("/v1/events", self._feed.websocket)]


def test_listener_who_can_be_sent_nothing_more_is_let_go() -> None:
    log = Log()
    with served([Events(log)]) as url, connect(f"ws{url[4:]}/v1/events?after=0") as socket:
        log.tell("window.closed", {"window": "1"})
        assert json.loads(socket.recv(20))["event"] == "window.closed"
        # No text of a message: half a pair, as a name of a file that is no UTF-8 has it.
        log.tell(FILE_CHANGED, {"path": "\udcff"})
        with pytest.raises(ConnectionClosedError) as ended:
            socket.recv(20)
        assert ended.value.rcvd and ended.value.rcvd.code == WENT_WRONG
