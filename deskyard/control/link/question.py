"""Questions to the process `link`, for those who may do more than parse what gateways say.

Each word of an answer is looked at before it is believed: it is a gateway's, or of whoever took the process.
"""

import json
import math
import socket
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from deskyard.access.gateway_program import Rubbish
from deskyard.errors import DeskyardError, SiteError
from deskyard.plan.printable import printable
from deskyard.plan.workspace import DesktopPlan, WorkspacePlan
from deskyard.wire.stages import Stage
from deskyard.workspace import readiness

# More than it gives a gateway itself.
SECONDS = 300.0
# The year 5138: no moment of a gateway is later.
FAR = 1e11
# A gateway lists half as many sessions (`deskyard.gateway.session.sessions`, to which a test holds this); one of before
# lists more.
MOST_ANSWER, MOST_TEXT, MOST_ROWS = 16 << 20, 100, 10_000
Sessions = list[dict[str, Any]]


def status(link: Path) -> Callable[[WorkspacePlan, Iterable[DesktopPlan]], dict[str, Any]]:
    """A function that asks how far desktops are: whether gateway and routes are ready, or why it cannot be asked."""

    def ask(plan: WorkspacePlan, desktops: Iterable[DesktopPlan]) -> dict[str, Any]:
        try:
            named = {"desktops": [desktop.name for desktop in desktops]}
            return read_status(plan.name, _asked(link, plan.name, "status", named))
        except DeskyardError as error:
            return readiness.silent(printable(error.reason, mark=" "))

    return ask


def sessions(link: Path) -> Callable[[str], Sessions | None]:
    """A function that asks who uses the desktops of a workspace; None is its answer if the gateway cannot be asked."""

    def ask(name: str) -> Sessions | None:
        try:
            return read_sessions(name, _asked(link, name, "list"))
        except DeskyardError:
            return None

    return ask


def tell_waking(link: Path) -> Callable[[str, str, str], None]:
    """A function that tells the pages that wait for a desktop what came of it; raises `SiteError` if they cannot be."""

    def tell(name: str, desktop: str, state: str) -> None:
        _asked(link, name, "waking", {"desktop": desktop, "state": state})

    return tell


def tell_stages(link: Path) -> Callable[[str, Mapping[str, tuple[Stage, float]]], None]:
    """A function that tells a gateway where its host has desktops since when; raises `SiteError` if it cannot be."""

    def tell(name: str, stages: Mapping[str, tuple[Stage, float]]) -> None:
        words = ",".join(f"{desktop}={stage}@{int(at)}" for desktop, (stage, at) in stages.items())
        _asked(link, name, "stages", {"stages": words})

    return tell


def read_status(name: str, answer: Any) -> dict[str, Any]:
    """Whether gateway and routes are ready, and whose agents are stopped; raises `Rubbish` for what is no status.

    Gateways of before say nothing of agents.
    """
    match answer:
        case {"ready": bool(ready), "gateway_ready": bool(own), "desktops": dict(desktops)}:
            routes = {desktop: _routes(name, found) for desktop, found in desktops.items()}
            stops = {"stopped": _stops(name, answer["stopped"])} if "stopped" in answer else {}
            return {"ready": ready, "gateway_ready": own, "desktops": routes, **stops}
    raise _rubbish(name, "status")


def read_sessions(name: str, answer: Any) -> Sessions:
    """Who uses which desktop, and since when nobody does; raises `Rubbish` for what is no list of sessions."""
    if not isinstance(answer, list) or len(answer) > MOST_ROWS:
        raise _rubbish(name, "list of sessions")
    return [_session(name, found) for found in answer]


def _asked(link: Path, name: str, question: str, about: Mapping[str, Any] | None = None) -> Any:
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(SECONDS)
            line.connect(str(link))
            line.sendall(json.dumps({"workspace": name, "question": question, **(about or {})}).encode() + b"\n")
            with line.makefile("rb") as stream:
                answer = json.loads(stream.read(MOST_ANSWER))
    except (OSError, ValueError, RecursionError) as error:
        raise SiteError("link", None, f"does not answer: {error}", "see ./inv control.status") from error
    match answer:
        case {"answer": found}:
            return found
        case {"error": {"reason": str(reason)}}:
            raise SiteError("gateway", name, reason, f"see ./inv workspace.status {name}")
    raise _rubbish(name, "answer")


def _routes(name: str, found: Any) -> dict[str, dict[str, bool]]:
    if not isinstance(found, dict):
        raise _rubbish(name, "status")
    return {
        printable(route, most=MOST_TEXT): {"ready": isinstance(said, dict) and said.get("ready") is True}
        for route, said in found.items()
    }


def _stops(name: str, found: Any) -> dict[str, dict[str, float]]:
    if not isinstance(found, dict) or len(found) > MOST_ROWS:
        raise _rubbish(name, "status")
    stops = {}
    for desktop, said in found.items():
        since = said.get("since") if isinstance(said, dict) else None
        if since is None or not _are_seconds(since) or not 0 <= since < FAR:
            raise _rubbish(name, "status")
        stops[_shown(desktop)] = {"since": since}
    return stops


def _session(name: str, found: Any) -> dict[str, Any]:
    match found:
        case {"desktop": str(desktop), "actor": str(actor), "idle": None}:
            idle, does = None, None
        case {"desktop": str(desktop), "actor": str(actor), "idle": int() | float() as idle, "does": str(said)}:
            does = _shown(said)
        case _:
            raise _rubbish(name, "list of sessions")
    # Gateways of before know of no wish.
    wanted = found.get("wanted")
    if not _are_seconds(idle) or not _are_seconds(wanted):
        raise _rubbish(name, "list of sessions")
    return {"desktop": desktop, "actor": _shown(actor), "idle": idle, "does": does, "wanted": wanted}


def _are_seconds(said: Any) -> bool:
    return said is None or (type(said) in (int, float) and math.isfinite(said))


def _shown(text: str) -> str:
    return printable(text, most=MOST_TEXT, mark=" ")


def _rubbish(name: str, what: str) -> Rubbish:
    return Rubbish("gateway", name, f"answers what is no {what}", f"see ./inv workspace.status {name}")
