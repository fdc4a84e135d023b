"""Runs as the agent's account on a desktop: gives a task to an agent that speaks the Agent Client Protocol, version 1.

Sent over standard input and run by `python3`, so it knows only the standard library of Python 3.10 and later. It reads
a request (one line of JSON) and answers one line of JSON for each piece. Without the whole request it does nothing. The
agent is a process of this one: it starts with the task and is gone with it. When standard input ends, who asked is
gone: the turn is cancelled, and the agent ends.

Names and shapes: the protocol's schema, as in agent-client-protocol 0.12.1 and agentclientprotocol.com/protocol/v1.
"""

import contextlib
import fcntl
import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from deskyard.guest.agent.turn import (
    ASK_SECONDS,
    END_SECONDS,
    MAX_EXCERPT,
    MAX_REASON,
    MAX_SUMMARY,
    Failed,
    Watch,
    outcome,
    pieces,
    say,
)
from deskyard.guest.request import received

PROTOCOL = 1
KEYS = "/etc/deskyard/keys.env"
ASSIGNMENT = re.compile(r"([A-Z][A-Z0-9_]{0,63})='([^']*)'")
MEMORY = ".local/state/deskyard/acp"
MAX_LINE, MAX_KEPT, MAX_OPTIONS = 1 << 22, 1 << 20, 10
NOT_KNOWN, SIGN_IN = -32601, -32000
ALLOWING = {"allow": ("allow_once", "allow_always"), "refuse": ("reject_once", "reject_always")}
STATES = {"pending": "started", "in_progress": "started", "completed": "done", "failed": "failed"}
# The stops that are no answer.
REFUSED = {"refusal": "it refused to go on", "max_turn_requests": "it asked its model as often as it may in one turn"}


class Refused(Failed):
    """The agent answered that it does not do what it was asked."""


class Agent:
    """The program, and what is said with it."""

    def __init__(self, command: list[str], folder: Path, keys: dict[str, str]) -> None:
        # It may say more than a pipe takes while nobody reads it.
        self._complaints: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(
                command,
                stdin=pipe,
                stdout=pipe,
                stderr=self._complaints,
                cwd=folder,
                env={**os.environ, **keys},
                start_new_session=True,
            )
        except OSError as error:
            raise Failed("no program", f"{error.filename or command[0]}: {error.strerror}"[:MAX_REASON]) from None
        self._count, self._questions, self.replaying = 0, 0, False
        self.permissions, self.said = "allow", ""
        self.watch: Watch | None = None

    def tell(self, method: str, params: dict[str, Any]) -> None:
        """Say something that has no answer."""
        self._send({"method": method, "params": params})

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request; what the agent says and asks meanwhile is passed on, and answered."""
        self._count += 1
        number = self._count
        self._send({"id": number, "method": method, "params": params})
        for message in self._messages():
            if "method" in message:
                self._hear(message)
            elif message.get("id") == number:
                if "error" in message:
                    raise _refusal(message["error"])
                return dict(message.get("result") or {})
        raise Failed("broken", self._last_words() or f"it ended at {method}")

    def end(self) -> None:
        """Let it end by itself, which may be when it writes its conversation down; then all that it started goes."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_SECONDS)
        self.shutdown()

    def shutdown(self, _: int = 0) -> None:
        """End it at once, and all that it started in its group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            # What it said before tells more; its end is met by whoever reads.
            return

    def _messages(self) -> Iterator[dict[str, Any]]:
        assert self._process.stdout is not None
        while line := self._process.stdout.readline(MAX_LINE):
            # Programs that were not made for it greet on their output.
            with contextlib.suppress(ValueError):
                found = json.loads(line)
                if isinstance(found, dict):
                    yield found

    def _hear(self, message: dict[str, Any]) -> None:
        method, params = message["method"], message.get("params") or {}
        if method == "session/update":
            if not self.replaying:
                self.said += hear(params.get("update") or {})
        elif method == "session/request_permission":
            self._send({"id": message["id"], "result": {"outcome": self._decide(params)}})
        elif "id" in message:
            error = {"code": NOT_KNOWN, "message": f"{method} is not offered"}
            self._send({"id": message["id"], "error": error})

    def _decide(self, params: dict[str, Any]) -> dict[str, str]:
        call = params.get("toolCall") or {}
        asked = str(call.get("title") or call.get("kind") or "")[:MAX_SUMMARY]
        options = list(params.get("options") or ())
        if self.permissions == "ask" and self.watch is not None:
            return self._ask(self.watch, asked, options[:MAX_OPTIONS])
        say("approval", id=str(call.get("toolCallId")), kind=self.permissions, asked=asked)
        return _first(options, ALLOWING[self.permissions])

    def _ask(self, watch: Watch, asked: str, options: list[dict[str, Any]]) -> dict[str, str]:
        """Let a person choose; without an answer it is a refusal."""
        self._questions += 1
        id = f"q{self._questions}"
        shown = [
            {"id": str(option["optionId"]), "name": str(option.get("name")), "kind": str(option.get("kind"))}
            for option in options
        ]
        say("question", id=id, asked=asked, options=shown)
        chosen = watch.answer(id, ASK_SECONDS).get("option")
        if watch.over.is_set():
            return {"outcome": "cancelled"}
        if chosen in [option["id"] for option in shown]:
            say("heard", id=id, option=chosen)
            return {"outcome": "selected", "optionId": chosen}
        say("heard", id=id, option=None)
        return _first(options, ALLOWING["refuse"])

    def _last_words(self) -> str:
        self._process.wait()
        self._complaints.seek(0, os.SEEK_END)
        self._complaints.seek(max(0, self._complaints.tell() - MAX_REASON))
        return self._complaints.read().decode(errors="replace").strip()


class Memory:
    """A conversation on the desktop: the agent's own name for it, and the last message with what came of it."""

    def __init__(self, home: Path, session: str) -> None:
        folder = home / MEMORY
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"{session}.json"
        self._lock = (folder / f"{session}.lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failed("busy", "another task of this conversation is under way") from None
        found: Any = None
        with contextlib.suppress(OSError, ValueError):
            found = json.loads(self._path.read_text())
        self.known: dict[str, Any] = found if isinstance(found, dict) else {}

    def keep(self, **news: Any) -> None:
        """Write down what is known by now, in one step."""
        self.known |= news
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(self.known))
        new.replace(self._path)


def run(request: dict[str, Any], watch: Watch) -> None:
    """Give the agent the task, and say what it answers."""
    home = Path.home()
    memory = Memory(home, request["session"])
    if memory.known.get("id") == request["id"]:
        again(memory.known)
        return
    folder = home / Path(request["folder"]).expanduser()
    agent = Agent(request["command"], folder, keys(Path(request.get("keys", KEYS))))
    agent.permissions, agent.watch = request["permissions"], watch
    try:
        watch.follow(agent)
        name = conversation(agent, memory, request["command"], folder)

        def cancel() -> None:
            agent.tell("session/cancel", {"sessionId": name})

        # Written before it is sent: a message whose answer was lost is never given a second time.
        memory.keep(id=request["id"], state="begun", text="")
        watch.follow(agent, cancel)
        say("begin")
        prompt = [{"type": "text", "text": request["text"]}]
        try:
            answer = agent.ask("session/prompt", {"sessionId": name, "prompt": prompt})
        except Refused:
            memory.keep(id="")
            raise
        spent(answer.get("usage"))
        stopped = str(answer.get("stopReason"))
        memory.keep(state=stopped, text=agent.said[:MAX_KEPT])
        if stopped == "cancelled":
            raise Failed("over")
        if stopped in REFUSED:
            raise Failed("agent", REFUSED[stopped])
    finally:
        agent.end()


def conversation(agent: Agent, memory: Memory, command: list[str], folder: Path) -> str:
    """The agent's name for the conversation: the one that it had, if it can go on with it, or a new one."""
    client = {"name": "deskyard", "title": "Deskyard", "version": "1"}
    offers = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
    greeting = {"protocolVersion": PROTOCOL, "clientCapabilities": offers, "clientInfo": client}
    answer = agent.ask("initialize", greeting)
    if answer.get("protocolVersion") != PROTOCOL:
        raise Failed("closed", f"it speaks version {answer.get('protocolVersion')} of the protocol, not {PROTOCOL}")
    where = {"cwd": str(folder), "mcpServers": []}
    before = memory.known.get("name")
    if before and memory.known.get("command") == command:
        if (answer.get("agentCapabilities") or {}).get("loadSession"):
            agent.replaying = True
            with contextlib.suppress(Failed):
                agent.ask("session/load", {"sessionId": before, **where})
                agent.replaying = False
                return str(before)
            agent.replaying = False
        say("forgot")
    name = str(agent.ask("session/new", where)["sessionId"])
    memory.keep(name=name, command=command)
    return name


def again(known: dict[str, Any]) -> None:
    """Say what came of a message that was given before."""
    if known.get("state") in ("begun", "cancelled"):
        raise Failed("unknown", "it was given this message before, and did not end")
    say("begin")
    for piece in pieces(str(known.get("text") or "")):
        say("text", text=piece)
    if known.get("state") in REFUSED:
        raise Failed("agent", REFUSED[known["state"]])


def hear(update: dict[str, Any]) -> str:
    """Say what an update is about; the text of the answer that is in it."""
    match update.get("sessionUpdate"):
        case "agent_message_chunk":
            said = written(update.get("content"))
            for piece in pieces(said):
                say("text", text=piece)
            return said
        case "tool_call" | "tool_call_update":
            card = {"id": str(update.get("toolCallId")), "state": STATES.get(str(update.get("status")), "started")}
            if name := update.get("title") or update.get("kind"):
                card["name"] = str(name)[:MAX_SUMMARY]
            if (asked := update.get("rawInput")) is not None:
                card["summary"] = json.dumps(asked, ensure_ascii=False)[:MAX_SUMMARY]
            output = "\n".join(written(part.get("content")) for part in update.get("content") or ())
            if not output and update.get("rawOutput") is not None:
                output = json.dumps(update["rawOutput"], ensure_ascii=False)
            if output:
                card["output"] = output[:MAX_EXCERPT]
            say("tool", **card)
    return ""


def spent(usage: Any) -> None:
    """Say the tokens that the agent claims for the turn."""
    if isinstance(usage, dict):
        names = {"input": "inputTokens", "output": "outputTokens", "cached": "cachedReadTokens"}
        say("usage", **{name: int(usage.get(theirs) or 0) for name, theirs in names.items()})


def written(content: Any) -> str:
    """The text of a block of content; empty if it is none."""
    if isinstance(content, dict) and content.get("type") == "text":
        return str(content.get("text") or "")
    return ""


def keys(path: Path) -> dict[str, str]:
    """The desktop's keys as variables; none if it has none."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return {}
    return {match[1]: match[2] for line in lines if (match := ASSIGNMENT.fullmatch(line))}


def _first(options: list[dict[str, Any]], kinds: tuple[str, ...]) -> dict[str, str]:
    """The first of the agent's own options that is of these kinds."""
    for kind in kinds:
        for option in options:
            if option.get("kind") == kind:
                return {"outcome": "selected", "optionId": str(option["optionId"])}
    return {"outcome": "cancelled"}


def _refusal(error: Any) -> Refused:
    found = error if isinstance(error, dict) else {}
    said = f"{found.get('code')} {found.get('message')}"[:MAX_REASON]
    return Refused("key" if found.get("code") == SIGN_IN else "agent", said)


if __name__ == "__main__":
    say("end", **outcome(run, received()))
