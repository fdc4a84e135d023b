"""Runs as the agent's account on a desktop: gives OpenClaw a task over its gateway and says the answer as it comes.

It speaks the gateway's own protocol, and where that is older, or does not let it in, HTTP: text and nothing else.

Sent over standard input and run by `python3`, so it knows only the standard library of Python 3.10 and later. It reads
a request (one line of JSON) and answers one line of JSON for each piece. Without the whole request it does nothing. The
gateway's secret is read here and goes no further. When standard input ends, who asked is gone, and the task ends too:
the gateway ends the turn of who hangs up.
"""

import contextlib
import http.client
import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deskyard.guest.agent.openclaw import Older, converse, opened
from deskyard.guest.agent.turn import MAX_REASON, Failed, Watch, outcome, pieces, say
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
MAX_LINE = 1 << 22


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


def run(request: dict[str, Any], watch: Watch) -> None:
    """Give the agent the task, and say what it answers."""
    connection = connected(request["unit"], watch)
    token = secret(request["secret"])
    try:
        link = opened(connection.sock, f"{HOST}:{connection.port}")
        converse(link, token, request, watch, Path.home())
    except Older as older:
        if watch.over.is_set():
            raise Failed("over") from None
        say("plain", said=str(older))
        connection.close()
        over_http(connected(request["unit"], watch), token, request)


def over_http(connection: http.client.HTTPConnection, token: str, request: dict[str, Any]) -> None:
    """The same over the gateway's HTTP: the agent's text as it comes."""
    body = {"model": "openclaw/default", "stream": True, "messages": [{"role": "user", "content": request["text"]}]}
    headers = {
        "Authorization": f"Bearer {token}",
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


if __name__ == "__main__":
    say("end", **outcome(run, received()))
