"""The request of a program that runs on a desktop, and its answer: one line of JSON each.

Sent together with each program that imports it, so it knows only the standard library of Python 3.10 and later.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

MOST_TEXT = 2000
Answer = dict[str, Any]
ERRORS = (OSError, KeyError, IndexError, TypeError, ValueError, subprocess.SubprocessError)


def received() -> dict[str, Any]:
    """The request on standard input; without the whole of it the program ends here."""
    try:
        request = json.loads(sys.stdin.readline())
    except ValueError:
        request = None
    if not isinstance(request, dict):
        sys.exit("the request did not arrive as a whole")
    return request


def serve(answer: Callable[[dict[str, Any]], Answer]) -> None:
    """Answer the request on standard input; a failure becomes an answer that names it."""
    request = received()
    try:
        reply = answer(request)
    except subprocess.CalledProcessError as error:
        reply = {"error": f"{error.cmd[0]}: exit code {error.returncode}: {str(error.stderr).strip()[-MOST_TEXT:]}"}
    except ERRORS as error:
        reply = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(reply))


def serve_action(actions: Mapping[str, Callable[..., Answer]]) -> None:
    """Answer with the action that the request names by `do`; the rest of the request is its arguments."""
    serve(lambda request: actions[request.pop("do")](**request))
