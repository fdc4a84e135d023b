"""Anthropic's driver as a toolset of Anthropic's own package, for who lets that run the loop."""

from typing import TYPE_CHECKING, Any

from deskyard_sdk.drivers.anthropic import Anthropic

if TYPE_CHECKING:
    from anthropic.tools.computer import BetaAbstractComputerToolset20260801, BetaComputerMemberResult


def toolset(driver: Anthropic, **options: Any) -> "BetaAbstractComputerToolset20260801":
    """The driver as a `BetaAbstractComputerToolset20260801`; `options` are that class's: it wants `confirm`.

    The package `anthropic` is needed for this alone.
    """
    from anthropic.tools import computer

    class Toolset(computer.BetaAbstractComputerToolset20260801):
        """Each member is a call of the driver; what that refuses is a result that says why."""

        def execute(self, context: Any, name: Any, input: Any) -> "BetaComputerMemberResult":
            """Do what the model asks for."""
            call = {"id": "", "name": name, "toolset_name": "computer", "input": input.to_dict()}
            (block,) = driver.content(call)
            if block["type"] == "image":
                source = block["source"]
                return computer.BetaScreenshotResult(data=source["data"], media_type=source["media_type"])
            if name == "cursor_position":
                x, y = (int(part[2:]) for part in block["text"].split(","))
                return computer.BetaComputerCursorPositionResult(x=x, y=y)
            return None

    return Toolset(**options)
