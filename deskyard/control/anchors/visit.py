"""A visit to a gateway: its audit's last line is taken into the chain, and the chain's last line is left there."""

from typing import Any

from psycopg.types.json import Jsonb

from deskyard.access.gateway_program import Rubbish
from deskyard.control.anchors.gateways import ACTOR, Gateways, Line
from deskyard.control.recorder import chain
from deskyard.control.store.connection import Link
from deskyard.errors import DeskyardError

# The action of a line that holds one of a gateway: the database lets the role of `link` alone write it.
HEAD = "gateway.head"
FIND_OUT = "./inv control.audit says what that means"
# Lines that only hold what gateways wrote are anchored that often: else each anchor would be news for the next.
QUIET_HOURS = 24


def visit(link: Link, name: str, source: str, gateways: Gateways) -> None:
    """Look at what a gateway holds, and write down how that stands; raises `DeskyardError` if it does not answer."""
    try:
        problem = _take(link, name, gateways) or _leave(link, name, source, gateways)
    except Rubbish as error:
        problem = error.reason
    query = """insert into anchor (workspace_id, problem) values (%s, %s)
        on conflict (workspace_id) do update set seen_at = now(), problem = excluded.problem"""
    link.execute(query, [name, problem])


def known(link: Link, name: str) -> Line | None:
    """The line of a gateway's audit that the chain took in last."""
    query = "select detail from audit_entry where action = %s and target = %s order by number desc limit 1"
    row = link.execute(query, [HEAD, name]).fetchone()
    match row and row["detail"]:
        case {"number": int(number), "hash": str(digest)}:
            return Line(number, digest)
    return None


def last(link: Link) -> Line | None:
    """The chain's last line."""
    row = link.execute("select number, hash from audit_entry order by number desc limit 1").fetchone()
    return Line(row["number"], bytes(row["hash"]).hex()) if row else None


def hashes(link: Link, numbers: list[int]) -> dict[int, str]:
    """The hashes of some lines of the chain, of those that are there."""
    rows = link.execute("select number, hash from audit_entry where number = any(%s)", [numbers]).fetchall()
    return {row["number"]: bytes(row["hash"]).hex() for row in rows}


def _take(link: Link, name: str, gateways: Gateways) -> str | None:
    """Take the last line of a gateway's audit into the chain, if it is another; what is wrong with that audit."""
    before = known(link, name)
    audit, detail = gateways.audit(name, before), dict[str, Any]()
    if audit.problem and before is not None:
        audit = gateways.audit(name, None)
        # Whole by itself, and not the one that it was: a gateway that was made anew, or rewritten. That is a line, too.
        detail = {"anew": {"number": before.number, "hash": before.hash}}
    if audit.problem:
        return audit.problem
    if audit.last.number and audit.last != before:
        detail = {**detail, "number": audit.last.number, "hash": audit.last.hash}
        query = "insert into audit_intake (actor, action, target, detail) values (%s, %s, %s, %s)"
        link.execute(query, [ACTOR, HEAD, name, Jsonb(detail)])
    return None


def _leave(link: Link, name: str, source: str, gateways: Gateways) -> str | None:
    """Leave the chain's last line in a gateway, if there is news; what is wrong with the chain instead."""
    held = gateways.held(name, source, 1)
    newest, head = held[-1] if held else None, last(link)
    if newest is not None and hashes(link, [newest.number]).get(newest.number) != newest.hash:
        return f"line {newest.number} of the audit is not the one that this gateway holds; {FIND_OUT}"
    if head is None or (newest is not None and not _is_news(link, newest)):
        return None
    problem = _broken(link, newest)
    if problem is not None:
        return f"{problem}; {FIND_OUT}"
    try:
        gateways.anchor(name, source, head)
    except DeskyardError as error:
        # It takes one in a while: the next visit brings what there is then.
        if error.field != "rate":
            raise
    return None


def _is_news(link: Link, newest: Line) -> bool:
    """Whether the chain has more since than lines of gateways, or has had those for long."""
    query = """select 1 from audit_entry where number > %s
        and (action <> %s or not recent(at, make_interval(hours => %s))) limit 1"""
    return link.execute(query, [newest.number, HEAD, QUIET_HOURS]).fetchone() is not None


def _broken(link: Link, newest: Line | None) -> str | None:
    """The problem with the lines since the one that a gateway holds: no false one is anchored knowingly."""
    after, before = (newest.number, bytes.fromhex(newest.hash)) if newest else (0, chain.START)
    with link.transaction(), link.cursor("anchor") as cursor:
        cursor.itersize = chain.LINES
        query = f"select {chain.COLUMNS} from audit_entry where number > %s order by number"
        cursor.execute(query.encode(), [after])
        return chain.verify(cursor, after, before).problem
