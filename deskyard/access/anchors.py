"""Anchors: writes the last line of another chain into a workspace's gateway, and reads what it holds of them."""

from typing import Any

from deskyard.access import gateway_program
from deskyard.wire import session_requests


def anchor(name: str, source: str, number: int, head: str, actor: str) -> Any:
    """Write line `number` of the chain `source`, with its hash, into the audit of a workspace's gateway."""
    arguments = ["anchor", "--source", source, "--number", str(number), "--head", head, "--actor", actor]
    request = session_requests.anchor(source, number, head, actor)
    return gateway_program.ask_service(gateway_program.require(name), request, arguments)


def anchors(name: str, source: str, last: int | None = None) -> Any:
    """The lines of the chain `source` that a gateway holds, oldest first; at most the `last` ones."""
    bound = [] if last is None else ["--last", str(last)]
    return gateway_program.ask(gateway_program.require(name), ["anchors", "--source", source, *bound])
