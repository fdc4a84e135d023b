"""Parts of a look that are kept in tables of their own: where each begins to read, and how its rows are written."""

from collections.abc import Mapping
from typing import Any, Final

from psycopg import sql

from deskyard.control.queue.claim import Claim
from deskyard.control.store.connection import Link
from deskyard.control.upkeep import moments, traffic

KIND = "workspace.look"
PARTS: Final = (traffic, moments)


def asked(link: Link, held: Claim) -> dict[str, str]:
    """Name for each part of a look the place where it goes on; nothing for other operations."""
    if held.kind != KIND or held.workspace is None:
        return {}
    return {name: value for part in PARTS for name, value in part.asked(link, held.workspace).items()}


def shown(held: Claim, result: dict[str, Any]) -> dict[str, Any]:
    """The result of an operation as it is kept: of a look, how many rows a part had instead of these."""
    if held.kind != KIND:
        return result
    found = {part.PART: result.get(part.PART) for part in PARTS}
    return result | {
        name: {"kept": len(said["rows"]), "problem": said["problem"]}
        for name, said in found.items()
        if isinstance(said, Mapping)
    }


def keep(link: Link, held: Claim, result: Mapping[str, Any]) -> None:
    """Write down what a look that was done has read of its gateway, and as of when that is."""
    if held.kind != KIND or held.workspace is None:
        return
    for part in PARTS:
        said = result.get(part.PART)
        if not isinstance(said, Mapping) or said["problem"] is not None:
            continue
        part.keep(link, held.workspace, said["rows"])
        query = sql.SQL(
            "update workspace set {} = (select started_at from operation where id = %s) where id = %s"
        ).format(sql.Identifier(part.READ_AT))
        link.execute(query, [held.id, held.workspace])
