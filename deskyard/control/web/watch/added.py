"""Usage as JSON: added up by the database, and sent as it is read, so that its length costs no memory here."""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import date
from typing import Any

from psycopg.rows import dict_row
from pydantic import BaseModel, Field

from deskyard.control.api.caller import Link, Row
from deskyard.control.api.forms.base import Form
from deskyard.control.usage import usage
from deskyard.control.web.watch import traffic
from deskyard.control.web.watch.tables import ROWS
from deskyard.control.web.watch.traffic import By, MeasuredTraffic, Reading

# By what each line is added up.
PLACES: dict[By | None, tuple[str, ...]] = {
    None: ("workspace_id", "desktop_id", "day"),
    "desktop": ("workspace_id", "desktop_id"),
    "workspace": ("workspace_id",),
    "day": ("day",),
}
COUNTS = ("turns", "input", "output", "cached")
TOKENS = ", ".join(f"sum({name}) as {name}" for name in COUNTS)


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


@dataclass
class Together:
    """The sum of the lines that were read."""

    microseconds: int = 0
    micros: int = 0

    def used(self, row: Row) -> Used:
        """The form of a row of added lines."""
        found = Used(**_place(row), tier=row.get("tier"), microseconds=row["microseconds"], micros=row["micros"])
        self.microseconds += found.microseconds
        self.micros += found.micros
        return found


async def written(
    pool: Any, since: date, until: date, by: By | None, values: dict[str, Any]
) -> AsyncGenerator[str, None]:
    """The JSON of a `Usage`."""
    together = Together()
    async with pool.connection() as link:
        head = f'{{"since":"{since}","until":"{until}","items":['
        # Closed here: a cursor that was left open would be closed when its connection is another's.
        async with aclosing(
            _each(link, _added(usage.LINES, usage.AMOUNTS, by, "tier"), values, together.used)
        ) as parts:
            async for part in parts:
                yield head + part
                head = ""
        head += f'],"microseconds":{together.microseconds},"micros":{together.micros},"claimed":['
        async with aclosing(_each(link, _added(usage.CLAIMS, TOKENS, by), values, _claimed)) as parts:
            async for part in parts:
                yield head + part
                head = ""
        measured, left_out = await traffic.measured(link, values, by)
        rest = {
            "measured": _plain(measured),
            "measuredLeftOut": left_out,
            "readings": _plain(await traffic.readings(link, values)),
        }
        yield f"{head}],{json.dumps(rest)[1:]}"


def _added(lines: str, sums: str, by: By | None, *more: str) -> str:
    """The query that adds lines up, those of the earliest days first."""
    names = ", ".join((*PLACES[by], *(more if by is None else ())))
    return f"select {names}, {sums} from ({lines}) as line group by {names} order by min(day), {names}"


async def _each(
    link: Link, query: str, values: dict[str, Any], form: Callable[[Row], BaseModel]
) -> AsyncGenerator[str, None]:
    """The rows of a query as JSON, some at a time, between commas."""
    comma = ""
    async with link.cursor("lines", row_factory=dict_row) as cursor:
        await cursor.execute(query.encode(), values)
        while found := await cursor.fetchmany(ROWS):
            yield comma + ",".join(form(row).model_dump_json(by_alias=True) for row in found)
            comma = ","


def _place(row: Row) -> dict[str, Any]:
    """The workspace, desktop and day of a row, as far as it has them."""
    day = usage.day_of(row) if "day" in row else None
    return {"workspace_id": row.get("workspace_id"), "desktop_id": row.get("desktop_id"), "day": day}


def _claimed(row: Row) -> ClaimedTokens:
    return ClaimedTokens(**_place(row), **{name: row[name] for name in COUNTS})


def _plain(forms: list[Any]) -> list[Any]:
    return [form.model_dump(mode="json", by_alias=True) for form in forms]
