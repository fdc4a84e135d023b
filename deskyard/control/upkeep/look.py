"""A look at a workspace, in short, as the host's tasks say it: a part that cannot be had says why, and others stand."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from deskyard.control.queue.parts import storable
from deskyard.control.upkeep import brought
from deskyard.control.upkeep.workspace import Workspace
from deskyard.errors import ConfigError, DeskyardError
from deskyard.plan.printable import printable

# What a page shows; the host's tasks show all.
MOST_REFUSALS, MOST_BACKUPS, MOST_FAULTS = 50, 3, 20
# As many as a gateway has.
MOST_CLOSED = 200
RECENT = timedelta(hours=1)
Rows = list[dict[str, Any]]


def look(name: str, *, leave_idle: bool = False, since: Mapping[str, str] | None = None) -> dict[str, dict[str, Any]]:
    """The parts of a workspace: `rows` of each, or the `problem` for which there are none.

    `leave_idle` looks into no desktop that is stopped when nobody uses it; `since` says where a part goes on. What is
    `closed` stands beside the rows of what is allowed: a gateway says both at once.
    """
    from deskyard.host.progress import say

    parts = dict(PARTS)
    if leave_idle:
        parts["health"] = partial(_health, leave_idle=True)
    for brings in brought.PARTS:
        if since and brings.PART in since:
            parts[brings.PART] = partial(brings.read, since=since[brings.PART])
    workspace = Workspace(name)
    found: dict[str, dict[str, Any]] = {}
    for part, read in parts.items():
        say(f"    {part}")
        try:
            said = read(workspace)
            found[part] = {**(said if isinstance(said, dict) else {"rows": said}), "problem": None}
        except DeskyardError as error:
            found[part] = {"rows": [], "problem": error.as_dict()}
    return found


def verified(report: dict[str, Any]) -> dict[str, Any]:
    """A report of isolation in short: counts by topic, and what is wrong."""
    rules = [line for workspace in report["rules"].values() for line in workspace["wrong"]]
    probes = [
        f"{probe['id']}: {probe['outcome']}, expected {probe['expected']}"
        for probe in report["probes"]
        if not probe["ok"]
    ]
    return {
        "ok": report["ok"],
        "seconds": report["seconds"],
        "topics": report["topics"],
        "wrong": [*rules, *probes][:MOST_FAULTS],
    }


def _allowed(workspace: Workspace) -> dict[str, Rows]:
    from deskyard.access import egress

    found = egress.allowed(workspace.name)
    if found["egress"] != "locked":
        reason = f"is {found['egress']}, so there is no list"
        raise ConfigError("egress", workspace.name, reason, "declare egress: locked and bring the workspace up")
    # A gateway of before names could be closed has none that is.
    return {"rows": list(found["allowed"]), "closed": closed(found.get("closed", []))}


def closed(rows: Iterable[Mapping[str, Any]]) -> Rows:
    """Names that nobody reaches whatever is allowed, with reason, person and moment; the reason is any text."""
    names = ("entry", "reason", "actor", "since")
    return [{name: printable(storable(str(row[name]))) for name in names} for row in rows][:MOST_CLOSED]


def _refusals(workspace: Workspace) -> Rows:
    return refusals(workspace.refused(), datetime.now(UTC))


def refusals(lines: Iterable[Mapping[str, str]], now: datetime) -> Rows:
    """List refusals, each once with how often, and how often in the last hour; the last first."""
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for line in lines:
        key = (line["desktop"], line["target"], line["rule"])
        before = rows.pop(key, None)
        rows[key] = {
            "desktop": line["desktop"],
            "target": line["target"],
            "reason": line["reason"],
            # The gateway says it as the command that would allow it.
            "entry": line["allow"].rpartition(" ")[2] or None,
            "count": 1 + (before["count"] if before else 0),
            "recent": _is_recent(line["time"], now) + (before["recent"] if before else 0),
            "last": line["time"],
        }
    return list(reversed(rows.values()))[:MOST_REFUSALS]


def _is_recent(time: str, now: datetime) -> bool:
    try:
        return datetime.fromisoformat(time) > now - RECENT
    except (ValueError, TypeError):
        # A gateway's line may say anything.
        return False


def _health(workspace: Workspace, *, leave_idle: bool = False) -> Rows:
    from deskyard.life import health

    machines = health.look(workspace.name, leave_idle=leave_idle)["machines"]
    return [{"machine": machine, **finding} for machine, findings in machines.items() for finding in findings]


def _keys(workspace: Workspace) -> Rows:
    from deskyard.desktop import keys

    return keys.known(workspace.name)


def _snapshots(workspace: Workspace) -> Rows:
    from deskyard.life import power

    plan, machines = power.look_up(workspace.name)
    return [
        {"desktop": desktop.name, **asdict(snapshot)}
        for desktop in plan.desktops
        for snapshot in machines.snapshots(desktop.machine.domain)
    ]


def _backups(workspace: Workspace) -> Rows:
    from deskyard.declaration import declaration
    from deskyard.life.backup.vault import vault_of
    from deskyard.plan.backup import sound

    plan = declaration.read(workspace.name).plan
    # Listed once for all desktops: each listing is a program's run.
    present = sound(vault_of(plan.site, workspace.name).present(None))
    return [
        {"desktop": desktop.name, "id": backup.id, "made": backup.made, "verified": backup.verified}
        for desktop in plan.desktops
        for backup in [backup for backup in present if backup.desktop == desktop.name][-MOST_BACKUPS:]
    ]


PARTS: dict[str, Callable[[Workspace], Rows | dict[str, Rows]]] = {
    "health": _health,
    "allowed": _allowed,
    "refusals": _refusals,
    "keys": _keys,
    "snapshots": _snapshots,
    "backups": _backups,
    **{part.PART: part.read for part in brought.PARTS},
}
