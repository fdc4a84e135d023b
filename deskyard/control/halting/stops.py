"""Writes down whose agents are stopped, as gateways say when they are asked how they are.

A stop by a desktop's own page, or by a task of the host, is known so; one of Mission Control's own is known before.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from deskyard.control.halting.kinds import KINDS
from deskyard.control.store.connection import Link
from deskyard.control.store.pool import Lend
from deskyard.life.events import Ask
from deskyard.plan.workspace import DesktopPlan, WorkspacePlan

# What was asked while an operation stopped the agent or let it go on may be older than that.
SETTLED = """not exists (select 1 from operation o where o.desktop_id = d.id and o.kind = any(%(kinds)s)
    and o.state <> 'queued' and (o.ended_at is null or o.ended_at > to_timestamp(%(asked)s)))"""


def hearing_stops(lend: Lend, ask: Ask) -> Ask:
    """A function that asks a gateway as `ask` does, and writes down what it says of stopped agents."""

    def asked(plan: WorkspacePlan, desktops: Sequence[DesktopPlan]) -> dict[str, Any]:
        at = time.time()
        status = ask(plan, desktops)
        stopped = status.get("stopped")
        if not status.get("error") and isinstance(stopped, dict):
            with lend() as link:
                write_stops(link, plan.name, {name: stop["since"] for name, stop in stopped.items()}, at)
        return status

    return asked


def write_stops(link: Link, workspace: str, since: Mapping[str, float], asked: float) -> None:
    """Write down since when each agent is stopped that the gateway names, and that it holds no other of this workspace.

    `asked` is when the gateway was asked: what was done after it stays.
    """
    values: dict[str, Any] = {"workspace": workspace, "asked": asked, "kinds": list(KINDS)}
    values |= {"names": list(since), "since": list(since.values())}
    with link.transaction():
        query = f"""update desktop d set frozen_at = to_timestamp(stop.since), freeze_lasts = true
            from unnest(%(names)s::text[], %(since)s::float8[]) as stop (name, since)
            where d.workspace_id = %(workspace)s and d.name = stop.name and d.gone_at is null
            and (d.frozen_at is null or not d.freeze_lasts) and {SETTLED}"""
        link.execute(query.encode(), values)
        query = f"""update desktop d set frozen_at = null, freeze_lasts = false
            where d.workspace_id = %(workspace)s and d.freeze_lasts and not d.name = any(%(names)s::text[])
            and {SETTLED}"""
        link.execute(query.encode(), values)
