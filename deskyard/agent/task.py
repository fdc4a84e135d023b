"""Gives the agent of a desktop a task, and follows its answer; an interruption ends the task there, too."""

import contextlib
import re
import secrets
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NoReturn

from deskyard.declaration import declaration
from deskyard.desktop.stream import DesktopStream
from deskyard.engine import running
from deskyard.errors import ConfigError, SiteError
from deskyard.guest.agent import acp as acp_program
from deskyard.guest.agent import task as task_program
from deskyard.host.places import tree
from deskyard.host.progress import say
from deskyard.life.idle import idle
from deskyard.model.customise import AgentProgram
from deskyard.plan.account import AGENT
from deskyard.plan.image.image import ancestry, image_names
from deskyard.plan.printable import printable

ROLE = "agent_openclaw"
UNIT, SECRET = "agent-openclaw.service", "/etc/deskyard/agent-openclaw.env"
MAX_TEXT = 1 << 20
MAX_SECONDS = 7 * 86_400
MAX_ID = 100
# Without a colon, and none of these two: such names are OpenClaw's own.
SESSION = re.compile(r"(?!(?:global|unknown)\Z)[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?\Z")
# A desktop may say more: it goes no further.
FIELDS = {
    "tool": ("id", "name", "state", "summary", "output"),
    "usage": ("input", "output", "cached"),
    "approval": ("id", "kind", "asked"),
    "question": ("id", "asked", "options"),
    "heard": ("id", "option"),
}
Ask = Callable[[dict[str, Any]], str | None]
ENDS = ("done", "failed", "timeout")
HTTP_SETTING = "gateway.http.endpoints.chatCompletions.enabled"


@dataclass(frozen=True)
class Task:
    """A task for the agent of WORKSPACE/DESKTOP, in which conversation, and for how long at most."""

    target: str
    text: str
    session: str
    seconds: int
    id: str = ""

    @classmethod
    def checked(cls, target: str, text: str, session: str, seconds: int, id: str = "") -> "Task":
        """The task; raises `ConfigError` for what is none. Without `session` it is a conversation of its own.

        Given twice with the same `id`, it is done once, and its answer said twice.
        """
        if not text.strip():
            raise ConfigError("text", None, "is empty", 'write what is to be done: agent.task WORKSPACE/DESKTOP "..."')
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            raise ConfigError("text", None, "is no UTF-8", "save it as UTF-8")
        if len(text) > MAX_TEXT:
            raise ConfigError(
                "text", None, f"is longer than {MAX_TEXT} characters", "put it into a file of the desktop"
            )
        if session and not SESSION.match(session):
            reason = "is no name of a conversation"
            raise ConfigError("--session", session, reason, "write up to 64 of a-z, 0-9 and -, such as report")
        if not 0 < seconds <= MAX_SECONDS:
            raise ConfigError("--timeout", seconds, "is no time for a task", "write 1s to 7d, such as 2h")
        message = id or f"task-{secrets.token_hex(8)}"
        return cls(target, text, session or f"task-{secrets.token_hex(4)}", seconds, message)


def events(task: Task, ask: Ask | None = None) -> Generator[dict[str, Any], None, None]:
    """Yield events: `begin`, then as they come `text`, `tool`, `usage` and `approval`, `end` with status and seconds.

    `ask` answers what an agent that is to ask wants to know, with one of its options; None, and nobody to ask, refuse.
    The event `heard` follows. Raises `SiteError` if it fails.
    """
    name, _, desktop = task.target.partition("/")
    if not desktop:
        raise ConfigError("desktop", task.target, "names no desktop", "write WORKSPACE/DESKTOP")
    plan = declaration.read(name).plan
    agent = plan.reached(desktop).agent
    if agent == "none":
        _fail(task.target, "none", "")
    idle.wake(task.target)
    running.require_running(plan, desktop)
    program, request = _program(agent, task)
    if request.get("permissions") == "ask" and ask is None:
        request["permissions"] = "refuse"
    started = time.monotonic()
    with DesktopStream(plan, desktop, AGENT, program, request, task.seconds) as stream:
        try:
            for event in stream.lines():
                match event.get("event"):
                    case "begin":
                        yield {"event": "begin", "workspace": name, "desktop": desktop, "session": task.session}
                    case "text":
                        yield {"event": "text", "text": str(event.get("text"))}
                    case "question" if ask is not None and request.get("permissions") == "ask":
                        question = {key: event[key] for key in FIELDS["question"] if key in event}
                        question["id"] = str(event.get("id"))[:MAX_ID]
                        stream.say(id=question["id"], option=ask(question))
                    case "tool" | "usage" | "approval" | "heard" as kind:
                        yield {"event": kind, **{key: event[key] for key in FIELDS[kind] if key in event}}
                    case "plain":
                        why = printable(str(event.get("said") or ""), mark=" ")
                        say(f"    {desktop}: its agent's protocol cannot be used ({why}): text alone, over HTTP")
                    case "forgot":
                        say(f"    {desktop}: its agent cannot go on with this conversation, and begins it anew")
                    case "waiting":
                        say(f"    {desktop}: its agent is starting")
                    case "end" if event.get("status") in ENDS:
                        if event["status"] == "failed":
                            said = printable(str(event.get("said") or ""), mark=" ")
                            fail = _fail_of_program if program is acp_program else _fail
                            fail(task.target, str(event.get("cause")), said)
                        seconds = round(time.monotonic() - started, 1)
                        yield {"event": "end", "status": event["status"], "seconds": seconds}
                        return
        except (KeyboardInterrupt, GeneratorExit):
            if not stream.end():
                say(f"    {desktop}: did not say that its task has ended; it does in {task.seconds} s at the latest")
            raise
    raise SiteError("agent", task.target, "did not say how its task ended", "run the same command again")


def _program(agent: AgentProgram | None, task: Task) -> tuple[ModuleType, dict[str, Any]]:
    """The program that gives the task to the desktop's agent, and what it is asked."""
    asked = {"text": task.text, "session": task.session, "id": task.id, "seconds": task.seconds}
    if agent is None or not agent.command:
        asks = {} if agent is None else {"permissions": agent.permissions}
        return task_program, {"unit": UNIT, "secret": SECRET, **asks, **asked}
    return acp_program, {**agent.model_dump(mode="json"), **asked}


def _fail_of_program(target: str, cause: str, said: str) -> NoReturn:
    """Raise what went wrong with an agent of the owner's choice, and what to do about it."""
    there, after = f"./inv access.grant {target}, and in its terminal: run", f": {said}" if said else ""
    match cause:
        case "no program":
            reason = f"does not have the program of its agent{after}"
            remedy = "install it there, or correct `agent: {command: [...]}` in the workspace's file (docs/agent.md)"
        case "busy":
            reason, remedy = f"has an agent that is at work{after}", "wait for it, or leave --session out"
        case "unknown":
            reason = f"may have done it already{after}"
            remedy = "look at the desktop, then give what is left to be done as another message"
        case "closed":
            reason, remedy = f"has an agent of another protocol{after}", "use a version of it that speaks this one"
        case "key":
            reason = f"has an agent that wants to be signed in{after}"
            remedy = f"see ./inv desktop.keys {target}; or {there} the agent by hand, once, and sign in"
        case "agent":
            reason, remedy = f"has an agent that could not do it{after}", f"{there} the agent by hand"
        case _:
            reason, remedy = f"has an agent that broke off{after}", f"{there} the agent by hand"
    raise SiteError("agent", target, reason, remedy)


def _fail(target: str, cause: str, said: str) -> NoReturn:
    """Raise what went wrong on a desktop, and what to do about it."""
    name = target.partition("/")[0]
    there = f"./inv access.grant {target}, and in its terminal:"
    after = f": {said}" if said else ""
    match cause:
        case "none":
            reason = "is declared to have no agent"
            remedy = "use its screen and terminal, or give it one: `agent: {command: [...]}` (docs/agent.md)"
        case "no agent":
            reason = "has no agent: its image was made without one"
            remedy = f"declare a desktop with `image: {' or '.join(images_with_agent(tree()))}` (docs/catalogue.md)"
        case "not up":
            reason, remedy = f"has an agent that does not run{after}", f"{there} systemctl status {UNIT}"
        case "refused":
            reason = f"has an agent that does not know its own secret{after}"
            remedy = f"{there} sudo systemctl restart agent-openclaw-secret {UNIT}"
        case "closed":
            reason = "has an agent that takes no tasks over HTTP: its configuration is older, or was changed"
            remedy = f"{there} openclaw config set {HTTP_SETTING} true && sudo systemctl restart {UNIT}"
        case "key":
            reason = f"has an agent without the right key of its model{after}"
            remedy = (
                f"see ./inv desktop.keys {target}; ./inv desktop.set-key {name} NAME sets one, workspace.up brings it"
            )
        case "agent":
            reason = f"has an agent that could not do it{after}"
            remedy = f"{there} journalctl -u {UNIT}; ./inv desktop.keys {target} shows its keys"
        case _:
            reason, remedy = f"has an agent that broke off{after}", f"{there} journalctl -u {UNIT}"
    raise SiteError("agent", target, reason, remedy)


def images_with_agent(tree: Path) -> list[str]:
    """The declared images that have one."""
    found = []
    for name in image_names(tree):
        # One that is wrong has none.
        with contextlib.suppress(ConfigError):
            found += [name] if has_openclaw(name, tree) else []
    return found


def kind_of(agent: AgentProgram | Literal["none"] | None, image: str, tree: Path) -> Literal["openclaw", "acp", "none"]:
    """Which agent takes the tasks of a desktop of an image: OpenClaw, a program of its owner's, or none."""
    if agent == "none":
        return "none"
    if agent is not None and agent.command:
        return "acp"
    return "openclaw" if has_openclaw(image, tree) else "none"


def has_openclaw(image: str, tree: Path) -> bool:
    """Whether an image has OpenClaw."""
    return any(ROLE in part.roles for part in ancestry(tree, image))
