"""What every task shares: errors become one clear message and an exit code; states print as text or JSON."""

import functools
import json
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from invoke import Exit, task

from deskyard.errors import DeskyardError

P = ParamSpec("P")
T = TypeVar("T")


def command(*args: Any, **options: Any) -> Callable[[Callable[P, T]], Any]:
    """Make an Invoke task whose `DeskyardError`s end as a message on standard error (JSON with `--json`), code 1."""

    def decorate(body: Callable[P, T]) -> Any:
        @functools.wraps(body)
        def guarded(*positional: P.args, **named: P.kwargs) -> T:
            try:
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


def show(state: Any, *, as_json: bool, text: str | None = None) -> None:
    """Print a state: as JSON for programs, or `text` for people."""
    print(json.dumps(state, indent=2, default=str) if as_json or text is None else text)
