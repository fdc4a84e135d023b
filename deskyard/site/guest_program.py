"""Programs of deskyard/guest as they are sent into a machine: program and request go by standard input.

Nothing but the length of the program is on a command line, here, in the gateway and there.
"""

import importlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

START = "import sys; exec(sys.stdin.read(int(sys.argv[1])))"
# The modules that a program of deskyard/guest imports from there go with it: a machine has none of them.
# Not by `ast`: in Python 3.11 its trees are not made safely by several threads, and desktops are asked by several.
ROOM_IMPORT = re.compile(r"^from (deskyard\.guest\.[\w.]+) import ", re.MULTILINE)
LOADER = """import sys, types
for name, text in {modules!r}.items():
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)
"""


def sent(program: ModuleType, request: Mapping[str, Any], account: str | None = None) -> tuple[list[str], str]:
    """The command that runs `program` on a machine, as root if no account is named, and what goes to its input."""
    text = source(program)
    who = ["-u", account, "--"] if account else []
    command = ["sudo", "-n", *who, "python3", "-I", "-c", START, str(len(text))]
    return command, f"{text}{json.dumps(request)}\n"


def source(program: ModuleType) -> str:
    """The text of a program as it is sent: what it imports of its room, then the program itself."""
    text = Path(program.__file__ or "").read_text()
    modules = _imported(text)
    return LOADER.format(modules=modules) + text if modules else text


def _imported(text: str) -> dict[str, str]:
    """The modules of the room that a text imports, by name, each behind those that it imports itself."""
    found: dict[str, str] = {}
    for name in ROOM_IMPORT.findall(text):
        module = Path(importlib.import_module(name).__file__ or "").read_text()
        found |= {**_imported(module), name: module}
    return found
