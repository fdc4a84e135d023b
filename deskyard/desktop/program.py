"""Runs a program of ours as root on a desktop, over SSH through the gateway: program and request go by standard input.

Nothing but the length of the program is on a command line, here, in the gateway and there.
"""

import importlib
import json
import re
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from deskyard.errors import SiteError
from deskyard.host.command import Result
from deskyard.host.deadline import Deadline
from deskyard.plan.printable import printable
from deskyard.plan.workspace import WorkspacePlan
from deskyard.site.ssh_link import SshLink

RUN_SECONDS = 180.0
# Emulated desktops that have just begun their sessions keep a greeting waiting.
REACH_SECONDS = 240.0
PAUSE_SECONDS = 3.0
START = "import sys; exec(sys.stdin.read(int(sys.argv[1])))"
# The modules that a program of deskyard/guest imports from there go with it: a desktop has none of them.
# Not by `ast`: in Python 3.11 its trees are not made safely by several threads, and desktops are asked by several.
ROOM_IMPORT = re.compile(r"^from (deskyard\.guest\.[\w.]+) import ", re.MULTILINE)
LOADER = """import sys, types
for name, text in {modules!r}.items():
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)
"""
MAX_ANSWER = 1 << 20
# So many characters of a secret, or the whole of a shorter one, are not shown.
PIECE = 8


def ask(
    plan: WorkspacePlan,
    desktop: str,
    program: ModuleType,
    request: Mapping[str, Any],
    *,
    hidden: Collection[str] = (),
    reach_seconds: float | None = None,
    run_seconds: float = RUN_SECONDS,
) -> dict[str, Any]:
    """Ask `program` to do `request` on a desktop; raises `SiteError`, which shows nothing that is `hidden`.

    A desktop that cannot be reached is tried again for `reach_seconds` (some minutes); once it is, the program has
    `run_seconds`.
    """
    remote, sending = sent(program, request)
    patience = REACH_SECONDS if reach_seconds is None else reach_seconds
    try:
        answer = _run(SshLink(plan.site, plan.name), desktop, remote, sending, Deadline(patience), run_seconds)
    except SiteError as error:
        raise SiteError(error.field, error.value, _shown(error.reason, hidden), error.remedy) from None
    found = _understood(answer.stdout)
    if found is None or "error" in found:
        reason = str(found["error"]) if found else f"exit code {answer.code}: {answer.stderr.strip()}"
        shown = _shown(reason, hidden)
        remedy = f"see ./inv access.grant {plan.name}/{desktop}, then run the same command again"
        raise SiteError("desktop", f"{plan.name}/{desktop}", f"did not do what it was asked: {shown}", remedy)
    return found


def sent(program: ModuleType, request: Mapping[str, Any], account: str | None = None) -> tuple[list[str], str]:
    """The command that runs `program` on a desktop, as root if no account is named, and what goes to its input."""
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


def _shown(text: str, hidden: Collection[str]) -> str:
    """Show what a desktop said, as far as it may be shown: it may say what it likes, also what it was just told."""
    pieces = (secret[at : at + PIECE] for secret in hidden for at in range(max(1, len(secret) - PIECE + 1)))
    if any(piece in text for piece in pieces):
        return "it answered with what must not be shown"
    return printable(text)


def _understood(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text[:MAX_ANSWER])
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _run(
    link: SshLink, desktop: str, remote: Sequence[str], stdin: str, deadline: Deadline, run_seconds: float
) -> Result:
    """Try until it can be reached: what is asked of a desktop can be asked twice."""
    while True:
        try:
            return link.run(desktop, remote, timeout=run_seconds, stdin=stdin, check=False)
        except SiteError:
            if deadline.is_over:
                raise
        time.sleep(PAUSE_SECONDS)
