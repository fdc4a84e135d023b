"""Tools for applications: what there is (scope `see`), and its start with its window awaited (scope `act`)."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from deskyard_sdk import AsyncDesktop, DesktopError
from mcp_types import CallToolResult
from pydantic import Field

from deskyard_mcp.answers import said
from deskyard_mcp.offers import ACTS, LOOKS, Offer

MOST_SECONDS = 300


class Launching:
    """The applications that a person has in the menu."""

    def __init__(self, desktop: AsyncDesktop) -> None:
        self._desktop = desktop

    def offers(self) -> Sequence[Offer]:
        """The tools."""
        return [Offer("see", self.applications, LOOKS), Offer("act", self.launch, ACTS)]

    async def applications(self) -> CallToolResult:
        """List the applications of the desktop's menu."""
        found = [application.data for application in await self._desktop.applications()]
        return said({"applications": found, "untrusted": ["name", "comment"]})

    async def launch(
        self,
        application: Annotated[str | None, Field(description="an id of `applications`")] = None,
        targets: Annotated[list[str] | None, Field(description="files or addresses for it")] = None,
        open: Annotated[
            str | None, Field(description="instead: a file or address, opened by its usual program")
        ] = None,
        wait: Annotated[
            Literal["window", "ready", "nothing"],
            Field(description="until its window is there, or takes keys too, such as a page that is loaded"),
        ] = "window",
        within_seconds: Annotated[float, Field(gt=0, le=MOST_SECONDS)] = 60,
    ) -> CallToolResult:
        """Start an application, or open a file or address, and wait for its window."""
        if (application is None) == (open is None):
            raise DesktopError("application", "", "and open are both given, or neither", "give one of them")
        if open is not None:
            done = await self._desktop.open(open, wait, within_seconds)
        else:
            done = await self._desktop.launch(str(application), *(targets or ()), wait=wait, within=within_seconds)
        facts: dict[str, Any] = {"pid": done.pid, "event": done.event}
        if done.window is not None:
            facts |= {"window": done.window.data, "untrusted": ["title", "class", "instance"]}
        return said(facts)
