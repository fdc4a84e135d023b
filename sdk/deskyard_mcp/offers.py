"""Tools as a client sees them: a call with its name, and the hints by which a person may let it pass."""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from mcp_types import CallToolResult, ToolAnnotations

SCOPES = ("see", "act", "files", "shell")

LOOKS = ToolAnnotations(read_only_hint=True, open_world_hint=True)
ACTS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True)
SETS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)


Call = Callable[..., Awaitable[CallToolResult]]


@dataclass(frozen=True)
class Offer:
    """A tool: the scope that it needs, what is called, and its hints."""

    scope: str
    call: Call
    hints: ToolAnnotations

    @property
    def name(self) -> str:
        """The call's own."""
        return self.call.__name__

    @property
    def description(self) -> str:
        """The call's own words, without the indentation of its source."""
        return inspect.getdoc(self.call) or ""
