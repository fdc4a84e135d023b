"""If-Match and If-None-Match (RFC 9110, 13.1): a setting is changed only as whoever changes it has read it.

The version of a setting is its `changedAt`, as lists show it; of several that one request names, the newest of theirs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, LiteralString

from fastapi import Depends, Header

from deskyard.control.api import rows
from deskyard.control.api.caller import Link
from deskyard.control.api.problem import Problem

ANY = "*"
READ_AGAIN = "read it again, and send the changedAt that it has then"


@dataclass(frozen=True)
class Unchanged:
    """The conditions of a request; without any it changes whatever is there."""

    match: str | None
    none_match: str | None

    async def require(self, link: Link, query: LiteralString, name: str | Sequence[str]) -> None:
        """Raise a 412 unless the conditions hold of the setting whose `changed_at` the query selects by its name.

        Until the end of the transaction nobody else changes what the query selects from, by conditions or without: two
        who name some of the same settings wait for one another, and the later change has the later `changed_at`.
        """
        await link.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", [query])
        if self.match is None and self.none_match is None:
            return
        found = await rows.row(link, query, [name])
        now = found["changed_at"] if found else None
        if self.none_match is not None and (now is not None or self.none_match != ANY):
            raise _failed("If-None-Match", self.none_match, now, "leave the header out to change what is there")
        if self.match is not None and not _is(self.match, now):
            raise _failed("If-Match", self.match, now, READ_AGAIN)


def _is(text: str, now: datetime | None) -> bool:
    if now is None or text == ANY:
        return now is not None
    try:
        return datetime.fromisoformat(text.strip('"')) == now
    except (ValueError, TypeError):
        return False


def _failed(header: str, value: str, now: datetime | None, remedy: str) -> Problem:
    is_now = "there is none" if now is None else f"it was changed at {now.isoformat()}"
    return Problem(HTTPStatus.PRECONDITION_FAILED, header, value, f"does not hold: {is_now}", remedy)


async def _conditions(
    if_match: Annotated[str | None, Header(description="changedAt as it was read, or * for any that is there.")] = None,
    if_none_match: Annotated[str | None, Header(description="*: only if there is none yet.")] = None,
) -> Unchanged:
    return Unchanged(if_match, if_none_match)


Conditions = Annotated[Unchanged, Depends(_conditions)]
