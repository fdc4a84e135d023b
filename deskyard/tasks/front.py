"""The front of every task: errors become one clear message and an exit code; states print as text or JSON.

A task imports what does its work inside its body: a list of tasks, or a wrong option, is answered without Pulumi.
"""

import functools
import getpass
import inspect
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from invoke import Exit, task

from deskyard.errors import ConfigError, DeskyardError, HostError
from deskyard.host.changes import DONE, FAILED, INTERRUPTED, RUNNING, Option, Run, Spool
from deskyard.host.places import places

P = ParamSpec("P")
T = TypeVar("T")
# The exit code of what Ctrl-C ended, as shells say it.
STOPPED = 130
# Says how a state is printed, and nothing of what is done.
UNSAID = ("json",)
# What systemd gives the processes of a unit; also a person's terminal may have it, from the desktop that it belongs to.
INVOCATION = "INVOCATION_ID"


class Unnoted(StrEnum):
    """Why nothing is noted of a task."""

    LOOKS = "it changes nothing"
    TREE = "it is for who works on this tree, and changes no site"
    AUDITED = "its own lines stand in Mission Control's audit"


@dataclass(frozen=True)
class Changes:
    """A task that changes something: its name, and the argument that says WORKSPACE or WORKSPACE/DESKTOP.

    Of its options flags and numbers are noted, of `shown` also the text: it holds no secret and is not long.
    """

    task: str
    of: str = ""
    shown: tuple[str, ...] = ()
    only_with: str = ""  # without this option it only looks
    not_with: tuple[str, ...] = ("dry_run",)  # with one of these it only looks
    # It is for a timer, too, and answers whether it did anything: the option that the timer gives, or "" for none.
    on_timer: str | None = None

    def run(self, given: dict[str, Any], defaults: dict[str, Any]) -> Run | None:
        """A run with these arguments; None if it changes nothing."""
        if any(given.get(name) for name in self.not_with) or (self.only_with and not given.get(self.only_with)):
            return None
        workspace, _, desktop = str(given.get(self.of, "")).partition("/")
        chosen = {
            name: value for name, value in given.items() if value not in (defaults.get(name), []) and name != self.of
        }
        options = {_flag(name): self._option(name, value) for name, value in chosen.items() if name not in UNSAID}
        return Run(self.task, workspace, desktop, options)

    def is_by_timer(self, given: dict[str, Any]) -> bool:
        """Whether a timer runs it with these arguments, and no person.

        Such a run is noted if it did something, or fails anew: one each minute would push all other lines out.
        """
        if self.on_timer is None or has_terminal():
            return False
        return bool(given[self.on_timer]) if self.on_timer else INVOCATION in os.environ

    def _option(self, name: str, value: Any) -> Option:
        if isinstance(value, int) or (isinstance(value, str) and name in self.shown):
            return value
        return ",".join(map(str, value)) if isinstance(value, list) and name in self.shown else None


class Trouble(Exit):
    """The end of a task that found trouble: code 1. It may have done something all the same."""

    def __init__(self, did: bool) -> None:
        super().__init__(code=1)
        self.did = did


def command(*args: Any, changes: Changes | Unnoted, **options: Any) -> Callable[[Callable[P, T]], Any]:
    """Make an Invoke task whose `DeskyardError`s end as a message on standard error (JSON with `--json`), code 1.

    A run that changes something is noted as it begins and as it ends, for Mission Control's audit.
    """

    def decorate(body: Callable[P, T]) -> Any:
        @functools.wraps(body)
        def guarded(*positional: P.args, **named: P.kwargs) -> T:
            try:
                with _ended_as_by_ctrl_c():
                    return _noted(changes, body, positional, named)
            except (DeskyardError, PermissionError) as error:
                fault = error if isinstance(error, DeskyardError) else _of_another(error)
                if named.get("json"):
                    show({"error": fault.as_dict()}, as_json=True)
                print(f"error: {fault}", file=sys.stderr)
                raise Exit(code=1) from error
            except KeyboardInterrupt:
                print("\nstopped; the same command goes on from here", file=sys.stderr)
                raise Exit(code=STOPPED) from None

        made = task(*args, **options)(guarded)
        made.changes = changes
        return made

    return decorate


def _noted(changes: Changes | Unnoted, body: Callable[..., T], positional: Any, named: Any) -> T:
    """Run a task, and note that it begins and how it ends."""
    given, defaults = _arguments(body, positional, named)
    run = changes.run(given, defaults) if isinstance(changes, Changes) else None
    if run is None or isinstance(changes, Unnoted):
        return body(*positional, **named)
    by_timer = changes.is_by_timer(given)
    if not by_timer:
        _note(run, RUNNING)
    try:
        done = body(*positional, **named)
    except DeskyardError as error:
        # Behind the first line may stand what a program said, which holds whatever it likes.
        _note(run, FAILED, str(error.field), error.reason.partition("\n")[0], once=by_timer)
        raise
    except KeyboardInterrupt:
        _note(run, INTERRUPTED)
        raise
    except Exit as left:
        state = {0: DONE, STOPPED: INTERRUPTED}.get(left.code, FAILED)
        once = by_timer and state == FAILED and not (isinstance(left, Trouble) and left.did)
        _note(run, state, reason=f"exit code {left.code}" if state == FAILED else "", once=once)
        raise
    except BaseException as error:
        # Its text was written for nobody in particular, and may hold anything.
        _note(run, FAILED, reason=type(error).__name__, once=by_timer)
        raise
    if done or not by_timer:
        _note(run, DONE)
    return done


def _of_another(error: PermissionError) -> HostError:
    """The fault of a file of the user's state that belongs to another account; raises what is none."""
    state = places().state
    if not isinstance(error.filename, str) or not Path(error.filename).is_relative_to(state):
        raise error
    remedy = f"give {state} to who runs the tasks (chown -R), as where one was run by sudo"
    return HostError("state", error.filename, str(error.strerror), remedy)


def _arguments(body: Callable[..., Any], positional: Any, named: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments of a call and the defaults, by their names, without Invoke's context, which is the first."""
    signature = inspect.signature(body)
    bound = signature.bind(*positional, **named)
    bound.apply_defaults()
    names = list(signature.parameters)[1:]
    defaults = {name: signature.parameters[name].default for name in names}
    return {name: bound.arguments[name] for name in names}, defaults


def has_terminal() -> bool:
    """Whether a person sees what this prints, or types what it reads."""
    return any(os.isatty(stream) for stream in (0, 1, 2))


def _note(run: Run, state: str, field: str = "", reason: str = "", *, once: bool = False) -> None:
    """Note how far a run is, with `once` unless the run before failed so; a full disk keeps nobody from their work."""
    try:
        spool = Spool()
        if not (once and spool.repeats(run, field, reason)):
            spool.note(run, state, field, reason)
    except (DeskyardError, OSError) as error:
        print(f"this is not noted for Mission Control's audit: {error}", file=sys.stderr)


def _flag(name: str) -> str:
    """The name of an option as it is typed."""
    return name.rstrip("_").replace("_", "-")


def confirm(task_name: str, value: str, name: str, question: str, remedy: str) -> None:
    """Let a person type a name before something is lost; raises `ConfigError` if nobody is there, or types another."""
    if not sys.stdin.isatty() or input(question) != name:
        raise ConfigError(task_name, value, "was not confirmed", remedy)


def secret(prompt: str) -> str:
    """A secret from a prompt or standard input: never from a command line, which others can read."""
    return (getpass.getpass(prompt) if sys.stdin.isatty() else sys.stdin.read()).strip()


@contextmanager
def _ended_as_by_ctrl_c() -> Iterator[None]:
    """SIGTERM, and a terminal that is closed, end a command as Ctrl-C does: it ends its programs and tidies up."""
    caught = [sign for sign in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(sign) is signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        caught = []
    for sign in caught:
        signal.signal(sign, _interrupt)
    try:
        yield
    finally:
        for sign in caught:
            signal.signal(sign, signal.SIG_DFL)


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def show(state: Any, *, as_json: bool, text: str | None = None) -> None:
    """Print a state: as JSON for programs, or `text` for people."""
    try:
        print(json.dumps(state, indent=2, default=str) if as_json or text is None else text, flush=True)
    except BrokenPipeError:
        # Who reads has enough, as `head` does; at its end Python would complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
