"""What a worker's child does to stop an agent and to let it go on, and what the worker keeps of it."""

from collections.abc import Mapping
from typing import Any

from deskyard.control.halting.kinds import FREEZE, KINDS
from deskyard.control.jobs.claim import Claim
from deskyard.control.store.connection import Link
from deskyard.errors import SiteError


def job(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Do it as the task of the host does; raises `SiteError` if the kernel says that it came to nothing."""
    from deskyard.life import freeze

    target = str(wanted["desktop"]).replace(".", "/", 1)
    stops = wanted["kind"] == FREEZE
    done = freeze.freeze(target) if stops else freeze.thaw(target)
    if done["frozen"] != stops:
        reason = "has an agent that does not stand still" if stops else "has an agent that still stands still"
        raise SiteError("agent", target, reason, "do it again; ./inv desktop.stop shuts the whole desktop down")
    return {"result": {name: value for name, value in done.items() if name != "desktop"}}


def keep(link: Link, held: Claim) -> None:
    """Write down that an agent stands still, or goes on, by an operation that was done."""
    if held.kind in KINDS:
        query = "update desktop set frozen_at = case when %s then coalesce(frozen_at, now()) end where id = %s"
        link.execute(query, [held.kind == FREEZE, held.desktop])
