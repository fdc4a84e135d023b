"""An agent made with the SDK of its protocol, which checks each message that it gets; it does what the task names.

It keeps its conversations in the folder that it works in, so that another process of it can go on with one.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any, cast

import acp
from acp.exceptions import RequestError
from acp.helpers import (
    start_tool_call,
    text_block,
    tool_content,
    update_agent_message_text,
    update_agent_thought_text,
    update_tool_call,
    update_user_message_text,
)
from acp.schema import (
    AgentCapabilities,
    InitializeResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PermissionOption,
    PromptResponse,
    ToolCallUpdate,
    Usage,
)

FORGETFUL = "forgetful" in sys.argv


class Agent:
    """Does what the words of its task name."""

    def __init__(self) -> None:
        self._client: Any = None
        self._cancelled = asyncio.Event()

    def on_connect(self, client: Any) -> None:
        """Keep whom it talks to."""
        self._client = client

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        """Say what it can."""
        if "silent" in sys.argv:
            print("cannot read my settings", file=sys.stderr, flush=True)
            os._exit(1)
        version = 2 if "newer" in sys.argv else protocol_version
        return InitializeResponse(
            protocol_version=version, agent_capabilities=AgentCapabilities(load_session=not FORGETFUL)
        )

    async def new_session(self, cwd: str, **_: Any) -> NewSessionResponse:
        """Begin a conversation."""
        if "signed-out" in sys.argv:
            raise RequestError(-32000, "Authentication required")
        name = f"talk-{len(list(Path(cwd).glob('talk-*')))}"
        Path(cwd, name).write_text("")
        return NewSessionResponse(session_id=name)

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> LoadSessionResponse | None:
        """Go on with a conversation, and say it again, as the protocol wants."""
        for line in Path(cwd, session_id).read_text().splitlines():
            await self._client.session_update(session_id, update_user_message_text(line))
            await self._client.session_update(session_id, update_agent_message_text("said before"))
        return LoadSessionResponse()

    async def prompt(self, prompt: list[Any], session_id: str, **_: Any) -> PromptResponse:
        """A turn."""
        text = "".join(block.text for block in prompt)
        if "sign in" in text and not Path("signed-in").exists():
            Path("signed-in").touch()
            raise RequestError(-32000, "Authentication required")
        before = Path(session_id).read_text().splitlines()
        with Path(session_id).open("a") as file:
            file.write(f"{text}\n")
        await self._client.session_update(session_id, update_agent_thought_text("let me think"))
        if "wait" in text:
            await self._say(session_id, "waiting")
            await self._cancelled.wait()
            Path("cancelled").touch()
            return PromptResponse(stop_reason="cancelled")
        if "die" in text:
            print("a fault of mine", file=sys.stderr, flush=True)
            os._exit(3)
        if "refuse" in text:
            return PromptResponse(stop_reason="refusal")
        if "tool" in text:
            await self._tool(session_id)
        if "key" in text:
            await self._say(session_id, os.environ.get("ANTHROPIC_API_KEY", "none"))
        if "file" in text:
            # It was told that there is no such thing.
            try:
                await self._client.read_text_file(path="/etc/passwd", session_id=session_id)
            except RequestError as error:
                await self._say(session_id, f"file: {error.code}")
        await self._say(session_id, f"turn {len(before) + 1}: ")
        await self._say(session_id, text.upper())
        return PromptResponse(
            stop_reason="end_turn", usage=Usage(total_tokens=15, input_tokens=10, output_tokens=5, cached_read_tokens=2)
        )

    async def cancel(self, session_id: str, **_: Any) -> None:
        """End the turn."""
        self._cancelled.set()

    async def _say(self, session: str, text: str) -> None:
        await self._client.session_update(session, update_agent_message_text(text))

    async def _tool(self, session: str) -> None:
        started = start_tool_call("call-1", "Run ls", kind="execute", status="pending", raw_input={"command": "ls"})
        await self._client.session_update(session, started)
        options = [
            PermissionOption(option_id="always", name="Always", kind="allow_always"),
            PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
            PermissionOption(option_id="no", name="No", kind="reject_once"),
        ]
        call = ToolCallUpdate(tool_call_id="call-1", title="Run ls")
        answer = await self._client.request_permission(options=options, session_id=session, tool_call=call)
        chosen = json.loads(answer.outcome.model_dump_json(by_alias=True)).get("optionId")
        done = update_tool_call(
            "call-1",
            status="completed" if chosen == "yes" else "failed",
            content=[tool_content(text_block(f"chosen: {chosen}"))],
        )
        await self._client.session_update(session, done)


if __name__ == "__main__":
    print("hello, I greet on my output", flush=True)
    asyncio.run(acp.run_agent(cast(Any, Agent())))
    Path("ended").touch()
