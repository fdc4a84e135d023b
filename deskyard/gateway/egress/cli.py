"""The commands of `deskyard-gateway` about the way out."""

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from deskyard.errors import GatewayError
from deskyard.gateway.config.in_force import in_force
from deskyard.gateway.machine.layout import Layout
from deskyard.gateway.machine.system import Machine
from deskyard.wire.gateway_settings import Settings

if TYPE_CHECKING:
    from deskyard.gateway.config.egress_grants import Grants

PROOF_LIMIT, LIST_LIMIT = 32 * 1024, 2 * 1024 * 1024
Add = Callable[..., argparse.ArgumentParser]


def add_commands(add: Add) -> None:
    """Put the commands in place."""
    allow = add("allow", _allow, "let the desktops of a locked workspace reach a name")
    allow.add_argument("name", help="docs.example.org, *.example.org, git.example.org:22")
    allow.add_argument("--for", dest="seconds", type=int, help="end by itself after so many seconds")
    allow.add_argument("--once", action="store_true", help="end with the first connection")
    allow.add_argument("--actor", default="root", help="who allows it, as the list shall show it")
    forbid = add("forbid", _forbid, "take a name back that was allowed or declared")
    forbid.add_argument("name", help="the entry as the list shows it")
    for verb, run, what in (
        ("close", _close, "let nobody reach names, whatever the list says; ends all connections of before"),
        ("reopen", _reopen, "take back what was closed for a reason"),
    ):
        change = add(verb, run, what)
        change.add_argument("names", nargs="+", metavar="NAME", help="api.example.org, *.example.org")
        change.add_argument("--reason", default="", help="why; what was closed for it is reopened with it")
        change.add_argument("--actor", default="root", help="who closes it, as the list shall show it")
    add("egress", _list, "show what the desktops may reach")
    denied = add("denied", _denied, "show what was refused, oldest first")
    denied.add_argument("--follow", action="store_true", help="go on with each refusal as it happens")
    denied.add_argument("--json", action="store_true", help="print one JSON document per line")
    traffic = add("traffic", _traffic, "show what passed the way out of a locked workspace, by day, desktop and name")
    traffic.add_argument("--since", metavar="DAY", default="", help="from this day on (UTC): 2026-01-31")
    add("watch", _watch, "write down refusals and traffic, and end what was allowed for a time (its unit does)")
    asks = add("asks", _asks, "show what desktops wait to be allowed, oldest first")
    asks.add_argument("--follow", action="store_true", help="go on with each ticket as it changes")
    asks.add_argument("--json", action="store_true", help="print one JSON document per line")
    decide = add("decide", _decide, "answer a ticket; a later answer takes the place of an earlier one")
    decide.add_argument("ticket", help="the ticket's id as asks shows it")
    answer = decide.add_mutually_exclusive_group(required=True)
    answer.add_argument("--once", dest="verdict", action="store_const", const="once", help="for one connection")
    answer.add_argument("--for", dest="seconds", type=int, help="for so many seconds")
    answer.add_argument("--always", dest="verdict", action="store_const", const="always", help="for this desktop, on")
    answer.add_argument(
        "--refuse", dest="verdict", action="store_const", const="refuse", help="close what is open, too"
    )
    decide.add_argument("--reason", default="", help="why; the desktop reads it when it is refused")
    decide.add_argument("--actor", default="root", help="who decides, as the audit shall show it")
    signed = add("decide-signed", _decide_signed, "answer a ticket by what people signed, on standard input")
    signed.add_argument("ticket", help="the ticket's id as asks shows it")
    signed.add_argument("answer", help="once, 15m or always, as it was signed")
    signed.add_argument("--reason", default="", help="why, for the audit")
    add("deciders", _deciders, "put the list of who may answer tickets, on standard input, into force")
    add("ask", _ask, "hold connections that wait for a person (its unit does)")
    add("egress-reload", _reload, "let the router of a locked workspace read its list again (its unit does)")


def _allow(options: argparse.Namespace, layout: Layout) -> Any:
    from deskyard.gateway.config import egress_grants

    grant = egress_grants.grant(options.name, options.seconds, options.once, options.actor)
    return _change(lambda settings, grants: grants.allowing(grant), layout)


def _forbid(options: argparse.Namespace, layout: Layout) -> Any:
    from deskyard.gateway.config import egress_grants

    egress_grants.check(options.name)

    def forbid(settings: Settings, grants: "Grants") -> "Grants":
        allowed = grants.effective(settings).egress_rules.allow
        if options.name not in allowed:
            remedy = f"choose one of: {', '.join(allowed) or 'none is allowed'}"
            raise GatewayError("name", options.name, "is not on the list", remedy)
        return grants.forbidding(options.name, settings.egress_rules.allow)

    return _change(forbid, layout)


def _close(options: argparse.Namespace, layout: Layout) -> Any:
    from deskyard.gateway.config import egress_grants
    from deskyard.gateway.egress import router

    for name in options.names:
        egress_grants.check_closable(name)
    state = _change(lambda settings, grants: grants.closing(options.names, options.reason, options.actor), layout)
    # Also if all were closed before: whoever closed them may not have come as far.
    router.end_old_workers(layout)
    return state


def _reopen(options: argparse.Namespace, layout: Layout) -> Any:
    return _change(lambda settings, grants: grants.reopening(options.names, options.reason), layout)


def _change(edit: Callable[[Settings, "Grants"], "Grants"], layout: Layout) -> dict[str, Any]:
    """Change the list of a locked workspace; the list as it is then."""
    from deskyard.gateway.config.apply import change_list

    def of_locked(settings: Settings, grants: "Grants") -> "Grants":
        if settings.egress != "locked":
            reason = f"is {settings.egress}, so there is no list"
            raise GatewayError(
                "egress", settings.workspace, reason, "declare egress: locked and bring the workspace up"
            )
        return edit(settings, grants)

    change_list(of_locked, layout, Machine())
    return _state(in_force(layout), layout)


def _list(options: argparse.Namespace, layout: Layout) -> Any:
    return _state(in_force(layout), layout)


def _denied(options: argparse.Namespace, layout: Layout) -> None:
    from deskyard.gateway.egress import refusals

    lines = refusals.follow if options.follow else refusals.read
    for line in lines(layout.refusals_file):
        print(line if options.json else as_text(json.loads(line)), flush=True)


def _traffic(options: argparse.Namespace, layout: Layout) -> Any:
    from deskyard.gateway.egress import traffic

    if options.since and not _is_day(options.since):
        raise GatewayError("since", options.since, "is no day", "write it as 2026-01-31")
    settings = in_force(layout)
    return {
        "workspace": settings.workspace,
        "egress": settings.egress,
        "kept_days": traffic.KEPT_DAYS,
        "traffic": traffic.read(layout.traffic_file, options.since),
    }


def _is_day(text: str) -> bool:
    with contextlib.suppress(ValueError):
        return time.strftime("%Y-%m-%d", time.strptime(text, "%Y-%m-%d")) == text
    return False


def as_text(refusal: dict[str, str]) -> str:
    """A refusal as a person reads it."""
    allow = f"  -> {refusal['allow']}" if refusal["allow"] else ""
    return (
        f"{refusal['time']}  {refusal['desktop']}  {refusal['target']}  {refusal['rule']}: {refusal['reason']}{allow}"
    )


def _watch(options: argparse.Namespace, layout: Layout) -> None:
    from deskyard.gateway.egress.watch import Watcher

    Watcher(layout, Machine()).run()


def _reload(options: argparse.Namespace, layout: Layout) -> None:
    from deskyard.gateway.egress import router

    router.reload(layout)


def _asks(options: argparse.Namespace, layout: Layout) -> None:
    from deskyard.gateway.egress.ask import line

    follow = options.follow
    tickets = line.follow(layout.ask_socket) if follow else line.ask(layout.ask_socket, {"command": "list"})
    for ticket in tickets:
        print(json.dumps(ticket) if options.json else ticket_as_text(ticket), flush=True)


def ticket_as_text(ticket: dict[str, Any]) -> str:
    """A ticket as a person reads it."""
    answer = ticket["answer"] or {}
    by = f" by {answer['actor']}" if answer else ""
    until = f" until {answer['until']}" if answer.get("until") else ""
    held = f", {ticket['held']} held until {ticket['held_until']}" if ticket["held"] else ""
    target = f"{ticket['name']}:{ticket['port']}"
    return f"{ticket['id']}  {ticket['since']}  {ticket['desktop']}  {target}  {ticket['state']}{by}{until}{held}"


def _decide(options: argparse.Namespace, layout: Layout) -> Any:
    from deskyard.gateway.egress.ask import decision

    verdict = options.verdict or "for"
    return decision.decide(layout, options.ticket, verdict, options.seconds, options.actor, options.reason)


def _decide_signed(options: argparse.Namespace, layout: Layout) -> Any:
    from deskyard.gateway.egress.ask import decision

    return decision.decide_signed(layout, options.ticket, options.answer, sys.stdin.read(PROOF_LIMIT), options.reason)


def _deciders(options: argparse.Namespace, layout: Layout) -> Any:
    from deskyard.gateway.egress.ask import deciders

    return deciders.replace(layout, sys.stdin.read(LIST_LIMIT))


def _ask(options: argparse.Namespace, layout: Layout) -> None:
    from deskyard.gateway.egress.ask import control

    control.run(layout)


def _state(settings: Settings, layout: Layout) -> dict[str, Any]:
    """The list in force: where each entry comes from, and when it ends."""
    from deskyard.gateway.config import egress_grants

    grants = egress_grants.load(layout)
    granted = {grant.entry: grant for grant in grants.granted}
    allowed: list[dict[str, Any]] = []
    for entry in grants.effective(settings).egress_rules.allow:
        grant = granted.get(entry)
        declared = entry in settings.egress_rules.allow and entry not in grants.withdrawn
        allowed.append(
            {
                "entry": entry,
                "declared": declared,
                "until": None if declared or grant is None or grant.until is None else _moment(grant.until),
                "once": bool(grant and grant.once and not declared),
                "actor": grant.actor if grant else None,
            }
        )
    closed = [
        {"entry": closing.entry, "reason": closing.reason, "actor": closing.actor, "since": _moment(closing.since)}
        for closing in grants.closed
    ]
    return {"workspace": settings.workspace, "egress": settings.egress, "allowed": allowed, "closed": closed}


def _moment(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
