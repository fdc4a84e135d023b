"""Runs as the agent's account on a desktop: gives OpenClaw a task over its gateway and says the answer as it comes.

Sent over standard input and run by `python3`, so it knows only the standard library of Python 3.10 and later. It reads
a request (one line of JSON) and answers one line of JSON for each piece. Without the whole request it does nothing. The
gateway's secret is read here and goes no further. When standard input ends, who asked is gone, and the task ends too:
the gateway ends the turn of who hangs up.
"""

import contextlib
import http.client
import json
import os
import re
import select
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deskyard.guest.request import received

HOST = "127.0.0.1"
TOKEN = "OPENCLAW_GATEWAY_TOKEN"
PORT = re.compile(r"--port[ =](\d{1,5})\b")
# How it says that the model's vendor refused the key, and that there is none.
KEY_ERRORS = ("authentication_error", "permission_error")
NO_KEY = re.compile(r"\bAPI key\b|\bsecret reference\b", re.IGNORECASE)
# After a start, or a change of keys, its gateway is not there at once; emulated desktops need minutes.
START_SECONDS = 300.0
PAUSE_SECONDS = 1.0
PIECE = 8192
MAX_LINE = 1 << 22
MAX_REASON = 500


class Failed(Exception):
    """The task was not done: a word for the cause, and what was said about it."""

    def __init__(self, cause: str, said: str = "") -> None:
        super().__init__(cause)
        self.cause, self.said = cause, said


class Watch(threading.Thread):
    """Looks whether the task has to end: its time is over, or nobody listens any more."""

    def __init__(self, seconds: float) -> None:
        super().__init__(daemon=True)
        self.deadline = time.monotonic() + seconds
        self.over = threading.Event()
        self.why = ""
        self.link: socket.socket | None = None

    def run(self) -> None:
        """Wait for the first of both, and hang up."""
        left = self.deadline - time.monotonic()
        heard, _, _ = select.select([0], [], [], max(0.0, left))
        while heard and os.read(0, PIECE):
            heard, _, _ = select.select([0], [], [], max(0.0, self.deadline - time.monotonic()))
        self.why = "stopped" if heard else "timeout"
        self.over.set()
        self.hang_up()

    def hang_up(self) -> None:
        """End the connection under who reads from it."""
        if self.link is not None:
            with contextlib.suppress(OSError):
                self.link.shutdown(socket.SHUT_RDWR)

    def follow(self, link: socket.socket) -> None:
        """Hang up this connection when it is time, which may be now."""
        self.link = link
        if self.over.is_set():
            self.hang_up()


def say(event: str, **more: Any) -> None:
    """Tell who asked."""
    print(json.dumps({"event": event, **more}), flush=True)


def port(unit: str) -> int:
    """The port of the agent's gateway; fails if there is no agent, or none that runs."""
    names = ("LoadState", "ActiveState", "ExecStart")
    argv = ["systemctl", "show", *(f"--property={name}" for name in names), "--", unit]
    shown = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False).stdout
    found = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
    if found.get("LoadState") != "loaded":
        raise Failed("no agent")
    if found.get("ActiveState") not in ("active", "activating", "reloading"):
        raise Failed("not up", found.get("ActiveState", ""))
    match = PORT.search(found.get("ExecStart", ""))
    if match is None:
        raise Failed("not up", "its command line names no port")
    return int(match[1])


def secret(path: str) -> str:
    """Read the secret that the gateway wants to hear."""
    try:
        lines = Path(path).read_text().splitlines()
    except OSError as error:
        raise Failed("refused", f"{path}: {error.strerror}") from None
    for line in lines:
        name, _, value = line.partition("=")
        if name == TOKEN and value:
            return value
    raise Failed("refused", f"{path} holds no {TOKEN}")


def connected(unit: str, watch: Watch) -> http.client.HTTPConnection:
    """A connection to the gateway, which may have to start first."""
    patience, waits = time.monotonic() + START_SECONDS, False
    while True:
        connection = http.client.HTTPConnection(HOST, port(unit), timeout=10)
        with contextlib.suppress(OSError):
            connection.connect()
            # From here on the watch knows how long.
            connection.sock.settimeout(None)
            watch.follow(connection.sock)
            return connection
        if time.monotonic() > patience:
            raise Failed("not up", f"its gateway does not answer on port {connection.port}")
        if not waits:
            say("waiting")
        waits = True
        if watch.over.wait(PAUSE_SECONDS):
            raise Failed("over")


def events(answer: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    """Read a stream of server-sent events, to its end."""
    while line := answer.readline(MAX_LINE):
        words = line.decode("utf-8", "replace").strip()
        if words == "data: [DONE]":
            return
        if words.startswith("data:"):
            found = json.loads(words[5:])
            if isinstance(found, dict):
                yield found
    raise Failed("broken", "its gateway ended the answer in the middle")


def complaint(document: Any) -> str:
    """Read what the gateway says is wrong."""
    error = document.get("error") if isinstance(document, dict) else None
    found = error.get("message") if isinstance(error, dict) else error
    return str(found or "")[:MAX_REASON]


def refusal(status: int, body: bytes) -> Failed:
    """Why the gateway did not take the task."""
    try:
        said = complaint(json.loads(body))
    except ValueError:
        said = ""
    cause = {401: "refused", 403: "refused", 404: "closed", 405: "closed"}.get(status, "broken")
    return Failed(cause, f"{status} {said}".strip())


def pieces(text: str) -> Iterator[str]:
    """The text in pieces that make no line too long."""
    return (text[at : at + PIECE] for at in range(0, len(text), PIECE))


def run(request: dict[str, Any], watch: Watch) -> None:
    """Give the agent the task, and say what it answers."""
    connection = connected(request["unit"], watch)
    body = {"model": "openclaw/default", "stream": True, "messages": [{"role": "user", "content": request["text"]}]}
    headers = {
        "Authorization": f"Bearer {secret(request['secret'])}",
        "Content-Type": "application/json",
        "X-OpenClaw-Session-Key": request["session"],
    }
    connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
    answer = connection.getresponse()
    if answer.status != 200:
        raise refusal(answer.status, answer.read(1 << 16))
    say("begin")
    for event in events(answer):
        if "error" in event:
            said = complaint(event)
            raise Failed("key" if event["error"].get("type") in KEY_ERRORS or NO_KEY.search(said) else "agent", said)
        for choice in event.get("choices") or ():
            for piece in pieces(choice.get("delta", {}).get("content") or ""):
                say("text", text=piece)


def result(request: dict[str, Any]) -> dict[str, str]:
    """Do what is asked; how it ended."""
    watch = Watch(request["seconds"])
    watch.start()
    try:
        run(request, watch)
    except Failed as failure:
        end = {"status": "failed", "cause": failure.cause, "said": failure.said}
    except (OSError, http.client.HTTPException, subprocess.SubprocessError) as error:
        end = {"status": "failed", "cause": "broken", "said": f"{type(error).__name__}: {error}"[:MAX_REASON]}
    except (ValueError, AttributeError, TypeError, KeyError, RecursionError) as error:
        end = {"status": "failed", "cause": "broken", "said": f"an answer that makes no sense ({type(error).__name__})"}
    else:
        return {"status": "done"}
    # After a hang-up any parse error is expected; report the hang-up instead.
    return {"status": watch.why} if watch.over.is_set() else end


if __name__ == "__main__":
    say("end", **result(received()))
