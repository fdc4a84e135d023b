"""Tools for programs' elements by their names and roles: found (scope `see`), and used (scope `act`)."""

from collections.abc import Sequence
from typing import Annotated, Any

from deskyard_sdk import AsyncDesktop, DesktopError, Nodes
from mcp_types import CallToolResult
from pydantic import Field

from deskyard_mcp.answers import said
from deskyard_mcp.offers import ACTS, LOOKS, Offer

MOST = 500
Application = Annotated[str | None, Field(description="part of a program's name")]
Window = Annotated[int | None, Field(description="the id of a window")]
Within = Annotated[str | None, Field(description="the id of an element, to look below it")]


class Naming:
    """The tools that find and use elements of programs by name, through accessibility."""

    def __init__(self, desktop: AsyncDesktop) -> None:
        self._accessibility = desktop.accessibility

    def offers(self) -> Sequence[Offer]:
        """The tools."""
        return [Offer("see", self.elements, LOOKS), Offer("act", self.use_element, ACTS)]

    async def elements(
        self,
        role: Annotated[str | None, Field(description="such as button, entry, link, menu item, check box")] = None,
        name: Annotated[str | None, Field(description="letters of its name")] = None,
        states: Annotated[list[str] | None, Field(description="such as focused, checked, editable")] = None,
        application: Application = None,
        window: Window = None,
        below: Within = None,
        depth: Annotated[int | None, Field(description="of the tree", ge=0, le=100)] = None,
        most: Annotated[int, Field(ge=1, le=MOST)] = 50,
    ) -> CallToolResult:
        """Find elements of programs by role, name or state, or without these read their tree.

        Each has its id for `use_element`, and its rectangle on the screen.
        """
        if role is None and name is None and not states:
            found = await self._accessibility.tree(application, window, below, depth, most, details=True)
            return _listed(found)
        found = await self._accessibility.find(
            role, name, states=states or (), application=application, window=window, node=below, most=most
        )
        return _listed(found)

    async def use_element(
        self,
        id: Annotated[str, Field(description="as `elements` lists it")],
        action: Annotated[str | None, Field(description="one of its actions, such as press")] = None,
        text: Annotated[str | None, Field(description="what shall stand in it")] = None,
        value: Annotated[float | None, Field(description="of a slider and the like")] = None,
        focus: Annotated[bool, Field(description="whether to give it the keyboard")] = False,
    ) -> CallToolResult:
        """Use an element without the pointer: give one of action, text, value, or focus; alone its first action."""
        if sum((action is not None, text is not None, value is not None, focus)) > 1:
            raise DesktopError("action", "", "stands beside text, value or focus", "give one of them")
        if text is not None:
            return said({"ok": True, "text": await self._accessibility.write(id, text), "untrusted": ["text"]})
        if value is not None:
            return said({"ok": True, "value": await self._accessibility.set_value(id, value)})
        if focus:
            await self._accessibility.focus(id)
            return said({"ok": True})
        return said({"ok": True, "action": await self._accessibility.invoke(id, action)})


def _listed(found: Nodes) -> CallToolResult:
    facts: dict[str, Any] = {"elements": [_tree(node.data, node.children) for node in found.nodes]}
    facts |= {"truncated": found.truncated, "silent": found.silent, "event": found.event}
    return said(facts | {"untrusted": ["name", "description", "text", "silent"]})


def _tree(data: dict[str, Any], children: Sequence[Any]) -> dict[str, Any]:
    # What says nothing is left out: a model reads all of it.
    facts = {name: value for name, value in data.items() if value not in ("", None, [])}
    return facts | ({"children": [_tree(child.data, child.children) for child in children]} if children else {})
