#!/usr/bin/python3 -I
"""Runs as root in a gateway for whoever has the key of the process `link`: answers a few questions, and nothing else.

sshd starts it whatever is asked for; what that was stands in a variable. It is compared word by word, and no shell sees
any of it. Put there by `link_account`, so it knows only the standard library of Python 3.11 and later.
"""

import contextlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
from typing import Any

PROGRAM = "/usr/bin/deskyard-gateway"
SERVICE = "/run/deskyard-session/admin.sock"
STATUS = "/run/deskyard-status/status.sock"
CHAT = "/run/deskyard-session/chat.sock"
SERVICE_SECONDS = 60.0
BLOCK = 1 << 16
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
ASKED = "SSH_ORIGINAL_COMMAND"
ACTOR = "mission-control"
# Chains of Mission Control alone, by the names that it gives them.
SOURCE = r"mission\.[0-9a-f]{16}"
NAME = r"[a-z](?:[a-z0-9-]{0,30}[a-z0-9])?"
NUMBER, HASH = r"[1-9][0-9]{0,17}", r"[0-9a-f]{64}"
# Where the host has a desktop, and since when.
STAGE = f"{NAME}=(?:provisioning|booting|stopping|stopped|paused|error|io-error)@{NUMBER}"
# Each word as a pattern.
QUESTIONS = (
    ("status",),
    ("status", f"{NAME}(?:,{NAME})*"),
    ("list",),
    ("waking", NAME, "(?:starts|no-room|failed)"),
    ("stages", f"{STAGE}(?:,{STAGE})*"),
    ("chat",),
    ("asks", "--json", "--follow"),
    ("audit", "--verify"),
    ("audit", "--verify", "--known", f"{NUMBER}:{HASH}"),
    ("anchors", "--source", SOURCE),
    ("anchors", "--source", SOURCE, "--last", NUMBER),
    ("anchor", "--source", SOURCE, "--number", NUMBER, "--head", HASH, "--actor", ACTOR),
)
MOST_SHOWN = 80


def understood(text: str) -> list[str] | None:
    """The words of a question that may be asked; None if it is any other."""
    words = text.split(" ")
    for question in QUESTIONS:
        if len(words) == len(question) and all(map(_is, question, words)):
            return words
    return None


def _is(pattern: str, word: str) -> bool:
    return re.fullmatch(pattern, word, re.ASCII) is not None


def requests(words: list[str]) -> list[tuple[str, dict[str, Any]]]:
    """The socket of a service and the request to it, in order until a service understands it.

    There is none of what the gateway's program alone is asked.
    """
    if words[0] == "status":
        # A service from before looks at all desktops, and knows no other question.
        named = [(STATUS, {"command": "status", "desktops": names.split(",")}) for names in words[1:]]
        return [*named, (STATUS, {"command": "status"})]
    if words == ["list"]:
        return [(SERVICE, {"command": "list"})]
    if words[0] == "waking":
        return [(SERVICE, {"command": "waking", "desktop": words[1], "state": words[2]})]
    if words[0] == "stages":
        each = (re.split("[=@]", stage) for stage in words[1].split(","))
        stages = {desktop: {"state": state, "at": int(at)} for desktop, state, at in each}
        return [(SERVICE, {"command": "stages", "desktops": stages})]
    if words[0] == "anchor":
        line = {"source": words[2], "number": int(words[4]), "head": words[6], "actor": words[8]}
        return [(SERVICE, {"command": "anchor", **line})]
    return []


def answer_of(words: list[str]) -> dict[str, Any] | None:
    """The answer of the service that is there for a question; None if it gives none."""
    for path, asked in requests(words):
        answer = ask_service(path, asked)
        if answer is None or not _is_strange(answer):
            return answer
    return None


def _is_strange(answer: dict[str, Any]) -> bool:
    """Whether the service knows no such request."""
    error = answer.get("error")
    return isinstance(error, dict) and error.get("field") == "request"


def ask_service(path: str, asked: dict[str, Any]) -> dict[str, Any] | None:
    """The answer of a service on its socket; None if it gives none."""
    with contextlib.suppress(OSError, ValueError), socket.socket(socket.AF_UNIX) as line:
        line.settimeout(SERVICE_SECONDS)
        line.connect(path)
        line.sendall(json.dumps(asked).encode() + b"\n")
        line.shutdown(socket.SHUT_WR)
        with line.makefile("rb") as stream:
            answer = json.loads(stream.read())
        if isinstance(answer, dict) and ("result" in answer or "error" in answer):
            return answer
    return None


def ask_program(words: list[str]) -> int:
    """Let the gateway's program answer; it ends when whoever asked has left, who else would be followed for ever."""
    process = subprocess.Popen([PROGRAM, *words], stdin=subprocess.DEVNULL, env=ENVIRONMENT)
    try:
        ended = os.pidfd_open(process.pid)
        waiting = select.poll()
        waiting.register(ended, select.POLLIN)
        # Of this one only its end is told.
        waiting.register(sys.stdout.fileno(), 0)
        if (ended, select.POLLIN) in waiting.poll():
            return process.wait()
        return 1
    finally:
        process.kill()
        process.wait()


def carry() -> int:
    """Carry what is said on the pages of desktops out, and the answers in, until either side ends it."""
    with socket.socket(socket.AF_UNIX) as line:
        try:
            line.connect(CHAT)
        except OSError as error:
            reason, remedy = f"does not answer: {error}", "see `systemctl status deskyard-session` in the gateway"
            print(json.dumps({"error": {"field": "chat", "value": None, "reason": reason, "remedy": remedy}}))
            return 1
        near, out = sys.stdin.fileno(), sys.stdout.fileno()
        ready = select.poll()
        for source in (near, line.fileno()):
            ready.register(source, select.POLLIN)
        # Of this one only its end is told.
        ready.register(out, 0)
        while True:
            for source, _ in ready.poll():
                block = b"" if source == out else os.read(source, BLOCK)
                if not block:
                    return 0
                if source == near:
                    line.sendall(block)
                while source != near and block:
                    block = block[os.write(out, block) :]


def refusal(text: str) -> dict[str, Any]:
    """The answer to what may not be asked."""
    value = "".join(letter if letter.isascii() and letter.isprintable() else "?" for letter in text[:MOST_SHOWN])
    reason, remedy = "is no question that this key may ask", "ask with the site's own key: ./inv access, ./inv egress"
    return {"error": {"field": "question", "value": value or None, "reason": reason, "remedy": remedy}}


def main() -> int:
    """Answer the question that came by SSH; 1 and `{"error": ...}` if it may not be asked, or has no answer."""
    for sign in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, lambda *_: sys.exit(1))
    text = os.environ.get(ASKED, "")
    words = understood(text)
    if words is None:
        print(json.dumps(refusal(text)))
        return 1
    if words == ["chat"]:
        return carry()
    answer = answer_of(words)
    if answer is None:
        # Of a service that is down, or that a gateway from before lacks, the program says what there is to say.
        return ask_program(["status"] if words[0] == "status" else words)
    print(json.dumps(answer.get("result", answer)))
    return 0 if "result" in answer else 1


if __name__ == "__main__":
    sys.exit(main())
