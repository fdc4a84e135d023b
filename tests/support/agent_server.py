"""Stands for OpenClaw's gateway as far as a task needs it: it streams, and notices who hangs up.

What it does, the task says: "count" answers in pieces, "hang" begins and says no more, "fail", "wrong" and "missing"
are errors, "cut", "escape", "off", "nonsense". It knows only the standard library, for it runs on hosts:
python3 agent_server.py SECRET_FILE LOG --port PORT
"""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PIECES = ("one ", "two ", "three\n")
PAUSE_SECONDS = 0.4
# As the real one says them.
ERRORS = {
    "fail": {"message": "internal error", "type": "api_error"},
    "wrong": {"message": "401 Incorrect API key provided", "type": "authentication_error"},
    "missing": {
        "message": "Secret owner provider:local is configured but unavailable (secret reference was not found).",
        "type": "api_error",
    },
}


class Gateway(BaseHTTPRequestHandler):
    """Answers who has the secret."""

    protocol_version = "HTTP/1.1"
    secret, log = Path("/dev/null"), Path("/dev/null")

    def do_POST(self) -> None:
        """One turn."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = request["messages"][0]["content"]
        token = self.secret.read_text().strip().partition("=")[2]
        if self.headers["Authorization"] != f"Bearer {token}":
            return self._refuse(401, "Unauthorized")
        if "off" in text:
            return self._refuse(404, "Not Found")
        self._note(f"session {self.headers['X-OpenClaw-Session-Key']}")
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._delta({"role": "assistant"})
        for word, turn in {"count": self._count, "hang": self._hang}.items():
            if word in text:
                turn()
        for word, error in ERRORS.items():
            if word in text:
                self._chunk(f"data: {json.dumps({'error': error})}\n\n")
        if "escape" in text:
            self._delta({"content": "a\x1b[2Jb\x9bc\rd\te\n"})
        if "nonsense" in text:
            self._chunk("data: [1, {\n\n")
        if "cut" in text:
            self.close_connection = True
            return None
        self._chunk("data: [DONE]\n\n")
        self._chunk("")
        return None

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _count(self) -> None:
        for piece in PIECES:
            self._delta({"content": piece})
            time.sleep(PAUSE_SECONDS)

    def _hang(self) -> None:
        self._delta({"content": "begun"})
        # Nothing comes but the end of the connection.
        while self.rfile.read(1):
            pass
        self._note("hung up")

    def _delta(self, delta: dict[str, Any]) -> None:
        event = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        self._chunk(f"data: {json.dumps(event)}\n\n")

    def _chunk(self, text: str) -> None:
        content = text.encode()
        self.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")

    def _refuse(self, status: int, message: str) -> None:
        content = json.dumps({"error": {"message": message}}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _note(self, line: str) -> None:
        with self.log.open("a") as log:
            log.write(f"{line}\n")


def server(secret: Path, log: Path, port: int) -> ThreadingHTTPServer:
    """The gateway on a port of the loopback address; 0 is any."""
    return ThreadingHTTPServer(("127.0.0.1", port), type("Bound", (Gateway,), {"secret": secret, "log": log}))


if __name__ == "__main__":
    server(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[4])).serve_forever()
