"""Walks the programs' trees and finds nodes in them, within a number of nodes, a depth and a time.

Programs are asked side by side: one that does not answer is named in the answer, and costs the others nothing.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deskyard.computer.accessibility import nodes
from deskyard.computer.accessibility.bus import Bus, Late, Reference, Refused
from deskyard.computer.accessibility.nodes import Node
from deskyard.computer.answers import screen as answers

ROOT = Reference("org.a11y.atspi.Registry", "/org/a11y/atspi/accessible/root")
AT_ONCE = 64  # nodes that are asked for side by side
MOST_MATCHES = 5000
# How a rule's parts are matched: all of them, any of them; or nothing is asked.
ALL, ANY = 1, 2
CANONICAL = 1
PROC = Path("/proc")


@dataclass(frozen=True)
class Window:
    """A window of the X server, as far as it leads to the program's own node of it."""

    pid: int | None
    title: str


@dataclass(frozen=True)
class Sought:
    """The conditions of a search, and where it looks; those that are not given hold for every node."""

    application: str | None = None
    window: Window | None = None
    within: Reference | None = None
    role: str | None = None
    name: str | None = None
    exact: bool = False
    states: tuple[str, ...] = ()
    hidden: bool = False

    def suits(self, node: Node) -> bool:
        """Whether a node is one that is looked for."""
        if self.name is not None:
            same = node.name == self.name if self.exact else self.name.lower() in node.name.lower()
            if not same:
                return False
        return (self.role in (None, node.role)) and node.states >= self.wanted_states

    @property
    def wanted_states(self) -> frozenset[str]:
        """The states that a node must be in."""
        return frozenset(self.states) | (frozenset() if self.hidden else {"showing"})


@dataclass
class Found:
    """The result of a walk or a search: nodes, why some may be missing, and the programs that did not answer."""

    nodes: list[answers.Node] = field(default_factory=list)
    truncated: set[str] = field(default_factory=set)
    silent: list[str] = field(default_factory=list)

    def described(self, event: int) -> answers.Nodes:
        """As it stands in answers, with the number of the last event."""
        return {
            "nodes": self.nodes,
            "truncated": sorted(self.truncated),
            "silent": self.silent,
            "untrusted": ["name", "description", "text", "silent"],
            "event": event,
        }


class Search:
    """One walk or search, from its beginning to its deadline."""

    def __init__(self, bus: Bus, seconds: float, most: int) -> None:
        self._bus = bus
        self._ends = asyncio.get_running_loop().time() + seconds
        self._most = most
        self.found = Found()

    @property
    def left(self) -> float:
        """The seconds that are left."""
        return max(0.0, self._ends - asyncio.get_running_loop().time())

    async def roots(self, sought: Sought) -> list[Reference]:
        """Where to begin: a node, windows, or applications."""
        if sought.within:
            return [sought.within]
        applications = await nodes.children(self._bus, ROOT, self.left)
        found = await self._of_each(applications, lambda at: self._begin(at, sought))
        return [root for some in found if some for root in some]

    async def _begin(self, application: Reference, sought: Sought) -> list[Reference]:
        if sought.application is not None:
            name = (await self._bus.properties(application, "Accessible", self.left)).get("Name", "")
            if sought.application.lower() not in str(name).lower():
                return []
        if sought.window is None:
            return [application]
        if await self._bus.process(application, self.left) != sought.window.pid:
            return []
        found = await nodes.children(self._bus, application, self.left)
        names = [(await self._bus.properties(at, "Accessible", self.left)).get("Name") for at in found]
        titled = [at for at, name in zip(found, names, strict=True) if name == sought.window.title]
        # A program may name its window otherwise than its frame does: then all of its windows are meant.
        return titled or found

    async def _of_each(self, programs: Sequence[Reference], do: Callable[[Reference], Any]) -> list[Any]:
        """The results of `do` for each program; those that do not answer are noted."""

        async def of(at: Reference) -> Any:
            try:
                async with asyncio.timeout_at(self._ends):
                    return await do(at)
            except (Late, TimeoutError):
                self.found.silent.append(await self._program(at))
                self.found.truncated.add("time")
            except Refused:
                pass
            return None

        return await asyncio.gather(*map(of, programs))

    async def _program(self, at: Reference) -> str:
        """The name of the process that an object belongs to, which needs no answer of that process."""
        with contextlib.suppress(OSError, Refused, Late):
            return (PROC / str(await self._bus.process(at, 1.0)) / "comm").read_text().strip()
        return at.owner

    async def tree(self, sought: Sought, depth: int, details: bool) -> Found:
        """The trees below the roots, each level read at once."""
        roots = await self.roots(sought)
        trees = await self._of_each(roots, lambda at: self._tree(at, sought, depth, details))
        self.found.nodes = [tree for tree in trees if tree is not None]
        return self.found

    async def _tree(self, root: Reference, sought: Sought, depth: int, details: bool) -> answers.Node | None:
        top: list[answers.Node] = []
        level = [(root, top)]
        count = 0
        for at_depth in range(depth + 1):
            if len(level) > self._most - count:
                self.found.truncated.add("nodes")
                level = level[: self._most - count]
            count += len(level)
            read = await self._read([at for at, _ in level], details)
            below: list[tuple[Reference, list[answers.Node]]] = []
            for node, (_, into) in zip(read, level, strict=True):
                # An application, which is in no state, is shown for its windows.
                if node and (sought.hidden or not at_depth or "showing" in node.states):
                    into.append(entry := node.described())
                    below += [(child, entry.setdefault("children", [])) for child in await self._below(node)]
            level = below
            if not level:
                break
        if level:
            self.found.truncated.add("depth")
        return top[0] if top else None

    async def _below(self, node: Node) -> list[Reference]:
        if not node.children:
            return []
        try:
            return await nodes.children(self._bus, node.at, self.left)
        except Refused:
            return []

    async def _read(self, level: list[Reference], details: bool) -> list[Node | None]:
        """Several nodes side by side; None for one that is gone meanwhile."""

        async def read(at: Reference) -> Node | None:
            try:
                return await nodes.read(self._bus, at, self.left, details)
            except Refused:
                return None

        found: list[Node | None] = []
        for first in range(0, len(level), AT_ONCE):
            found += await asyncio.gather(*map(read, level[first : first + AT_ONCE]))
        return found

    async def find(self, sought: Sought, details: bool = True) -> Found:
        """The nodes that are looked for, in the order of their trees."""
        roots = await self.roots(sought)
        several = await self._of_each(roots, lambda at: self._find(at, sought, details))
        matches = [node for some in several if some for node in some]
        if len(matches) > self._most:
            self.found.truncated.add("nodes")
        self.found.nodes = [node.described() for node in matches[: self._most]]
        return self.found

    async def _find(self, root: Reference, sought: Sought, details: bool) -> list[Node]:
        candidates = await self._candidates(root, sought)
        if len(candidates) >= MOST_MATCHES:
            self.found.truncated.add("nodes")
        suiting = [node for node in await self._read(candidates, False) if node and sought.suits(node)]
        if not details:
            return suiting
        wanted = [node.at for node in suiting[: self._most + 1]]
        return [node for node in await self._read(wanted, True) if node]

    async def _candidates(self, root: Reference, sought: Sought) -> list[Reference]:
        """Nodes below a root that may be meant: the program itself looks for role and states."""
        starts = [root]
        if root.path.endswith("/root"):
            # An application as a whole cannot be searched, only its windows.
            starts = await nodes.children(self._bus, root, self.left)
        some = await asyncio.gather(*(self._matches(start, sought) for start in starts))
        return [*starts, *(at for found in some for at in found)][:MOST_MATCHES]

    async def _matches(self, start: Reference, sought: Sought) -> list[Reference]:
        states = nodes.bits_of([nodes.STATES.index(state) for state in sought.wanted_states], 2)
        roles = nodes.bits_of([nodes.ROLES.index(sought.role)] if sought.role else [], 4)
        rule: tuple[Any, ...] = (states, ALL, {}, ALL, roles, ANY, [], ALL, False)
        try:
            (found,) = await self._bus.call(
                start, "Collection", "GetMatches", self.left, "(aiia{ss}iaiiasib)uib",
                (rule, CANONICAL, MOST_MATCHES, True),
            )  # fmt: skip
            return nodes.references(found)
        except Refused:
            return await self._walk(start)

    async def _walk(self, start: Reference) -> list[Reference]:
        """All nodes below one, where the program cannot look for them itself."""
        found: list[Reference] = []
        level = [start]
        while level and len(found) < MOST_MATCHES:
            below: list[Reference] = []
            for node in await self._read(level, False):
                below += await self._below(node) if node else []
            found += below
            level = below
        return found
