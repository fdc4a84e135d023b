"""Tools that ask the user before they do something, by the protocol's elicitation."""

import inspect
import json
from typing import Annotated, Any, get_type_hints

from deskyard_sdk import DesktopError
from mcp.server.mcpserver import AcceptedElicitation, Elicit, ElicitationResult, Resolve
from mcp_types import CallToolResult
from pydantic import BaseModel, Field

from deskyard_mcp.offers import Call

MOST_SHOWN = 1000


class Agreement(BaseModel):
    """The user's answer."""

    agree: bool = Field(description="whether the agent may do this")


def approved(call: Call) -> Call:
    """The call with the user asked before it; its arguments are shown to them."""
    parameters = inspect.signature(call).parameters
    hints = get_type_hints(call, include_extras=True)
    hints.pop("return")

    async def ask(**given: Any) -> Elicit[Agreement]:
        shown = {name: value for name, value in given.items() if value != parameters[name].default}
        text = json.dumps(shown, ensure_ascii=False, default=str)
        cut = text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}... ({len(text)} characters)"
        return Elicit(f"May the agent use `{call.__name__}` of the desktop? {cut}", Agreement)

    async def asking(agreement: ElicitationResult[Agreement], **given: Any) -> CallToolResult:
        if not (isinstance(agreement, AcceptedElicitation) and agreement.data.agree):
            raise DesktopError("approval", call.__name__, "was not given by the user", "do something else, or ask them")
        return await call(**given)

    # The protocol's library reads what a tool takes off its signature.
    _signed(ask, call, list(parameters.values()), {**hints, "return": Elicit[Agreement]})
    answered = Annotated[ElicitationResult[Agreement], Resolve(ask)]
    agreement = inspect.Parameter("agreement", inspect.Parameter.KEYWORD_ONLY, annotation=answered)
    everything = {**hints, "agreement": answered, "return": CallToolResult}
    _signed(asking, call, [*parameters.values(), agreement], everything)
    return asking


def _signed(function: Any, call: Call, parameters: list[inspect.Parameter], hints: dict[str, Any]) -> None:
    function.__name__, function.__doc__ = call.__name__, call.__doc__
    function.__signature__ = inspect.Signature(parameters, return_annotation=hints["return"])
    function.__annotations__ = hints
