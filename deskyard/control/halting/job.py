"""The stop of an agent by a worker's child, its going on, and the record that the worker keeps of it."""

from collections.abc import Mapping
from typing import Any

from deskyard.control.halting.kinds import FREEZE, KINDS
from deskyard.control.queue.claim import Claim
from deskyard.control.queue.target import desktop_target
from deskyard.control.store.connection import Link
from deskyard.errors import SiteError


def job(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Do it as the task of the host does; raises `SiteError` if the kernel says that it came to nothing."""
    from deskyard.life import freeze

    name = desktop_target(wanted)
    stops = wanted["kind"] == FREEZE
    actor = wanted.get("actor", "")
    done = freeze.freeze(name, actor) if stops else freeze.thaw(name, actor)
    if done["frozen"] != stops:
        reason = "has an agent that does not stand still" if stops else "has an agent that still stands still"
        raise SiteError("agent", name, reason, "do it again; ./inv desktop.stop shuts the whole desktop down")
    return {"result": {part: value for part, value in done.items() if part != "desktop"}}


def keep(link: Link, held: Claim, result: Mapping[str, Any]) -> None:
    """Write down that an agent stands still, or goes on, by an operation that was done."""
    if held.kind in KINDS:
        query = """update desktop set frozen_at = case when %s then coalesce(frozen_at, now()) end, freeze_lasts = %s
            where id = %s"""
        link.execute(query, [held.kind == FREEZE, result.get("shut_out") is True, held.desktop])
