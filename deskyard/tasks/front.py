"""The front of every task: errors become one clear message and an exit code; states print as text or JSON.

A task imports what does its work inside its body: a list of tasks, or a wrong option, is answered without Pulumi.
"""

import functools
import getpass
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from invoke import Exit, task

from deskyard.errors import ConfigError, DeskyardError

P = ParamSpec("P")
T = TypeVar("T")


def command(*args: Any, **options: Any) -> Callable[[Callable[P, T]], Any]:
    """Make an Invoke task whose `DeskyardError`s end as a message on standard error (JSON with `--json`), code 1."""

    def decorate(body: Callable[P, T]) -> Any:
        @functools.wraps(body)
        def guarded(*positional: P.args, **named: P.kwargs) -> T:
            try:
                with _ended_as_by_ctrl_c():
                    return body(*positional, **named)
            except DeskyardError as error:
                if named.get("json"):
                    show({"error": error.as_dict()}, as_json=True)
                print(f"error: {error}", file=sys.stderr)
                raise Exit(code=1) from error
            except KeyboardInterrupt:
                print("\nstopped; the same command goes on from here", file=sys.stderr)
                raise Exit(code=130) from None

        return task(*args, **options)(guarded)

    return decorate


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
