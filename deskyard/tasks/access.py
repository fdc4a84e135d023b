"""access.*: who may reach which desktop."""

from datetime import UTC, datetime
from itertools import chain
from json import dumps
from typing import Any

from invoke import Collection, Context, Exit

from deskyard.tasks.front import Changes, Unnoted, command, show
from deskyard.wire.computer import SCOPES
from deskyard.wire.routes import ROUTES
from deskyard.wire.session_requests import DEFAULT_MODE, DEFAULT_TTL


@command(
    changes=Changes("access.grant", "target", ("routes", "mode", "scopes", "ttl")),
    help={
        "target": "WORKSPACE/DESKTOP",
        "routes": f"comma-separated: {', '.join(ROUTES)} (default: all that the mode allows)",
        "mode": "drive, view to watch only, or agent for a program",
        "scopes": f"of mode agent, comma-separated: {', '.join(SCOPES)} (default: all)",
        "ttl": "life of the session: 30m, 8h, 2d",
        "json": "print JSON",
    },
)
def grant(
    _: Context,
    target: str,
    routes: str = "",
    mode: str = DEFAULT_MODE,
    scopes: str = "",
    ttl: str = DEFAULT_TTL,
    json: bool = False,
) -> None:
    """Print a link to a desktop. It works once and soon expires: hand it over as a secret.

    A link of mode agent is for a program: it opens no page, but the desktop's computer-use service.
    """
    from deskyard.access import access
    from deskyard.life.idle import idle

    idle.wake(target)
    granted = access.grant(target, routes or None, mode, ttl, scopes or None)
    show(granted, as_json=json, text=granted["url"])


@command(changes=Unnoted.LOOKS, name="list", help={"workspace": "name of the workspace", "json": "print JSON"})
def list_(_: Context, workspace: str, json: bool = False) -> None:
    """Show the sessions of a workspace."""
    from deskyard.access import access

    found = access.sessions(workspace)
    show(found, as_json=json, text="\n".join(map(_session_line, found)) or "no sessions")


def _session_line(session: dict[str, Any]) -> str:
    """Who, what, since when, from where, and what he does."""
    words = [
        session["id"],
        session["actor"],
        session["desktop"],
        ",".join(session["routes"]),
        session["mode"],
        session["state"],
    ]
    if session["redeemed"]:
        words.append(f"since {_clock(session['redeemed'])} from {session['address']}")
    if session["does"]:
        words.append(f"{session['does']}, idle {session['idle']} s")
    # Gateways of before know of no wish.
    if session.get("wanted") is not None:
        words.append("wants it started")
    return "  ".join(words)


def _clock(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M UTC")


@command(
    changes=Changes("access.revoke", "workspace", ("session", "desktop")),
    help={
        "workspace": "name of the workspace",
        "session": "id of one session",
        "desktop": "all sessions of this desktop",
        "all": "all sessions of the workspace",
        "json": "print JSON",
    },
)
def revoke(
    _: Context, workspace: str, session: str = "", desktop: str = "", all: bool = False, json: bool = False
) -> None:
    """End sessions; their live connections are closed."""
    from deskyard.access import access

    ended = access.revoke(workspace, session=session or None, desktop=desktop or None, everything=all)
    show(ended, as_json=json, text=f"revoked: {len(ended)}")


@command(
    changes=Changes("access.rotate-keys", "workspace"),
    name="rotate-keys",
    help={
        "workspace": "name of the workspace",
        "at_once": "the old key is known to others: void its cookies now; whoever is in needs a new link",
        "json": "print JSON",
    },
)
def rotate_keys(_: Context, workspace: str, at_once: bool = False, json: bool = False) -> None:
    """Sign sessions with a new key. Open desktops stay open."""
    from deskyard.access import access

    done = access.rotate_keys(workspace, at_once=at_once)
    until = "" if at_once else f"; the old one is accepted until {_clock(done['old_until'])}"
    show(done, as_json=json, text=f"signs with {done['signs']}{until}")


@command(
    changes=Unnoted.LOOKS,
    help={
        "workspace": "name of the workspace",
        "verify": "check that no line was changed, deleted or put in since it was written",
        "known": "with --verify: NUMBER:HASH of a line that was collected before",
        "actions": "what programs did on desktops, instead of what was decided",
        "desktop": "only what is about this desktop",
        "session": "only what is about the session with this id",
        "since": "only events after this number",
        "last": "only so many, the newest (default: 100)",
        "follow": "go on with what happens, until interrupted",
        "json": "print JSON (one document, or with --follow one line for each event)",
    },
)
def audit(
    _: Context,
    workspace: str,
    verify: bool = False,
    known: str = "",
    since: int = 0,
    last: int = 100,
    follow: bool = False,
    actions: bool = False,
    desktop: str = "",
    session: str = "",
    json: bool = False,
) -> None:
    """Show what was decided at the door: grants, redemptions, refusals, drivers, revocations.

    With --actions, what programs did on desktops: what the gateway saw, and after it what the desktop claims.
    """
    from deskyard.access import access

    if verify or known:
        checked = access.verify_audit(workspace, known or None)
        text = [f"{problem['file']} line {problem['line']}: {problem['problem']}" for problem in checked["problems"]]
        whole = f"whole: lines {checked['first']} to {checked['last']}, the last has the hash {checked['hash']}"
        if found := checked.get("actions"):
            whole += f"\nwhole: actions {found['first']} to {found['last']}, the last has the hash {found['hash']}"
        show(checked, as_json=json, text="\n".join(text) or whole)
        if not checked["ok"]:
            raise Exit(code=1)
        return
    chosen = access.Chosen(actions, desktop, session)
    found = access.audit(workspace, since=since, last=last, chosen=chosen)
    if not follow:
        show(found, as_json=json, text="\n".join(map(_event_line, found)) or "no events")
        return
    start = found[-1]["seq"] if found else since
    for event in chain(found, access.follow_audit(workspace, start, chosen=chosen)):
        print(dumps(event) if json else _event_line(event), flush=True)


def _event_line(event: dict[str, Any]) -> str:
    """Write an event as a person reads it."""
    skipped = ("seq", "time", "event", "prev", "hash", "claimed")
    facts = "  ".join(f"{name}={_word(value)}" for name, value in event.items() if name not in skipped and value)
    return f"{event['seq']}  {event['time']}  {event['event']}  {facts}{_claims(event.get('claimed'))}"


def _claims(claimed: Any) -> str:
    """The actions that a desktop claims, on lines of their own: nobody but the desktop knows."""
    if not isinstance(claimed, dict):
        return f"\n    claimed: {claimed}" if claimed else ""
    actions = [" ".join(f"{name}={_word(value)}" for name, value in action.items()) for action in claimed["actions"]]
    rest = " ".join(f"{name}={value}" for name, value in claimed.items() if name != "actions")
    return "".join(f"\n    claimed: {text}" for text in [*actions, rest] if text)


def _word(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


ns = Collection("access")
for task_ in (grant, list_, revoke, rotate_keys, audit):
    ns.add_task(task_)
