"""/api/usage, prices and budgets: how long machines ran, and what that costs."""

import csv
import io
from dataclasses import dataclass
from datetime import UTC, date, datetime
from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query
from fastapi.responses import PlainTextResponse
from pydantic import Field, StrictInt

from deskyard.control.api import rows
from deskyard.control.api.admission import note
from deskyard.control.api.caller import Caller, Connection, Link, may
from deskyard.control.api.desktops import require_workspace
from deskyard.control.api.forms import Form, Page
from deskyard.control.api.problem import Problem
from deskyard.control.people.scopes import ADMIN, READ
from deskyard.control.watch import usage
from deskyard.control.watch.usage import Claim, Line

router = APIRouter(prefix="/api", tags=["usage"])
Reader = Annotated[Caller, Depends(may(READ))]
Admin = Annotated[Caller, Depends(may(ADMIN))]
MOST_DAYS = 400
MOST_MICROS = 10**12
By = Literal["desktop", "workspace", "day"]


class Csv(PlainTextResponse):
    """A table, so that the document says what it is."""

    media_type = "text/csv"


class Used(Form):
    """Machine time, and its cost in millionths of a unit, of what is named."""

    workspace_id: str | None
    desktop_id: str | None
    tier: str | None
    day: date | None
    microseconds: int
    micros: int


class ClaimedTokens(Form):
    """Tokens of what is named, as agents claim them: nobody has measured them, and they cost nothing here."""

    workspace_id: str | None
    desktop_id: str | None
    day: date | None
    turns: int
    input: int
    output: int
    cached: int


class Usage(Form):
    """Use from a day to another (UTC), both included: what was measured, and beside it what agents claim."""

    since: date
    until: date
    items: list[Used]
    microseconds: int
    micros: int
    claimed: list[ClaimedTokens]


class Price(Form):
    """What an hour of a tier costs, in millionths of a unit, from a moment on."""

    tier: str
    micros_per_hour: int
    since: datetime
    actor: str


class NewPrice(Form):
    """What an hour of a tier costs from now on."""

    tier: str = Field(min_length=1, max_length=40)
    micros_per_hour: StrictInt = Field(ge=0, le=MOST_MICROS)


class NewPrices(Form):
    """Prices from now on; of tiers that are not named they stay."""

    prices: list[NewPrice] = Field(min_length=1, max_length=100)


class Budget(Form):
    """What a workspace may cost in a month (UTC), and what it has cost in this one."""

    workspace_id: str
    micros_per_month: int
    spent: int


class NewBudget(Form):
    """What a workspace may cost in a month; none: there is no budget."""

    micros_per_month: StrictInt | None = Field(ge=1, le=1000 * MOST_MICROS)


async def lines(
    link: Link, who: Caller, since: date, until: date, workspace: str | None = None, desktop: str | None = None
) -> list[Line]:
    """Lines of usage within the caller's bounds."""
    if not since <= until or (until - since).days > MOST_DAYS or until.year > 9000 or since.year < 2000:
        reason = f"is no time of at most {MOST_DAYS} days"
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "since", since, reason, "name a day, and a later one")
    found = await rows.rows(link, usage.LINES, usage.values(since, until, workspace, desktop, who.bounds))
    return [usage.line(row) for row in found]


@dataclass(frozen=True)
class Found:
    """The usage from a day to another."""

    since: date
    until: date
    lines: list[Line]
    claims: list[Claim]


async def asked(
    link: Connection,
    who: Reader,
    since: date | None = None,
    until: date | None = None,
    workspace: Annotated[str | None, Query(max_length=80)] = None,
    desktop: Annotated[str | None, Query(max_length=80)] = None,
) -> Found:
    """The usage that a request asks for: of this month, if it does not say."""
    last = until or datetime.now(UTC).date()
    first = since or last.replace(day=1)
    found = await lines(link, who, first, last, workspace, desktop)
    claims = await rows.rows(link, usage.CLAIMS, usage.values(first, last, workspace, desktop, who.bounds))
    return Found(first, last, found, [usage.claim(row) for row in claims])


Asked = Annotated[Found, Depends(asked)]


@router.get("/usage")
async def look(found: Asked, by: By | None = None) -> Usage:
    """Show machine time, cost and claimed tokens by desktop and day, or added up by one of them."""
    items: dict[tuple[str | None, str | None, str | None, date | None], list[int]] = {}
    for line in found.lines:
        place = {
            None: (line.workspace, line.desktop, line.tier, line.day),
            "desktop": (line.workspace, line.desktop, None, None),
            "workspace": (line.workspace, None, None, None),
            "day": (None, None, None, line.day),
        }[by]
        sums = items.setdefault(place, [0, 0])
        sums[0] += line.microseconds
        sums[1] += line.micros
    return Usage(
        since=found.since,
        until=found.until,
        items=[
            Used(workspace_id=a, desktop_id=b, tier=c, day=d, microseconds=sums[0], micros=sums[1])
            for (a, b, c, d), sums in items.items()
        ],
        microseconds=sum(line.microseconds for line in found.lines),
        micros=sum(line.micros for line in found.lines),
        claimed=_added_up(found.claims, by),
    )


def _added_up(claims: list[Claim], by: By | None) -> list[ClaimedTokens]:
    sums: dict[tuple[str | None, str | None, date | None], list[Claim]] = {}
    for claim in claims:
        place = {
            None: (claim.workspace, claim.desktop, claim.day),
            "desktop": (claim.workspace, claim.desktop, None),
            "workspace": (claim.workspace, None, None),
            "day": (None, None, claim.day),
        }[by]
        sums.setdefault(place, []).append(claim)
    return [
        ClaimedTokens(
            workspace_id=workspace,
            desktop_id=desktop,
            day=day,
            turns=sum(claim.turns for claim in together),
            input=sum(claim.input for claim in together),
            output=sum(claim.output for claim in together),
            cached=sum(claim.cached for claim in together),
        )
        for (workspace, desktop, day), together in sums.items()
    ]


@router.get("/usage.csv", response_class=Csv)
async def table(found: Asked) -> Csv:
    """Export machine time and cost by desktop and day as CSV."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["day", "workspace", "desktop", "tier", "microseconds", "micros"])
    for line in found.lines:
        # Names are DNS labels: none begins a formula.
        writer.writerow([line.day, line.workspace, line.desktop, line.tier, line.microseconds, line.micros])
    headers = {"Content-Disposition": 'attachment; filename="usage.csv"'}
    return Csv(text.getvalue(), headers=headers)


@router.get("/prices")
async def prices(link: Connection, who: Reader) -> Page[Price]:
    """List prices with their history, the newest of a tier first."""
    found = await rows.rows(link, "select * from tier_price order by tier, since desc", [])
    return Page(items=[Price(**row) for row in found], total=len(found))


@router.put("/prices")
async def set_prices(link: Connection, who: Admin, wanted: NewPrices) -> Page[Price]:
    """Set what tiers cost from now on; what was used before keeps its price."""
    for price in wanted.prices:
        query = "insert into tier_price (tier, micros_per_hour, actor) values (%s, %s, %s)"
        await link.execute(query, [price.tier, price.micros_per_hour, who.actor])
        await note(link, who.actor, "price.set", price.tier, microsPerHour=price.micros_per_hour)
    return await prices(link, who)


@router.get("/budgets")
async def budgets(link: Connection, who: Reader) -> Page[Budget]:
    """List budgets with what is spent of them this month."""
    query = "select * from budget where %s::text[] is null or workspace_id = any(%s) order by workspace_id"
    found = await rows.rows(link, query, [who.bounds, who.bounds])
    spent: dict[str, int] = {}
    first, last = usage.month_of(datetime.now(UTC).date())
    for line in await lines(link, who, first, last) if found else []:
        spent[line.workspace] = spent.get(line.workspace, 0) + line.micros
    items = [
        Budget(
            workspace_id=row["workspace_id"],
            micros_per_month=row["micros_per_month"],
            spent=spent.get(row["workspace_id"], 0),
        )
        for row in found
    ]
    return Page(items=items, total=len(items))


@router.put("/budgets/{workspace}")
async def set_budget(link: Connection, who: Admin, workspace: str, wanted: NewBudget) -> Page[Budget]:
    """Set what a workspace may cost in a month, or that it has no budget; alerts tell when it is nearly spent."""
    await require_workspace(link, who, workspace)
    if wanted.micros_per_month is None:
        await link.execute("delete from budget where workspace_id = %s", [workspace])
    else:
        query = """insert into budget (workspace_id, micros_per_month, actor) values (%s, %s, %s)
            on conflict (workspace_id) do update set micros_per_month = excluded.micros_per_month,
                actor = excluded.actor, changed_at = now()"""
        await link.execute(query, [workspace, wanted.micros_per_month, who.actor])
    await note(link, who.actor, "budget.set", workspace, microsPerMonth=wanted.micros_per_month)
    return await budgets(link, who)
