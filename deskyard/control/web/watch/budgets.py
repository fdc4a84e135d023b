"""/api/budgets: what a workspace may cost and send in a month, and the names that are closed while that is spent."""

from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field, StrictInt

from deskyard.control.api import rows
from deskyard.control.api.admission import in_the_name_of
from deskyard.control.api.caller import Connection, Row
from deskyard.control.api.forms.base import Form, Page
from deskyard.control.api.named import require_workspace
from deskyard.control.api.problem import Problem
from deskyard.control.api.unchanged import Conditions
from deskyard.control.usage import usage
from deskyard.control.watch.budgets import MEASURED, Measured, by_workspace, measured, month_values
from deskyard.control.web.watch.usage import MOST_MICROS, Admin, Reader
from deskyard.model.egress import normal_entry
from deskyard.wire.egress_list import closable

router = APIRouter(prefix="/api", tags=["usage"])
MOST_CLOSES, MOST_BYTES = 50, 10**15


class Budget(Form):
    """A workspace's bounds for a month (UTC), and how much of this one is spent: machine time, and beside it bytes.

    At least one of the two has a bound, and neither is added to the other.
    """

    workspace_id: str
    micros_per_month: int = Field(description="What machine time may cost; 0: it has no bound.")
    spent: int = Field(description="What machine time has cost.")
    bytes_per_month: int = Field(description="How much its desktops may send and receive together; 0: it has no bound.")
    bytes_spent: int = Field(description="What its gateway counted, as of the last look that read it.")
    bytes_at: datetime | None = Field(description="As of when that is; null: it was not read yet.")
    closes: list[str] = Field(description="Names that its gateway closes while either is spent.")
    closed: list[str] = Field(description="Those that the gateway was told to close by now.")
    changed_at: datetime


class NewBudget(Form):
    """Bounds for each month from now on: one at least, or both; what is left out or null has no bound.

    Null where nothing else is: there is no budget.
    """

    micros_per_month: StrictInt | None = Field(
        None, ge=1, le=1000 * MOST_MICROS, description="What machine time may cost, in millionths of a unit."
    )
    bytes_per_month: StrictInt | None = Field(
        None, ge=1, le=MOST_BYTES, description="How much its desktops may send and receive together, as measured."
    )
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
    month = usage.values(*usage.month_of(datetime.now(UTC).date()), bounds=who.bounds)
    spent = by_workspace(await rows.rows(link, usage.BY_WORKSPACE, month)) if found else {}
    counted = measured(await rows.rows(link, MEASURED, month_values(bounds=who.bounds))) if found else {}
    items = [_shown(row, spent.get(row["workspace_id"], 0), counted.get(row["workspace_id"])) for row in found]
    return Page(items=items, total=len(items))


def _shown(row: Row, spent: int, counted: Measured | None) -> Budget:
    return Budget(
        workspace_id=row["workspace_id"],
        # A client of before there were two bounds gets a number, as it was promised.
        micros_per_month=row["micros_per_month"] or 0,
        spent=spent,
        bytes_per_month=row["bytes_per_month"] or 0,
        bytes_spent=counted.bytes if counted else 0,
        bytes_at=counted.read_at if counted else None,
        closes=row["closes"],
        closed=row["closed"],
        changed_at=row["changed_at"],
    )


@router.put("/budgets/{workspace}")
async def set_budget(
    link: Connection, who: Admin, workspace: str, wanted: NewBudget, conditions: Conditions
) -> Page[Budget]:
    """Set what a workspace may take in a month, or that it has no budget; alerts tell when it is nearly spent.

    While either bound is spent the gateway of a locked workspace lets nobody reach the names that it `closes`.
    """
    _require_bounds(wanted)
    found = await require_workspace(link, who, workspace)
    await conditions.require(link, "select changed_at from budget where workspace_id = %s", workspace)
    closes = None if wanted.closes is None else _closable(wanted.closes)
    for field, value in (("closes", closes), ("bytesPerMonth", wanted.bytes_per_month)):
        if value:
            _require_locked(found, field, value)
    await in_the_name_of(link, who)
    if wanted.micros_per_month is None and wanted.bytes_per_month is None:
        await link.execute("delete from budget where workspace_id = %s", [workspace])
    else:
        query = """insert into budget (workspace_id, micros_per_month, bytes_per_month, closes)
            values (%(workspace)s, %(micros)s, %(bytes)s, coalesce(%(closes)s::text[], '{}'))
            on conflict (workspace_id) do update set micros_per_month = excluded.micros_per_month,
                bytes_per_month = excluded.bytes_per_month, closes = coalesce(%(closes)s::text[], budget.closes)"""
        values = {"workspace": workspace, "micros": wanted.micros_per_month, "bytes": wanted.bytes_per_month}
        await link.execute(query, values | {"closes": closes})
    return await budgets(link, who)


def _require_bounds(wanted: NewBudget) -> None:
    """Raise `Problem` unless a bound is said, if only that there is none: nobody loses a budget by a list of names."""
    if not wanted.model_fields_set & {"micros_per_month", "bytes_per_month"}:
        reason = "is missing, and bytesPerMonth too"
        remedy = "write one of the two, or both; null for a bound that it has not"
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "microsPerMonth", None, reason, remedy)


def _require_locked(workspace: Mapping[str, Any], field: str, value: Any) -> None:
    """Raise `Problem` if a workspace's gateway knows no names: it neither counts what is spent nor closes any."""
    if workspace["egress"] != "locked":
        reason = f"needs a gateway that knows names: egress of {workspace['id']} is {workspace['egress']}"
        remedy = "declare egress: locked and bring the workspace up"
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, field, value, reason, remedy)


def _closable(names: list[str]) -> list[str]:
    """Names in their one form, each once; raises `Problem` naming what no gateway could close."""
    closes = []
    for number, text in enumerate(names):
        try:
            entry = closable(normal_entry(text))
        except ValueError as error:
            reason, _, remedy = str(error).partition(" -> ")
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"closes[{number}]", text, reason, remedy) from error
        closes.append(str(entry))
    return sorted(set(closes))
