"""/api/usage and prices: how long machines ran, what that costs, and what agents claim and gateways count."""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from pydantic import Field, StrictInt

from deskyard.control.api import rows
from deskyard.control.api.admission import in_the_name_of
from deskyard.control.api.caller import Caller, Connection, Row, may
from deskyard.control.api.forms.base import Form, Page
from deskyard.control.api.problem import Problem
from deskyard.control.api.unchanged import Conditions
from deskyard.control.people.scopes import ADMIN, READ
from deskyard.control.usage import usage
from deskyard.control.web.watch import added, tables, traffic
from deskyard.control.web.watch.added import Usage
from deskyard.control.web.watch.tables import Csv
from deskyard.control.web.watch.traffic import By
from deskyard.control.web.watch.turns import Sent

router = APIRouter(prefix="/api", tags=["usage"])
Reader = Annotated[Caller, Depends(may(READ))]
Admin = Annotated[Caller, Depends(may(ADMIN))]
MOST_DAYS = 400
MOST_MICROS = 10**12
COLUMNS = ["day", "workspace", "desktop", "tier", "microseconds", "micros"]


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


@router.get("/usage", response_model=Usage)
async def look(request: Request, who: Reader, wanted: Asked, by: By | None = None) -> Sent:
    """Show machine time, cost, claimed tokens and counted bytes by desktop and day, or added up by one of them."""
    state, values = request.app.state, wanted.values(who)
    parts = partial(added.written, state.pool, wanted.since, wanted.until, by, values)
    return Sent(state.usage, who.actor, parts, {"Content-Type": "application/json"})


@router.get("/usage.csv", response_class=Csv)
async def table(request: Request, who: Reader, wanted: Asked) -> Csv:
    """Export machine time and cost by desktop and day as CSV."""
    return tables.sent(request, who, "usage.csv", COLUMNS, usage.LINES, wanted.values(who), _cells)


def _cells(row: Row) -> list[Any]:
    """The cells of a line; names are DNS labels, and none begins a formula."""
    line = usage.line(row)
    return [getattr(line, name) for name in COLUMNS]


@router.get("/usage/traffic.csv", response_class=Csv)
async def traffic_table(request: Request, link: Connection, who: Reader, wanted: Asked) -> Csv:
    """Export what gateways counted by day, desktop and name as CSV."""
    values = wanted.values(who)
    await traffic.require_short(link, values)
    return tables.sent(request, who, "traffic.csv", list(traffic.TITLES), traffic.LINES, values, traffic.cells)


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
