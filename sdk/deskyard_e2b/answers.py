"""Answers in E2B's shapes: sandboxes by its OpenAPI document, and errors with a code and a message."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from deskyard_sdk import DesktopError
from deskyard_sdk.mission import DesktopState
from starlette.responses import JSONResponse

from deskyard_e2b.keeping import Kept
from deskyard_e2b.naming import sandbox_of

# The version of envd's protocol that desktops speak (deskyard/computer/envd/part.py).
ENVD_VERSION = "0.6.4"
CLIENT = "deskyard"
PAUSED = "paused"
RESTING = ("stopping", "stopped", PAUSED)
# Of a desktop that no timeout ends.
NEVER = datetime(9999, 12, 31, tzinfo=UTC)
STATUSES = {422: 400}
MIB_OF_GIB = 1024


def created(kept: Kept, token: str, domain: str) -> dict[str, Any]:
    """E2B's `Sandbox`: what its clients need to reach it."""
    names = {"templateID": kept.template, "sandboxID": kept.id, "clientID": CLIENT, "domain": domain}
    return {**names, "envdVersion": ENVD_VERSION, "envdAccessToken": token}


def listed(desktop: DesktopState, kept: Kept | None, tier: Mapping[str, Any]) -> dict[str, Any]:
    """E2B's `ListedSandbox`."""
    started = kept.started if kept and kept.made and kept.started else _seconds(desktop["stateAt"])
    ends = kept.ends if kept and kept.made else None
    if ends is None and (until := desktop.get("until")):
        ends = _seconds(until)
    return {
        "templateID": kept.template if kept else f"{desktop['workspaceId']}/{desktop['tier']}",
        "sandboxID": sandbox_of(desktop["id"], desktop.get("machine")),
        "clientID": CLIENT,
        "startedAt": _written(datetime.fromtimestamp(started, UTC)),
        "endAt": _written(NEVER if ends is None else datetime.fromtimestamp(ends, UTC)),
        "cpuCount": int(tier.get("vcpus", 0)),
        "memoryMB": int(float(tier.get("memoryGib", 0)) * MIB_OF_GIB),
        "diskSizeMB": int(float(tier.get("diskGib", 0)) * MIB_OF_GIB),
        "metadata": kept.metadata if kept else {},
        "state": state(desktop),
        "envdVersion": ENVD_VERSION,
    }


def detailed(desktop: DesktopState, kept: Kept | None, tier: Mapping[str, Any], kills: bool) -> dict[str, Any]:
    """E2B's `SandboxDetail`."""
    ending = "kill" if is_task(desktop) or (kills and kept and kept.made and not kept.pauses) else "pause"
    return {**listed(desktop, kept, tier), "lifecycle": {"autoResume": False, "onTimeout": ending}}


def is_task(desktop: DesktopState) -> bool:
    """Whether it is a desktop for a task, which is never stopped, only ended."""
    return desktop.get("machine") is not None


def longest(desktop: DesktopState) -> float:
    """The Unix time until which a sandbox may last."""
    until = desktop.get("until")
    return NEVER.timestamp() if until is None else _seconds(until)


def is_over(desktop: DesktopState) -> bool:
    """Whether nothing is left of a sandbox but its place: one for a task that does not run goes on no more."""
    return is_task(desktop) and desktop["state"] in RESTING


def state(desktop: DesktopState) -> str:
    """E2B knows two: a desktop that is shut down can be gone on with, as one that is paused."""
    return PAUSED if desktop["state"] in RESTING else "running"


def refused(error: DesktopError) -> JSONResponse:
    """An error as E2B's clients read it, with our reason and remedy."""
    status = STATUSES.get(error.status, error.status) or (503 if error.field == "url" else 500)
    value = f" '{error.value}'" if error.value else ""
    message = f"{error.field}{value} {error.reason}: {error.remedy}"
    # They would ask again by themselves after 502 to 504: only what is harmless twice says so.
    headers = {"Should-Retry": "false"} if status >= 500 else None
    return JSONResponse({"code": status, "message": message}, status, headers)


def not_had(what: str, remedy: str) -> DesktopError:
    """Something of E2B's that Deskyard does not have."""
    return DesktopError(what, "", "is not offered by Deskyard", remedy, 501)


def unknown(sandbox: str) -> DesktopError:
    """No sandbox has this name."""
    return DesktopError("sandbox", sandbox, "was not found", "see Sandbox.list(); a name is WORKSPACE--DESKTOP", 404)


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _written(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
