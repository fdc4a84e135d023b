"""Moments of desktops, as their gateway wrote them down: who came in and drove, and what was refused; read by a look.

Of what a desktop was refused there may be any number of lines: those of an hour, a target and a reason are one moment.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg.types.json import Jsonb

from deskyard.control.queue import parts
from deskyard.control.store.connection import Link
from deskyard.control.upkeep import refused
from deskyard.control.upkeep.traffic import DESKTOP
from deskyard.control.upkeep.workspace import Workspace

PART, SINCE, READ_AT = "moments", "moments_since", "moments_read_at"
DOOR, EGRESS = "door", "egress"
# Of one look: the newest of both.
MOST_LINES, MOST_ROWS = 4_000, 8_000
MOST_KEY, MOST_TEXT, MOST_TIMES = 400, 300, 10**9
KEPT = timedelta(days=90)
# What the door writes of a session, by event and result; of the others none says anything of a desktop's life.
DECISIONS = {
    ("grant", "granted"): "link made",
    ("redeem", "active"): "came in",
    ("driver", "drives"): "drives",
    ("driver", "nobody"): "nobody drives",
    ("privacy", "on"): "private",
    ("privacy", "off"): "seen again",
    ("halt", "stopped"): "agent stopped",
    ("resume", "goes on"): "agent goes on",
    ("revoke", "revoked"): "link revoked",
    ("expire", "closed"): "session over",
    ("refuse", "refused"): "refused",
    ("refuse", "closed"): "closed",
}
REFUSED = "refused"
PLACE = "select key from moment where workspace_id = %s and source = %s order by at desc, key desc limit 1"
# Lines of the door never change. What is refused goes on within its hour, and a gateway made anew counts from nothing.
KEEP = """
insert into moment (workspace_id, desktop_id, source, key, at, what, actor, detail, times)
select %(workspace)s, %(workspace)s || '.' || desktop, source, key, at, what, actor, detail, times
from jsonb_to_recordset(%(rows)s) as row
  (desktop text, source text, key text, at timestamptz, what text, actor text, detail text, times integer)
on conflict (desktop_id, source, key) do update set times = excluded.times, at = greatest(moment.at, excluded.at)
where excluded.times > moment.times
"""
FORGET = "delete from moment where workspace_id = %s and at < now() - %s"

Rows = list[dict[str, Any]]


def read(workspace: Workspace, since: str = "") -> Rows:
    """Read a gateway's lines from the one of the door after `since` on, which is a key as `asked` gives it."""
    lines = [*_decisions(workspace.name, since)]
    return bounded([*of_door(lines), *of_egress(workspace.refused())], datetime.now(UTC))


def asked(link: Link, workspace: str) -> dict[str, str]:
    """Name the last line of the door that is known, for the next look to begin after."""
    found = link.execute(PLACE, [workspace, DOOR]).fetchone()
    return {SINCE: found["key"]} if found else {}


def keep(link: Link, workspace: str, rows: Rows) -> None:
    """Write down what a look has read, and forget what is older than it is kept, but for refused names."""
    link.execute(KEEP.encode(), {"workspace": workspace, "rows": Jsonb(rows)})
    refused.keep(link, workspace, [row for row in rows if row["source"] == EGRESS])
    link.execute(FORGET, [workspace, KEPT])


def of_door(lines: Iterable[Any]) -> Rows:
    """Moments of a door's lines; those of no desktop, and what is no line, are left out."""
    rows = []
    for line in lines:
        if not isinstance(line, Mapping):
            continue
        what = DECISIONS.get((str(line.get("event")), str(line.get("result"))))
        at, desktop = _moment(line.get("time")), line.get("desktop")
        if what is None or at is None or not _is_desktop(desktop) or type(line.get("seq")) is not int:
            continue
        by, reason = line.get("by"), line.get("reason")
        said = [f"by {by}" if by else "", reason, line.get("mode") if not reason else ""]
        detail = ", ".join(str(part) for part in said if part)
        rows.append(_row(desktop, DOOR, _place(line), at, what, str(line.get("actor") or ""), detail, 1))
    return rows


def of_egress(lines: Iterable[Any]) -> Rows:
    """Moments of what was refused: how often in an hour, and when last."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for line in lines:
        if not isinstance(line, Mapping):
            continue
        at, desktop = _moment(line.get("time")), line.get("desktop")
        if at is None or not _is_desktop(desktop):
            continue
        hour = at.replace(minute=0, second=0, microsecond=0).isoformat()
        target, reason = str(line.get("target")), str(line.get("reason"))
        key = parts.line(f"{hour} {line.get('rule')} {target}", MOST_KEY)
        row = found.setdefault(
            (str(desktop), key), _row(desktop, EGRESS, key, at, REFUSED, "", f"{target}: {reason}", 0)
        )
        row["times"] = min(row["times"] + 1, MOST_TIMES)
        row["at"] = max(row["at"], at.isoformat())
    return list(found.values())


def bounded(rows: Iterable[dict[str, Any]], now: datetime) -> Rows:
    """Those that may be kept, the oldest first: none is to come, or older than is kept."""
    first, last = (now - KEPT).isoformat(), (now + timedelta(hours=1)).isoformat()
    return sorted((row for row in rows if first < row["at"] < last), key=lambda row: row["at"])[-MOST_ROWS:]


def _decisions(name: str, since: str) -> Iterable[Any]:
    """The door's lines after a known one; the newest there are, if its gateway does not know it: it was made anew."""
    from deskyard.access import access

    number = since.rpartition(" ")[2]
    if number.isdigit():
        lines = access.audit(name, since=max(0, int(number) - 1), last=MOST_LINES)
        if isinstance(lines, list) and lines:
            if isinstance(lines[0], Mapping) and _place(lines[0]) == since:
                return lines[1:]
            if len(lines) == MOST_LINES:
                return lines
    found = access.audit(name, last=MOST_LINES)
    return found if isinstance(found, list) else []


def _place(line: Mapping[str, Any]) -> str:
    at = _moment(line.get("time"))
    return f"{at.isoformat() if at else ''} {line.get('seq')}"


def _row(desktop: Any, source: str, key: str, at: datetime, what: str, actor: str, detail: str, times: int) -> Any:
    texts = {"what": what, "actor": parts.line(actor, MOST_TEXT), "detail": parts.line(detail, MOST_TEXT)}
    return {"desktop": str(desktop), "source": source, "key": key, "at": at.isoformat(), **texts, "times": times}


def _is_desktop(text: Any) -> bool:
    return isinstance(text, str) and DESKTOP.fullmatch(text) is not None


def _moment(text: Any) -> datetime | None:
    """A gateway's time, in UTC; it may say anything."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, TypeError, OverflowError):
        return None
