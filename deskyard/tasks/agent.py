"""agent.*: what the agent of a desktop is told to do."""

from __future__ import annotations

import json as json_format
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from invoke import Argument, Collection, Context, Exit, Task

from deskyard.errors import ConfigError, DeskyardError
from deskyard.tasks.front import STOPPED, Changes, command

if TYPE_CHECKING:
    from deskyard.agent import task as agent_task

# As `timeout` of coreutils says it.
TIMEOUT = 124


class _Unless(Argument):
    """A positional argument that may be left out if another one is given."""

    def __init__(self, other: Argument, **options: Any) -> None:
        super().__init__(positional=True, **options)
        self.other = other

    @property
    def value(self) -> Any:
        """None, which Invoke takes for missing, unless the other was given."""
        return "" if self._value is None and self.other.got_value else self._value

    @value.setter
    def value(self, given: str) -> None:
        self.set_value(given)


class _TextOrFile(Task[Any]):
    """A task whose `text` may stand in a `file` instead."""

    def get_arguments(self, ignore_unknown_help: bool | None = None) -> list[Argument]:
        """Invoke's own, with a text that knows of the file."""
        named = {argument.name: argument for argument in super().get_arguments(ignore_unknown_help)}
        text = named["text"]
        named["text"] = _Unless(named["file"], names=text.names, help=text.help)
        return list(named.values())


@command(
    changes=Changes("agent.task", "target", ("session", "timeout")),
    klass=_TextOrFile,
    help={
        "target": "WORKSPACE/DESKTOP",
        "text": "what to do; - reads it from standard input",
        "file": "read what to do from this file instead",
        "session": "go on with this conversation, or begin it: a name such as report; main is the agent's own",
        "timeout": "end the task if it takes longer: 90s, 30m (default: 1h), 2d",
        "json": "print one JSON document per line: begin, text, tool, usage, ..., end",
    },
)
def task(
    _: Context, target: str, text: str, file: str = "", session: str = "", timeout: str = "1h", json: bool = False
) -> None:
    """Give the agent of a desktop a task and print its answer as it comes; Ctrl-C ends the task there, too.

    Without --session the task is a conversation of its own, whose name is said. Exit codes: 0 done, 1 failed, 124 not
    done in time, 130 interrupted. Who shares this machine sees your command lines: --file or - is for what is private.
    """
    from deskyard.access import access
    from deskyard.agent import task as agent_task

    started = time.monotonic()
    try:
        wanted = agent_task.Task.checked(target, _text(text, file), session, access.seconds(timeout, "--timeout"))
        status = _followed(wanted, json)
    except (DeskyardError, KeyboardInterrupt) as error:
        stopped = isinstance(error, KeyboardInterrupt)
        end: dict[str, Any] = {"event": "end", "status": "stopped" if stopped else "failed"}
        end |= {"seconds": round(time.monotonic() - started, 1)}
        if isinstance(error, DeskyardError):
            end |= {"error": error.as_dict()}
        if json:
            print(json_format.dumps(end), flush=True)
        if stopped:
            print("\nstopped", file=sys.stderr)
            raise Exit(code=STOPPED) from None
        print(f"error: {error}", file=sys.stderr)
        raise Exit(code=1) from error
    if status == "timeout":
        print(f"ended after {timeout}; --timeout gives it longer", file=sys.stderr)
        raise Exit(code=TIMEOUT)


def _followed(wanted: agent_task.Task, json: bool) -> str:
    """Print what happens as it happens; the status that it ended with."""
    from deskyard.agent import task as agent_task

    status, in_line = "failed", False
    try:
        # Whatever happens here ends what runs there.
        with closing(agent_task.events(wanted)) as events:
            for event in events:
                status = event.get("status", status)
                if json:
                    print(json_format.dumps(event), flush=True)
                elif event["event"] == "begin":
                    print(f"conversation {event['session']}", file=sys.stderr, flush=True)
                elif text := event.get("text"):
                    print(_printable(text), end="", flush=True)
                    in_line = not text.endswith("\n")
                elif line := _line(event):
                    print(f"{chr(10) * in_line}{line}", file=sys.stderr, flush=True)
                    in_line = False
    finally:
        if in_line:
            print(flush=True)
    return status


def _line(event: dict[str, Any]) -> str:
    """The line for news beside the answer: of a tool, tokens, a question; empty for an output that still grows."""
    match event["event"]:
        case "tool" if event.get("state") != "started" or event.get("summary"):
            words = f"  [{event.get('name')}: {event.get('state')}] {event.get('summary', '')}"
        case "usage":
            words = f"  tokens, as the agent claims: {event.get('input')} in, {event.get('output')} out"
        case "approval":
            words = f"  the agent asks, and its own page answers: {event.get('asked')}"
        case _:
            return ""
    return _printable(words).rstrip()


def _text(text: str, file: str) -> str:
    """The task, wherever it stands."""
    from deskyard.agent import task as agent_task

    if file and text:
        raise ConfigError("--file", file, "and a text are two tasks", "leave one of them out")
    try:
        if file:
            with Path(file).open(encoding="utf-8") as content:
                return content.read(agent_task.MAX_TEXT + 1)
        return sys.stdin.read(agent_task.MAX_TEXT + 1) if text == "-" else text
    except OSError as error:
        raise ConfigError(
            "--file", file, f"cannot be read: {error.strerror}", "name a file that you can read"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError("--file" if file else "text", file or None, "is no UTF-8", "save it as UTF-8") from error


def _printable(text: str) -> str:
    from deskyard.plan.printable import printable

    return printable(text, most=None, keep="\n\t")


ns = Collection("agent")
ns.add_task(task)
