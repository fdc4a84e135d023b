"""A model of the smallest kind, behind the API of OpenAI (chat completions): it does what the task says in backquotes.

`run `command`` in a task makes it call the agent's tool `exec` with that command, and call `tool` with `input`` another
one; what the tool answered, it says, and how many pictures came with it.
Asked what is `noted of `words``, it says the first line with them of what it was told besides the conversation. It
knows only the standard library, for it runs on the host whose agent asks it: python3 model_server.py PORT KEY [LOG]
"""

import json
import re
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

COMMAND = re.compile(r"run `([^`]+)`")
CALL = re.compile(r"call `(\w+)` with `([^`]+)`")
NOTED = re.compile(r"noted of `([^`]+)`")
MAX_TOLD = 500


def texts(message: dict[str, Any]) -> str:
    """What a message says, however it is written down."""
    content = message.get("content") or ""
    parts = [content] if isinstance(content, str) else [str(part.get("text", "")) for part in content]
    return "\n".join(parts)


def pictures(message: dict[str, Any]) -> int:
    """How many pictures a message holds."""
    content = message.get("content") or ""
    return 0 if isinstance(content, str) else sum(part.get("type") == "image_url" for part in content)


def calls(message: dict[str, Any]) -> list[tuple[str, str]]:
    """The tools that a message asks for, each with its input in JSON."""
    said = texts(message)
    return [("exec", json.dumps({"command": command})) for command in COMMAND.findall(said)] + CALL.findall(said)


def reply(request: dict[str, Any]) -> dict[str, Any]:
    """The model's next message: the call of a tool, or what became of it."""
    messages = request["messages"]
    # What came since it spoke last: the agent adds messages of its own to those of its owner.
    spoken = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
    new = messages[spoken[-1] + 1 if spoken else 0 :]
    results = [texts(message) for message in new if message["role"] == "tool"]
    if results:
        seen = sum(pictures(message) for message in new)
        said = f"The command said: {results[-1][:MAX_TOLD].strip()}"
        return {"content": f"{said}\nPictures seen: {seen}." if seen else said}
    asked = [call for message in new if message["role"] == "user" for call in calls(message)]
    tools = [tool["function"]["name"] for tool in request.get("tools", [])]
    if asked and asked[-1][0] in tools:
        call = dict(zip(("name", "arguments"), asked[-1], strict=True))
        return {"tool_calls": [{"index": 0, "id": f"call_{len(messages)}", "type": "function", "function": call}]}
    wanted = [words for message in new if message["role"] == "user" for words in NOTED.findall(texts(message))]
    if wanted:
        results = [texts(message) for message in messages if message["role"] in ("system", "developer")]
        lines = [line for text in results for line in text.splitlines() if wanted[-1] in line]
        return {"content": f"It is noted: {lines[0]}" if lines else "Nothing is noted."}
    return {"content": "There is nothing to run."}


def chunks(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The message as the API streams it: a word at a time."""
    message = reply(request)
    words = re.findall(r"\S+\s*", message.get("content", ""))
    for delta in [{"content": word} for word in words] or [message]:
        yield {"delta": {"role": "assistant", **delta}, "finish_reason": None}
    yield {"delta": {}, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}


class Model(BaseHTTPRequestHandler):
    """Answers who has the key."""

    protocol_version = "HTTP/1.0"
    key, log = "", Path("/dev/null")

    def do_POST(self) -> None:
        """One turn."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        trusted = self.headers.get("Authorization") == f"Bearer {self.key}"
        with self.log.open("a") as log:
            log.write(f"{self.path} {'known' if trusted else 'unknown'}\n")
        if not trusted or self.path != "/v1/chat/completions":
            self._send(401 if not trusted else 404, "application/json")
            self.wfile.write(b'{"error": {"message": "Incorrect API key provided", "type": "invalid_request_error"}}')
            return
        self._send(200, "text/event-stream")
        for choice in chunks(request):
            event = {"id": "chat-1", "object": "chat.completion.chunk", "created": 1, "model": request["model"]}
            line = json.dumps({**event, "choices": [{"index": 0, **choice}]})
            self.wfile.write(f"data: {line}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _send(self, status: int, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.end_headers()


if __name__ == "__main__":
    Model.key = sys.argv[2]
    if len(sys.argv) > 3:
        Model.log = Path(sys.argv[3])
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Model).serve_forever()
