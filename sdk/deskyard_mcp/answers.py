"""Answers of tools: facts as JSON, pictures as image content, refusals with field, value, reason and remedy."""

import base64
import json
from collections.abc import Mapping
from typing import Any

from deskyard_sdk import Acted, DesktopError, Event, Picture
from mcp import MCPError
from mcp_types import INVALID_PARAMS, CallToolResult, ContentBlock, ImageContent, TextContent
from pydantic import ValidationError

# What clients of the protocol take: a larger picture is refused by some, and scaled by others so that clicks miss.
MOST_PICTURE = 1_000_000
MOST_SIDE = 1280
LOOK = {"format": "jpeg", "max": MOST_SIDE}
MOST_TEXT = 50_000


def said(facts: Mapping[str, Any], picture: Picture | None = None) -> CallToolResult:
    """The answer that holds these facts, before them the picture if there is one."""
    known, content = dict(facts), list[ContentBlock]()
    if picture is not None:
        known["picture"] = shown(picture)
        if picture.data is not None:
            data = base64.b64encode(picture.data).decode()
            content.append(ImageContent(type="image", data=data, mime_type=f"image/{picture.format}"))
    text = json.dumps(known, ensure_ascii=False)
    return CallToolResult(content=[*content, TextContent(type="text", text=text)], structured_content=known)


def shown(picture: Picture) -> dict[str, Any]:
    """The facts of a picture; raises `DesktopError` for one that clients would not take."""
    if picture.data is None:
        return {"changed": False, "state": picture.state}
    if len(picture.data) > MOST_PICTURE:
        remedy = "ask for jpeg, a region, or a smaller max"
        raise DesktopError("picture", picture.format, f"is larger than {MOST_PICTURE} bytes", remedy)
    return {
        "space": picture.space,
        "size": list(picture.size),
        "region": list(picture.region),
        "state": picture.state,
        "untrusted": ["image"],
    }


def acted(done: Acted) -> CallToolResult:
    """The answer to a batch of actions."""
    facts: dict[str, Any] = {"results": done.results, "event": done.event}
    if done.waited is not None:
        facts["wait"] = done.waited
    if done.unseen is not None:
        facts["picture"] = done.unseen
    return said(facts, done.picture)


def happened(event: Event) -> dict[str, Any]:
    """An event as facts."""
    return {"event": event.kind, "seq": event.seq, **event.data}


def refused(error: DesktopError) -> CallToolResult:
    """The answer that says what is refused, and what to do."""
    facts = _refusal(error)
    # Of a batch: which actions were done before the one that failed.
    if results := error.body.get("results"):
        facts["results"] = results
    text = json.dumps(facts, ensure_ascii=False)
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=facts, is_error=True)


def denied(error: DesktopError) -> MCPError:
    """The protocol's error that says what is refused, and what to do, where no tool answers."""
    message = f"{error.field} {error.value} {error.reason}; {error.remedy}"
    # The protocol's own field for a resource that there is not.
    where = {"uri": error.value} if error.field == "uri" else {}
    return MCPError(INVALID_PARAMS, message, _refusal(error) | where)


def _refusal(error: DesktopError) -> dict[str, Any]:
    facts: dict[str, Any] = {"error": error.field, "value": error.value, "reason": error.reason, "remedy": error.remedy}
    return facts | ({"status": error.status} if error.status else {})


def misread(error: ValidationError) -> DesktopError:
    """The refusal of arguments that are not what a tool takes."""
    first = error.errors(include_url=False)[0]
    field = ".".join(map(str, first["loc"])) or "arguments"
    value = "" if first["type"] == "missing" else repr(first["input"])[:80]
    return DesktopError(field, value, first["msg"], "give what the tool's schema says")


def short(text: str, most: int = MOST_TEXT) -> tuple[str, int]:
    """The end of a text, and how many of its characters are left out before it."""
    return text[-most:], max(0, len(text) - most)
