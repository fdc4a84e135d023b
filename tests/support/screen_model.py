"""A model that uses a screen, behind Anthropic's Messages API: it does what its task says, a step a turn.

The task names in backquotes a program, its window's title, a text for it, and keys to press then. A step follows from
what the tools answered to the one before; a picture that is missing, or has not the size that was told, is a mistake.
"""

import base64
import re
import struct
from collections.abc import Callable, Mapping
from typing import Any

from tests.support.vendor_api import Api

QUOTED = re.compile(r"`([^`]*)`")
GEOMETRY = re.compile(r"'geometry': \[(\d+), (\d+), (\d+), (\d+)\]")
Step = Callable[["Turn"], dict[str, Any]]


class Turn:
    """What the model knows when it is asked."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        messages = request["messages"]
        self.command, self.title, self.text, self.keys = QUOTED.findall(messages[0]["content"])
        self.results = [block for message in messages[2::2] for block in message["content"]]
        self.tool = next(tool for tool in request["tools"] if tool["name"] == "computer")

    def middle(self) -> list[int]:
        """The middle of the window that appeared, in pixels of the picture."""
        found = GEOMETRY.search(str([result["content"] for result in self.results]))
        assert found, "no window's place was told"
        x, y, width, height = map(int, found.groups())
        return [x + width // 2, y + height // 2]

    def check_picture(self) -> None:
        """The last result is a picture of the size that the tool has."""
        source = self.results[-1]["content"][0]["source"]
        size = struct.unpack(">II", base64.b64decode(source["data"])[16:24])
        assert size == (self.tool["display_width_px"], self.tool["display_height_px"])


def computer(action: str, **given: Any) -> dict[str, Any]:
    """A call of the tool `computer`."""
    return {"name": "computer", "input": {"action": action, **given}}


def wait_for(event: str, turn: Turn) -> dict[str, Any]:
    """A call of the tool `wait_for`."""
    return {"name": "wait_for", "input": {"event": event, "match": {"title": turn.title}}}


STEPS: tuple[Step, ...] = (
    lambda turn: {"name": "start", "input": {"command": turn.command.split(" ")}},
    lambda turn: wait_for("window.appeared", turn),
    lambda turn: computer("left_click", coordinate=turn.middle()),
    lambda turn: computer("type", text=turn.text),
    lambda turn: computer("key", text=turn.keys),
    lambda turn: wait_for("window.closed", turn),
)


def reply(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The content of the next message."""
    turn = Turn(request)
    if turn.results and turn.results[-1].get("is_error"):
        return [{"type": "text", "text": f"It failed: {turn.results[-1]['content']}"}]
    if len(turn.results) in (3, 4, 5):
        turn.check_picture()
    if len(turn.results) == len(STEPS):
        return [{"type": "text", "text": "It is done."}]
    call = STEPS[len(turn.results)](turn)
    return [{"type": "tool_use", "id": f"toolu_{len(turn.results)}", **call}]


class Model(Api):
    """Answers who has the key."""

    key = "secret"

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The next message."""
        assert (self.path, self.headers["x-api-key"]) == ("/v1/messages", self.key)
        return {"role": "assistant", "content": reply(asked)}
