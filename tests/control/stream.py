"""The stream of Mission Control's events, as a watcher reads it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.control.lab import Lab

MOST_BEATS = 4  # of 15 seconds


@contextmanager
def watching(mission: Lab, key: str, path: str = "/api/events", last: str | None = None) -> Iterator[Iterator[Any]]:
    """The events of a stream as (id, kind, data), once it listens."""
    headers = {"Last-Event-ID": last} if last else {}
    with mission.client(key) as client, client.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200
        lines = answer.iter_lines()
        assert next(lines).startswith(":")
        yield events(lines)


def events(lines: Iterator[str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """What is told; heartbeats alone are no life: they would keep the client's own bound from ever being over."""
    fields: dict[str, str] = {}
    beats = 0
    for line in lines:
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields.get("event") == "heartbeat":
            fields, beats = {}, beats + 1
            assert beats <= MOST_BEATS, f"nothing was told in {beats} heartbeats"
        elif fields:
            yield fields["id"], fields["event"], json.loads(fields["data"])
            fields, beats = {}, 0
