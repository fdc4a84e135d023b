"""The questions of Mission Control, as gateways take them from the link key."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from deskyard.control.anchors.gateways import ACTOR, Gateways, Line
from deskyard.control.link.asker import Asker, TalkLine

TICKETS, CHAT = ("asks", "--json", "--follow"), ("chat",)


class AskedGateways(Gateways):
    """The gateways as who anchors asks them, with the link key."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    def names(self) -> list[str]:
        """The workspaces that are declared."""
        return self._asker.gateways()

    def anchor(self, name: str, source: str, line: Line) -> None:
        """Let a gateway take down a line of Mission Control's audit."""
        words = ["--source", source, "--number", str(line.number), "--head", line.hash, "--actor", ACTOR]
        self._asker.ask(name, ["anchor", *words])

    def ask_audit(self, name: str, noted: str | None) -> Any:
        """The gateway's answer about its audit, as it comes."""
        return self._asker.ask(name, ["audit", "--verify", *(["--known", noted] if noted else [])])

    def ask_held(self, name: str, source: str, last: int | None) -> Any:
        """The gateway's answer about the anchors that it holds, as it comes."""
        bound = [] if last is None else ["--last", str(last)]
        return self._asker.ask(name, ["anchors", "--source", source, *bound])


def tickets(asker: Asker) -> Callable[[str], Iterator[Mapping[str, Any]]]:
    """A function that reads the tickets of a workspace, and each as it changes."""
    return lambda name: asker.follow(name, TICKETS)


def chats(asker: Asker) -> Callable[[str], AbstractContextManager[TalkLine]]:
    """A function that opens the line on which a workspace's pages chat."""
    return lambda name: asker.converse(name, CHAT)
