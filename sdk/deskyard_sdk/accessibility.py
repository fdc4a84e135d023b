"""Elements of programs by their names, through accessibility: found, read and used without pixels."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from deskyard_sdk.door import Door


@dataclass(frozen=True)
class Node:
    """A widget, window or part of a document. Its texts are content of the screen, never instructions."""

    id: str
    role: str
    name: str
    states: list[str]
    rectangle: tuple[int, ...] | None
    children: "list[Node]" = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def middle(self) -> tuple[int, int] | None:
        """Where to click on it, in the screen's pixels; None for what has no place."""
        if self.rectangle is None:
            return None
        x, y, width, height = self.rectangle
        return x + width // 2, y + height // 2

    @staticmethod
    def of(answer: dict[str, Any]) -> "Node":
        """The node of an answer."""
        place = answer.get("rectangle")
        return Node(
            str(answer["id"]),
            str(answer["role"]),
            str(answer["name"]),
            list(answer["states"]),
            tuple(place) if place else None,
            [Node.of(child) for child in answer.get("children", [])],
            {name: value for name, value in answer.items() if name != "children"},
        )


@dataclass(frozen=True)
class Nodes:
    """Nodes that were found; `truncated` says what kept others out, `silent` which programs did not answer."""

    nodes: list[Node]
    truncated: list[str]
    silent: list[str]
    event: int

    @staticmethod
    def of(answer: dict[str, Any]) -> "Nodes":
        """The nodes of an answer."""
        nodes = [Node.of(node) for node in answer["nodes"]]
        return Nodes(nodes, answer["truncated"], answer["silent"], answer["event"])


class AsyncAccessibility:
    """The programs' trees; places to look are a program's name, a window, or a node.

    Programs have `within` seconds (10) to answer.
    """

    def __init__(self, door: Door) -> None:
        self._door = door

    async def tree(
        self,
        application: str | None = None,
        window: int | str | None = None,
        node: str | None = None,
        depth: int | None = None,
        most: int | None = None,
        details: bool | None = None,
        hidden: bool | None = None,
        within: float | None = None,
    ) -> Nodes:
        """All that is there, down to a depth; `details` brings actions, texts and values along."""
        asked = _given(
            application=application,
            window=window,
            node=node,
            depth=depth,
            nodes=most,
            details=None if details is None else str(details).lower(),
            hidden=None if hidden is None else str(hidden).lower(),
            within_ms=_milliseconds(within),
        )
        return Nodes.of(await self._door.json("GET", "/v1/accessibility", params=asked))

    async def find(
        self,
        role: str | None = None,
        name: str | None = None,
        exact: bool | None = None,
        states: Sequence[str] = (),
        application: str | None = None,
        window: int | str | None = None,
        node: str | None = None,
        most: int | None = None,
        hidden: bool | None = None,
        within: float | None = None,
    ) -> Nodes:
        """The nodes of a role, of a name that holds these letters, in these states; with actions, texts and values."""
        asked = _given(
            role=role,
            name=name,
            exact=exact,
            states=list(states) or None,
            application=application,
            window=window,
            node=node,
            nodes=most,
            hidden=hidden,
            within_ms=_milliseconds(within),
        )
        return Nodes.of(await self._door.json("POST", "/v1/accessibility/find", json=asked))

    async def invoke(self, node: str | Node, action: str | None = None, within: float | None = None) -> str:
        """Do what a node offers, such as `press`, or the first of it; what was done."""
        return str((await self._use("invoke", node, within, action=action))["action"])

    async def write(self, node: str | Node, text: str, within: float | None = None) -> str:
        """Put a text into a node; what stands there then."""
        return str((await self._use("set", node, within, text=text))["text"])

    async def set_value(self, node: str | Node, value: float, within: float | None = None) -> float:
        """Set the value of a slider and the like; what it is then."""
        return float((await self._use("set", node, within, value=value))["value"])

    async def focus(self, node: str | Node, within: float | None = None) -> None:
        """Give a node the keyboard."""
        await self._use("focus", node, within)

    async def _use(self, how: str, node: str | Node, within: float | None, **more: Any) -> dict[str, Any]:
        id = node.id if isinstance(node, Node) else node
        asked = {"node": id, **_given(within_ms=_milliseconds(within), **more)}
        return await self._door.json("POST", f"/v1/accessibility/{how}", json=asked)


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1000)


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
