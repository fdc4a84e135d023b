"""The door as a program of its own, started with where Mission Control of this machine is."""

import os
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

from deskyard.errors import HostError
from deskyard.host.places import places, tree

MODULE = "deskyard_e2b"


def arguments(options: Mapping[str, str], state: Mapping[str, Any]) -> list[str]:
    """The program's arguments: from Mission Control's `state`, and the options that were given."""
    if state["url"] is None:
        raise HostError("control", state["folder"], "was never up", "bring Mission Control up: ./inv control.up")
    found = {"mission-control": state["url"], "ca": state["certificate_authority"]}
    kept = {"state": str(places().state / "e2b.sqlite")}
    chosen = {**found, **kept, **{name: value for name, value in options.items() if value}}
    return [f"--{name}={value}" for name, value in chosen.items()]


def serve(options: Mapping[str, str], state: Mapping[str, Any], as_json: bool) -> NoReturn:
    """Become that program: whoever ends this process ends it."""
    argv = [sys.executable, "-m", MODULE, *arguments(options, state), *(["--json"] if as_json else [])]
    path = os.pathsep.join(filter(None, (str(tree() / "sdk"), os.environ.get("PYTHONPATH"))))
    sys.stdout.flush()
    os.execve(argv[0], argv, {**os.environ, "PYTHONPATH": path})
