"""The jobs by which a worker's child keeps a workspace well, as the same tasks of the host would."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from deskyard.control.queue.target import desktop_target
from deskyard.control.upkeep import brought, closing, look
from deskyard.control.upkeep.signed import ALLOW, RESTORE, SECONDS

Wanted = Mapping[str, Any]
HOUR_SECONDS = 3600


def _look(wanted: Wanted) -> dict[str, Any]:
    given = wanted["input"]
    since = {part.PART: str(given[part.SINCE]) for part in brought.PARTS if part.SINCE in given}
    return {"result": look.look(wanted["workspace"], leave_idle=given.get("leave_idle") is True, since=since)}


def _verify(wanted: Wanted) -> dict[str, Any]:
    from deskyard.isolation import verification

    return {"result": look.verified(verification.verify(wanted["workspace"]))}


def _snapshot(wanted: Wanted) -> dict[str, Any]:
    from deskyard.life import snapshot
    from deskyard.plan.snapshot import Snapshot

    target, given = desktop_target(wanted), wanted["input"]
    name, hours = given["name"], given.get("expires_hours")
    rows = snapshot.listing(target)["snapshots"] if wanted["attempt"] > 1 else []
    if before := next((row for row in rows if row["name"] == name), None):
        if not before["interrupted"]:
            # The attempt before had taken it, and was killed before it said so.
            return {"result": {"snapshot": name}}
        # Refused while its cluster still takes it.
        snapshot.delete(target, name)
    ends = int(time.time()) + hours * HOUR_SECONDS if hours else None
    snapshot.create(target, Snapshot(name, given.get("text", ""), ends))
    return {"result": {"snapshot": name}}


def _restore(wanted: Wanted) -> dict[str, Any]:
    from deskyard.life import snapshot

    return {"result": snapshot.restore(desktop_target(wanted), wanted["input"]["name"])}


def _backup(wanted: Wanted) -> dict[str, Any]:
    from deskyard.life.backup import backup

    done = backup.run(desktop_target(wanted))
    # Its nonce proves a restore: who only reads has no need of it.
    return {"result": {"backup": done["backup"]["id"], "frozen_seconds": done["frozen_seconds"]}}


def _allow(wanted: Wanted) -> dict[str, Any]:
    from deskyard.access import egress

    given = wanted["input"]
    seconds = SECONDS[given["how_long"]]
    done = egress.allow(
        wanted["workspace"], given["name"], seconds, once=False, always=seconds is None, actor=wanted["actor"]
    )
    return {"result": {"allowed": done["allowed"]}}


JOBS: dict[str, Callable[[Wanted], dict[str, Any]]] = {
    brought.KIND: _look,
    "workspace.verify": _verify,
    "snapshot.create": _snapshot,
    RESTORE: _restore,
    "backup.run": _backup,
    ALLOW: _allow,
    closing.KIND: closing.job,
}
