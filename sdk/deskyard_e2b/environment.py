"""The variables of `Sandbox.create(envs=...)`: kept in a file on the desktop that has them anyway, and nowhere else."""

import json
from collections.abc import Mapping

from deskyard_sdk import DesktopError
from deskyard_sdk.door import Door

from deskyard_e2b import starting

PLACE = "~/.config/deskyard/e2b-environment.json"
CONTENT = "/v1/files/content"


async def write(door: Door, variables: Mapping[str, str]) -> None:
    """Keep them on the desktop, for its account alone."""
    where = {"path": PLACE, "mode": "600", "parents": "true", "overwrite": "true"}
    await door.bytes("PUT", CONTENT, params=where, content=json.dumps(dict(variables)).encode())


async def read(door: Door) -> dict[str, str]:
    """Those of a desktop; none where somebody took the file away, or made something else of it."""
    try:
        found = json.loads(await door.bytes("GET", CONTENT, params={"path": PLACE}))
    except DesktopError as error:
        if error.status == 404:
            return {}
        raise
    except ValueError:
        return {}
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}


def added(message: bytes, variables: Mapping[str, str]) -> bytes:
    """A request to start a process, with these variables where it gives no others; what is not understood stays."""
    start = starting.read(message)
    envs = (start.process.get("envs") or {}) if start else None
    if start is None or not isinstance(envs, dict):
        return message
    start.process["envs"] = {**variables, **envs}
    return start.written()
