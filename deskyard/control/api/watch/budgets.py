"""/api/budgets: what a workspace may cost in a month, and the names that are closed while that is spent."""

from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field, StrictInt

from deskyard.control.api import rows
from deskyard.control.api.admission import note
from deskyard.control.api.caller import Connection
from deskyard.control.api.desktops import require_workspace
from deskyard.control.api.forms.base import Form, Page
from deskyard.control.api.problem import Problem
from deskyard.control.api.watch.usage import MOST_MICROS, Admin, Reader, Wanted, lines
from deskyard.control.watch import usage
from deskyard.control.watch.budgets import by_workspace
from deskyard.model.egress import normal_entry
from deskyard.wire.egress_list import parse

router = APIRouter(prefix="/api", tags=["usage"])
MOST_CLOSES = 50


class Budget(Form):
    """What a workspace may cost in a month (UTC), and what it has cost in this one."""

    workspace_id: str
    micros_per_month: int
    spent: int
    closes: list[str] = Field(description="Names that its gateway closes while the budget is spent.")
    closed: list[str] = Field(description="Those that the gateway was told to close by now.")


class NewBudget(Form):
    """What a workspace may cost in a month; none: there is no budget."""

    micros_per_month: StrictInt | None = Field(ge=1, le=1000 * MOST_MICROS)
    closes: list[Annotated[str, Field(max_length=255)]] | None = Field(
        None,
        max_length=MOST_CLOSES,
        description="Names such as api.example.org that are closed when it is spent; without it they stay as they are.",
    )


@router.get("/budgets")
async def budgets(link: Connection, who: Reader) -> Page[Budget]:
    """List budgets with what is spent of them this month."""
    query = """select b.*, coalesce(names, '{}') as closed from budget b left join closing using (workspace_id)
        where %s::text[] is null or workspace_id = any(%s) order by workspace_id"""
    found = await rows.rows(link, query, [who.bounds, who.bounds])
    wanted = Wanted(*usage.month_of(datetime.now(UTC).date()))
    spent = by_workspace(await lines(link, who, wanted)) if found else {}
    items = [
        Budget(
            workspace_id=row["workspace_id"],
            micros_per_month=row["micros_per_month"],
            spent=spent.get(row["workspace_id"], 0),
            closes=row["closes"],
            closed=row["closed"],
        )
        for row in found
    ]
    return Page(items=items, total=len(items))


@router.put("/budgets/{workspace}")
async def set_budget(link: Connection, who: Admin, workspace: str, wanted: NewBudget) -> Page[Budget]:
    """Set what a workspace may cost in a month, or that it has no budget; alerts tell when it is nearly spent.

    While it is spent the gateway of a locked workspace lets nobody reach the names that it `closes`.
    """
    found = await require_workspace(link, who, workspace)
    closes = None if wanted.closes is None else _closable(found, wanted.closes)
    if wanted.micros_per_month is None:
        await link.execute("delete from budget where workspace_id = %s", [workspace])
    else:
        query = """insert into budget (workspace_id, micros_per_month, actor, closes)
            values (%(workspace)s, %(micros)s, %(actor)s, coalesce(%(closes)s::text[], '{}'))
            on conflict (workspace_id) do update set micros_per_month = excluded.micros_per_month,
                actor = excluded.actor, changed_at = now(), closes = coalesce(%(closes)s::text[], budget.closes)"""
        values = {"workspace": workspace, "micros": wanted.micros_per_month, "actor": who.actor, "closes": closes}
        await link.execute(query, values)
    closing = {} if closes is None else {"closes": closes}
    await note(link, who.actor, "budget.set", workspace, microsPerMonth=wanted.micros_per_month, **closing)
    return await budgets(link, who)


def _closable(workspace: Mapping[str, Any], names: list[str]) -> list[str]:
    """Names in their one form, each once; raises `Problem` naming what no gateway could close."""
    closes = []
    for number, text in enumerate(names):
        try:
            entry = parse(normal_entry(text))
            if entry.port is not None:
                raise ValueError("has a port -> write the name alone: it is closed on each of its ports")
        except ValueError as error:
            reason, _, remedy = str(error).partition(" -> ")
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"closes[{number}]", text, reason, remedy) from error
        closes.append(str(entry))
    if closes and workspace["egress"] != "locked":
        reason = f"cannot be closed: egress of {workspace['id']} is {workspace['egress']}"
        remedy = "declare egress: locked and bring the workspace up; its gateway knows no names before"
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "closes", closes, reason, remedy)
    return sorted(set(closes))
