"""Runs a program of ours as root on a desktop, over SSH through the gateway: program and request go by standard input.

Nothing but the length of the program is on a command line, here, in the gateway and there.
"""

import json
import time
from collections.abc import Collection, Mapping, Sequence
from types import ModuleType
from typing import Any

from deskyard.errors import SiteError
from deskyard.host.command import Result
from deskyard.host.deadline import Deadline
from deskyard.plan.printable import printable
from deskyard.plan.workspace import WorkspacePlan
from deskyard.site.guest_program import sent
from deskyard.site.ssh_link import SshLink

RUN_SECONDS = 180.0
# Emulated desktops that have just begun their sessions keep a greeting waiting.
REACH_SECONDS = 240.0
PAUSE_SECONDS = 3.0
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
