"""Tables as CSV, sent as they are read: a cursor of the database keeps what its reader has not taken yet."""

import csv
import io
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any

from fastapi import Request
from fastapi.responses import StreamingResponse
from psycopg.rows import dict_row

from deskyard.control.api.caller import Row

# So many rows of a table are in memory at once, and so many tables are read: each holds a connection until its end.
ROWS, AT_ONCE = 500, 4
Cells = Callable[[Row], Sequence[Any]]


class Csv(StreamingResponse):
    """A table, so that the document says what it is."""

    media_type = "text/csv"


def sent(
    request: Request, name: str, titles: Sequence[str], query: str, values: Mapping[str, Any], cells: Cells
) -> Csv:
    """The answer with the rows of a query below titles; one that breaks off is cut, and passes for no whole."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Csv(_lines(request.app.state, titles, query, values, cells), headers=headers)


async def _lines(
    state: Any, titles: Sequence[str], query: str, values: Mapping[str, Any], cells: Cells
) -> AsyncIterator[str]:
    yield _text([titles])
    async with state.tables, state.pool.connection() as link, link.cursor("lines", row_factory=dict_row) as cursor:
        await cursor.execute(query.encode(), values)
        while found := await cursor.fetchmany(ROWS):
            yield _text(map(cells, found))


def _text(cells: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(cells)
    return text.getvalue()
