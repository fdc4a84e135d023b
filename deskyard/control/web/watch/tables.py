"""Tables as CSV, sent as they are read: a cursor of the database keeps what its reader has not taken yet."""

import csv
import io
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from fastapi import Request
from psycopg.rows import dict_row

from deskyard.control.api.caller import Caller, Row
from deskyard.control.web.watch.turns import Sent

# So many rows of a table are in memory at once.
ROWS = 500
Cells = Callable[[Row], Sequence[Any]]


class Csv(Sent):
    """A table, so that the document says what it is."""

    media_type = "text/csv"


def sent(
    request: Request,
    who: Caller,
    name: str,
    titles: Sequence[str],
    query: str,
    values: Mapping[str, Any],
    cells: Cells,
) -> Csv:
    """The answer with the rows of a query below titles."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    parts = partial(_lines, request.app.state.pool, titles, query, values, cells)
    return Csv(request.app.state.tables, who.actor, parts, headers)


async def _lines(
    pool: Any, titles: Sequence[str], query: str, values: Mapping[str, Any], cells: Cells
) -> AsyncGenerator[str, None]:
    async with pool.connection() as link, link.cursor("lines", row_factory=dict_row) as cursor:
        await cursor.execute(query.encode(), values)
        found = await cursor.fetchmany(ROWS)
        yield _text([titles, *map(cells, found)])
        while found := await cursor.fetchmany(ROWS):
            yield _text(map(cells, found))


def _text(cells: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(cells)
    return text.getvalue()
