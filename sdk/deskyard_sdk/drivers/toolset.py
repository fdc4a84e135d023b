"""Anthropic's driver as a toolset of Anthropic's own package, for who lets that run the loop."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from deskyard_sdk.drivers.anthropic import Anthropic, AsyncAnthropic
from deskyard_sdk.drivers.driver import explained
from deskyard_sdk.errors import DesktopError

if TYPE_CHECKING:
    from anthropic.tools.computer import (
        BetaAbstractComputerToolset20260801,
        BetaAsyncAbstractComputerToolset20260801,
        BetaComputerMemberResult,
    )


def toolset(driver: Anthropic, **options: Any) -> "BetaAbstractComputerToolset20260801":
    """The driver as a `BetaAbstractComputerToolset20260801`; `options` are that class's: it wants `confirm`.

    The package `anthropic` is needed for this alone.
    """
    from anthropic.tools import ToolError, computer

    class Toolset(computer.BetaAbstractComputerToolset20260801):
        """Each member is a call of the driver; what that refuses is a result that says why."""

        def execute(self, context: Any, name: Any, input: Any) -> "BetaComputerMemberResult":
            """Do what the model asks for."""
            try:
                return _result(name, driver.content(_call(name, input)))
            except DesktopError as error:
                raise ToolError(explained(error)) from error

    return Toolset(**options)


def async_toolset(driver: AsyncAnthropic, **options: Any) -> "BetaAsyncAbstractComputerToolset20260801":
    """The driver as a `BetaAsyncAbstractComputerToolset20260801`, for the loop of `AsyncAnthropic` of that package."""
    from anthropic.tools import ToolError, computer

    class Toolset(computer.BetaAsyncAbstractComputerToolset20260801):
        """Each member is a call of the driver; what that refuses is a result that says why."""

        async def execute(self, context: Any, name: Any, input: Any) -> "BetaComputerMemberResult":
            """Do what the model asks for."""
            try:
                return _result(name, await driver.content(_call(name, input)))
            except DesktopError as error:
                raise ToolError(explained(error)) from error

    return Toolset(**options)


def _call(name: str, input: Any) -> dict[str, Any]:
    return {"id": "", "name": name, "toolset_name": "computer", "input": input.to_dict()}


def _result(name: str, content: Sequence[dict[str, Any]]) -> "BetaComputerMemberResult":
    from anthropic.tools import computer

    (block,) = content
    if block["type"] == "image":
        source = block["source"]
        return computer.BetaScreenshotResult(data=source["data"], media_type=source["media_type"])
    if name == "cursor_position":
        x, y = (int(part[2:]) for part in block["text"].split(","))
        return computer.BetaComputerCursorPositionResult(x=x, y=y)
    return None
