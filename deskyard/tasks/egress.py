"""egress.*: what the desktops of a locked workspace reach, and what was refused."""

import json as json_format
from typing import Any

from invoke import Collection, Context

from deskyard.errors import ConfigError
from deskyard.tasks.front import Changes, Unnoted, command, show


@command(
    changes=Changes("egress.allow", "workspace", ("name", "for_")),
    help={
        "workspace": "name of the workspace",
        "name": "docs.example.org, *.example.org (all names below it), git.example.org:22",
        "for": "end by itself: 30m, 1h, 2d (default: 1h)",
        "once": "end with the first connection that is made",
        "always": "write it into the declaration too",
        "json": "print JSON",
    },
)
def allow(
    _: Context,
    workspace: str,
    name: str,
    for_: str = "",
    once: bool = False,
    always: bool = False,
    json: bool = False,
) -> None:
    """Let the desktops of a locked workspace reach a name: for an hour, unless you say otherwise.

    --once ends when the gateway has made the first connection for the name; what begins in the moment until its list
    is in force again, less than a second, may pass too. An unused --once lasts until it is forbidden, or --for ends it.
    """
    from deskyard.access import access, egress

    bounded = for_ or not (once or always)
    seconds = access.seconds(for_ or "1h") if bounded else None
    state = egress.allow(workspace, name, seconds, once, always)
    show(state, as_json=json, text=_text(state))


@command(
    changes=Changes("egress.forbid", "workspace", ("name",)),
    help={"workspace": "name of the workspace", "name": "the entry as egress.list shows it", "json": "print JSON"},
)
def forbid(_: Context, workspace: str, name: str, json: bool = False) -> None:
    """Take a name back, from the gateway at once and from the declaration. Open connections go on."""
    from deskyard.access import egress

    state = egress.forbid(workspace, name)
    show(state, as_json=json, text=_text(state))


@command(
    changes=Changes("egress.close", "workspace", ("name",)),
    help={
        "workspace": "name of the workspace",
        "name": "api.example.org, or *.example.org (all names below it)",
        "json": "print JSON",
    },
)
def close(_: Context, workspace: str, name: str, json: bool = False) -> None:
    """Let nobody reach a name, whatever the list or a person's answer says, until you reopen it.

    All connections of before end, of whatever name: their desktops make them anew. It outlives workspace.up, but not a
    gateway that is made anew.
    """
    from deskyard.access import egress

    state = egress.close(workspace, [name])
    show(state, as_json=json, text=_text(state))


@command(
    changes=Changes("egress.reopen", "workspace", ("name",)),
    help={"workspace": "name of the workspace", "name": "the entry as egress.list shows it", "json": "print JSON"},
)
def reopen(_: Context, workspace: str, name: str, json: bool = False) -> None:
    """Take back that you closed a name: the list says again whether it is reached."""
    from deskyard.access import egress

    state = egress.reopen(workspace, [name])
    show(state, as_json=json, text=_text(state))


@command(changes=Unnoted.LOOKS, name="list", help={"workspace": "name of the workspace", "json": "print JSON"})
def list_(_: Context, workspace: str, json: bool = False) -> None:
    """Show what the desktops of a workspace may reach, and until when."""
    from deskyard.access import egress

    state = egress.allowed(workspace)
    show(state, as_json=json, text=_text(state))


@command(
    changes=Unnoted.LOOKS,
    help={
        "workspace": "name of the workspace",
        "follow": "go on with each refusal as it happens",
        "json": "print one JSON document per line",
    },
)
def denied(_: Context, workspace: str, follow: bool = False, json: bool = False) -> None:
    """Show what was refused: which desktop, which name or address, which rule, and what would allow it."""
    from deskyard.access import egress

    for refusal in egress.denied(workspace, follow):
        print(json_format.dumps(refusal) if json else refusal_text(refusal), flush=True)


@command(
    changes=Unnoted.LOOKS,
    help={
        "workspace": "name of the workspace",
        "days": "so many days (UTC), today among them: 1 to 40",
        "json": "print JSON",
    },
)
def traffic(_: Context, workspace: str, days: int = 7, json: bool = False) -> None:
    """Show bytes and connections of each desktop and name, as the gateway of a locked workspace counted them.

    Sent is what the desktop sent. TLS is counted whole, as it is on the line; TCP's own headers are not. Names below a
    wildcard have 200 rows for each desktop and day; what is more is in `others`.
    """
    from deskyard.access import egress

    counted = egress.traffic(workspace, days)
    show(counted, as_json=json, text=traffic_text(counted))


@command(
    changes=Unnoted.LOOKS,
    help={
        "workspace": "name of the workspace",
        "follow": "go on with each ticket as it changes",
        "json": "print one JSON document per line",
    },
)
def ask(_: Context, workspace: str, follow: bool = False, json: bool = False) -> None:
    """Show what desktops wait to be allowed: tickets of names on egress_ask, and what was answered."""
    from deskyard.access import egress

    for ticket in egress.tickets(workspace, follow):
        print(json_format.dumps(ticket) if json else ticket_text(ticket), flush=True)


@command(
    changes=Changes("egress.decide", "workspace", ("ticket", "for_")),
    help={
        "workspace": "name of the workspace",
        "ticket": "the ticket's id as egress.ask shows it",
        "once": "for one connection, of 15 minutes at most",
        "for": "for a time: 15m, 1h, a day at most",
        "always": "for this desktop, name and port, until a later answer",
        "refuse": "no; closes what an earlier answer opened",
        "reason": "why: needed to refuse, and the desktop reads it then",
        "json": "print JSON",
    },
)
def decide(
    _: Context,
    workspace: str,
    ticket: str,
    once: bool = False,
    for_: str = "",
    always: bool = False,
    refuse: bool = False,
    reason: str = "",
    json: bool = False,
) -> None:
    """Answer a ticket: say one of --once, --for 15m, --always, --refuse --reason WHY.

    The answer is for the desktop, name and port of the ticket. A later answer takes the place of an earlier one.
    """
    from deskyard.access import access, egress

    chosen = [name for name, given in (("once", once), ("for", for_), ("always", always), ("refuse", refuse)) if given]
    if len(chosen) != 1:
        remedy = "say one of --once, --for 15m, --always, --refuse --reason WHY"
        raise ConfigError("answer", " ".join(chosen) or None, "is not one answer", remedy)
    seconds = access.seconds(for_) if for_ else None
    decided = egress.decide(workspace, ticket, chosen[0], seconds, reason)
    show(decided, as_json=json, text=ticket_text(decided))


def ticket_text(ticket: dict[str, Any]) -> str:
    """A ticket as a person reads it, with what to do if it waits."""
    answer, held = ticket["answer"], ticket["held"]
    until = f" until {answer['until']}" if answer and answer["until"] else ""
    by = f" by {answer['actor']}{until}" if answer else ""
    waiting = f"; {held} held until {ticket['held_until']}" if held else ""
    target = f"{ticket['desktop']}  {ticket['name']}:{ticket['port']}"
    return f"{ticket['id']}  {ticket['since']}  {target}  {ticket['state']}{by}{waiting}"


def refusal_text(refusal: dict[str, str]) -> str:
    """A refusal as a person reads it."""
    allowing = f"\n    -> {refusal['allow']}" if refusal["allow"] else ""
    where = f"{refusal['time']}  {refusal['desktop']}  {refusal['target']}"
    return f"{where}  {refusal['rule']}: {refusal['reason']}{allowing}"


def traffic_text(counted: dict[str, Any]) -> str:
    """Traffic as a person reads it: a table with a total."""
    workspace, egress, rows = counted["workspace"], counted["egress"], counted["traffic"]
    lines = []
    if egress != "locked":
        lines.append(f"{workspace}: egress is {egress}; names are counted only where it is locked")
    if rows or egress == "locked":
        lines.append(f"{workspace}: {'bytes' if rows else 'nothing passed'} since {counted['since']} (UTC)")
    return "\n".join([*lines, *(_table(rows) if rows else [])])


def _table(rows: list[dict[str, Any]]) -> list[str]:
    from deskyard.access.egress import COUNTS
    from deskyard.plan.printable import printable

    total = {"desktop": "total", "name": "", **{count: sum(row[count] for row in rows) for count in COUNTS}}
    cells = [
        (printable(row["desktop"]), printable(row["name"]), *(f"{row[count]:,}" for count in COUNTS))
        for row in (*rows, total)
    ]
    cells.insert(0, ("desktop", "name", *COUNTS))
    first, second, *others = (max(map(len, column)) for column in zip(*cells, strict=True))
    return [
        f"  {desktop:{first}}  {name:{second}}  " + "  ".join(f"{n:>{w}}" for n, w in zip(numbers, others, strict=True))
        for desktop, name, *numbers in cells
    ]


def _text(state: dict[str, Any]) -> str:
    if state["egress"] != "locked":
        return f"{state['workspace']}: egress is {state['egress']}, so there is no list"
    lines = [f"{state['workspace']}: locked; {len(state['allowed'])} allowed"]
    for row in state["allowed"]:
        lines.append(f"  {row['entry']:40} {_source(row)}")
    # A gateway of before names could be closed says nothing of them.
    for row in state.get("closed", []):
        why = f", {row['reason']}" if row["reason"] else ""
        lines.append(f"  {row['entry']:40} closed{why} (by {row['actor']}, since {row['since']})")
    if state.get("written"):
        lines.append("the declaration was changed too")
    return "\n".join(lines)


def _source(row: dict[str, Any]) -> str:
    if row["declared"]:
        return "declared"
    ends = "once, " if row["once"] else ""
    return f"{ends}{'until ' + row['until'] if row['until'] else 'until it is forbidden'} (by {row['actor']})"


ns = Collection("egress")
for task_ in (allow, forbid, close, reopen, list_, denied, traffic, ask, decide):
    ns.add_task(task_)
