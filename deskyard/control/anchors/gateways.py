"""The gateways as the anchors ask them; what they answer is looked at before it is believed."""

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from deskyard.access import access, anchors
from deskyard.access.gateway_program import Rubbish
from deskyard.declaration import declaration
from deskyard.plan.printable import printable

ACTOR = "mission-control"
AT_ONCE = 8  # gateways that are asked
HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)
TIME = re.compile(r"[0-9T:.Z+-]{10,40}", re.ASCII)
REMEDY = "look at that gateway: ./inv access.audit NAME --verify"


@dataclass(frozen=True)
class Line:
    """A line of a chain: its number and its hash; `at` says when it was anchored."""

    number: int
    hash: str
    at: str = ""


@dataclass(frozen=True)
class Audit:
    """A gateway's own audit: its last line, and what is wrong with it."""

    last: Line
    problem: str | None


class Gateways:
    """Asks gateways; raises `DeskyardError` of one that does not answer, `Rubbish` of one that answers nonsense."""

    def names(self) -> list[str]:
        """The workspaces that are declared: files of the host say so, not the database."""
        return declaration.stack_names()

    def audit(self, name: str, known: Line | None) -> Audit:
        """A gateway's own audit, checked from its first line; `known` has to be one of its lines."""
        noted = f"{known.number}:{known.hash}" if known else None
        return read_audit(name, self.ask_audit(name, noted))

    def held(self, name: str, source: str, last: int | None = None) -> list[Line]:
        """The lines of Mission Control's audit that a gateway holds, oldest first."""
        return read_held(name, self.ask_held(name, source, last))

    def anchor(self, name: str, source: str, line: Line) -> None:
        """Let a gateway take down a line of Mission Control's audit."""
        anchors.anchor(name, source, line.number, line.hash, ACTOR)

    def ask_audit(self, name: str, noted: str | None) -> Any:
        """The gateway's answer about its audit, as it comes."""
        return access.verify_audit(name, noted)

    def ask_held(self, name: str, source: str, last: int | None) -> Any:
        """The gateway's answer about the anchors that it holds, as it comes."""
        return anchors.anchors(name, source, last)


def read_audit(name: str, answer: Any) -> Audit:
    """A gateway's word on its own audit; raises `Rubbish`."""
    match answer:
        case {"ok": True, "last": 0}:
            return Audit(Line(0, ""), None)
        case {"ok": True, "last": number, "hash": digest} if _is_line(number, digest):
            return Audit(Line(number, digest), None)
        case {"ok": False, "problems": [{"problem": str(text)}, *_]}:
            return Audit(Line(0, ""), f"its own audit is not whole: {plain(text)}")
    raise _rubbish(name, "of its own audit")


def read_held(name: str, answer: Any) -> list[Line]:
    """The lines that a gateway says it holds; raises `Rubbish`."""
    if not isinstance(answer, list):
        raise _rubbish(name, "of what it holds")
    found = list[Line]()
    for event in answer:
        match event:
            case {"number": number, "head": digest, "time": str(at)} if _is_line(number, digest) and TIME.fullmatch(at):
                found.append(Line(number, digest, at))
            case _:
                raise _rubbish(name, "of what it holds")
    if any(later.number <= before.number for before, later in pairwise(found)):
        raise _rubbish(name, "of what it holds, which goes backwards")
    return found


def plain(text: str) -> str:
    """A gateway's text, made printable for a terminal: one line, of bounded length."""
    return printable(text, most=300, mark=" ")


def _is_line(number: object, digest: object) -> bool:
    is_number = type(number) is int and 1 <= number < 2**63
    return is_number and isinstance(digest, str) and HASH.fullmatch(digest) is not None


def _rubbish(name: str, what: str) -> Rubbish:
    return Rubbish("gateway", name, f"answers rubbish {what}", REMEDY.replace("NAME", name))
