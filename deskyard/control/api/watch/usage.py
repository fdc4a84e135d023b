"""/api/usage and prices: how long machines ran, what that costs, and what agents claim and gateways count."""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from pydantic import Field, StrictInt

from deskyard.control.api import rows
from deskyard.control.api.admission import in_the_name_of
from deskyard.control.api.caller import Caller, Connection, Link, Row, may
from deskyard.control.api.forms.base import Form, Page
from deskyard.control.api.problem import Problem
from deskyard.control.api.unchanged import Conditions
from deskyard.control.api.watch import tables, traffic
from deskyard.control.api.watch.tables import Csv
from deskyard.control.api.watch.traffic import By, MeasuredTraffic, Reading
from deskyard.control.people.scopes import ADMIN, READ
from deskyard.control.watch import usage
from deskyard.control.watch.usage import Claim, Line

router = APIRouter(prefix="/api", tags=["usage"])
Reader = Annotated[Caller, Depends(may(READ))]
Admin = Annotated[Caller, Depends(may(ADMIN))]
MOST_DAYS = 400
MOST_MICROS = 10**12
COLUMNS = ["day", "workspace", "desktop", "tier", "microseconds", "micros"]


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
    """Use from a day to another (UTC), both included: machine time, what agents claim, and what gateways measured."""

    since: date
    until: date
    items: list[Used]
    microseconds: int
    micros: int
    claimed: list[ClaimedTokens]
    measured: list[MeasuredTraffic] = Field(description="Most bytes first; `by` none: by desktop and day.")
    measured_left_out: int = Field(description="Rows beyond those that are listed; the CSV has them.")
    readings: list[Reading]


class Price(Form):
    """The price of an hour of a tier, in millionths of a unit, from a moment on."""

    tier: str
    micros_per_hour: int
    since: datetime
    actor: str
    changed_at: datetime = Field(description="The same as `since`: of a tier's newest price, what a PUT names.")


class NewPrice(Form):
    """The price of an hour of a tier from now on."""

    tier: str = Field(min_length=1, max_length=40)
    micros_per_hour: StrictInt = Field(ge=0, le=MOST_MICROS)


class NewPrices(Form):
    """Prices from now on; of tiers that are not named they stay."""

    prices: list[NewPrice] = Field(min_length=1, max_length=100)


@dataclass(frozen=True)
class Wanted:
    """The days whose usage is wanted, both included, and of what."""

    since: date
    until: date
    workspace: str | None = None
    desktop: str | None = None

    def values(self, who: Caller) -> dict[str, Any]:
        """The parameters of its queries, within the caller's bounds."""
        since, until = self.since, self.until
        if not since <= until or (until - since).days > MOST_DAYS or until.year > 9000 or since.year < 2000:
            reason = f"is no time of at most {MOST_DAYS} days"
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "since", since, reason, "name a day, and a later one")
        return usage.values(since, until, self.workspace, self.desktop, who.bounds)


async def lines(link: Link, who: Caller, wanted: Wanted) -> list[Line]:
    """Lines of usage within the caller's bounds."""
    found = await rows.rows(link, usage.LINES, wanted.values(who))
    return [usage.line(row) for row in found]


async def asked(
    since: date | None = None,
    until: date | None = None,
    workspace: Annotated[str | None, Query(max_length=80)] = None,
    desktop: Annotated[str | None, Query(max_length=80)] = None,
) -> Wanted:
    """The time and the desktops that a request asks for: this month, if it does not say."""
    last = until or datetime.now(UTC).date()
    return Wanted(since or last.replace(day=1), last, workspace, desktop)


Asked = Annotated[Wanted, Depends(asked)]


@router.get("/usage")
async def look(link: Connection, who: Reader, wanted: Asked, by: By | None = None) -> Usage:
    """Show machine time, cost, claimed tokens and counted bytes by desktop and day, or added up by one of them."""
    values = wanted.values(who)
    found = await lines(link, who, wanted)
    claims = [usage.claim(row) for row in await rows.rows(link, usage.CLAIMS, values)]
    measured, left_out = await traffic.measured(link, values, by)
    return Usage(
        since=wanted.since,
        until=wanted.until,
        items=_used(found, by),
        microseconds=sum(line.microseconds for line in found),
        micros=sum(line.micros for line in found),
        claimed=_claimed(claims, by),
        measured=measured,
        measured_left_out=left_out,
        readings=await traffic.readings(link, values),
    )


def _place(entry: Line | Claim, by: By | None) -> tuple[str | None, str | None, date | None]:
    """The workspace, desktop and day under which an entry is added up."""
    return (
        None if by == "day" else entry.workspace,
        entry.desktop if by in (None, "desktop") else None,
        entry.day if by in (None, "day") else None,
    )


def _used(found: list[Line], by: By | None) -> list[Used]:
    groups: dict[tuple[str | None, str | None, date | None, str | None], list[Line]] = {}
    for line in found:
        groups.setdefault((*_place(line, by), None if by else line.tier), []).append(line)
    return [
        Used(
            workspace_id=workspace,
            desktop_id=desktop,
            tier=tier,
            day=day,
            microseconds=sum(line.microseconds for line in group),
            micros=sum(line.micros for line in group),
        )
        for (workspace, desktop, day, tier), group in groups.items()
    ]


def _claimed(claims: list[Claim], by: By | None) -> list[ClaimedTokens]:
    groups: dict[tuple[str | None, str | None, date | None], list[Claim]] = {}
    for claim in claims:
        groups.setdefault(_place(claim, by), []).append(claim)
    return [
        ClaimedTokens(
            workspace_id=workspace,
            desktop_id=desktop,
            day=day,
            turns=sum(claim.turns for claim in group),
            input=sum(claim.input for claim in group),
            output=sum(claim.output for claim in group),
            cached=sum(claim.cached for claim in group),
        )
        for (workspace, desktop, day), group in groups.items()
    ]


@router.get("/usage.csv", response_class=Csv)
async def table(request: Request, who: Reader, wanted: Asked) -> Csv:
    """Export machine time and cost by desktop and day as CSV."""
    return tables.sent(request, "usage.csv", COLUMNS, usage.LINES, wanted.values(who), _cells)


def _cells(row: Row) -> list[Any]:
    """The cells of a line; names are DNS labels, and none begins a formula."""
    line = usage.line(row)
    return [getattr(line, name) for name in COLUMNS]


@router.get("/usage/traffic.csv", response_class=Csv)
async def traffic_table(request: Request, link: Connection, who: Reader, wanted: Asked) -> Csv:
    """Export what gateways counted by day, desktop and name as CSV."""
    values = wanted.values(who)
    await traffic.require_short(link, values)
    return tables.sent(request, "traffic.csv", list(traffic.TITLES), traffic.LINES, values, traffic.cells)


@router.get("/prices")
async def prices(link: Connection, who: Reader) -> Page[Price]:
    """List prices with their history, the newest of a tier first."""
    query = "select *, since as changed_at from tier_price order by tier, since desc"
    found = await rows.rows(link, query, [])
    return Page(items=[Price(**row) for row in found], total=len(found))


@router.put("/prices")
async def set_prices(link: Connection, who: Admin, wanted: NewPrices, conditions: Conditions) -> Page[Price]:
    """Set what tiers cost from now on; what was used before keeps its price."""
    tiers = [price.tier for price in wanted.prices]
    await conditions.require(link, "select max(since) as changed_at from tier_price where tier = any(%s)", tiers)
    await in_the_name_of(link, who)
    for price in wanted.prices:
        query = "insert into tier_price (tier, micros_per_hour) values (%s, %s)"
        await link.execute(query, [price.tier, price.micros_per_hour])
    return await prices(link, who)
