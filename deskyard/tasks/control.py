"""control.*: Mission Control, in which people and programs drive all desktops of a site."""

import functools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from invoke import Collection, Context, Exit

from deskyard.errors import ConfigError
from deskyard.tasks.front import Changes, Unnoted, command, confirm, secret, show


@command(
    changes=Changes("control.up", shown=("site", "webhook_networks")),
    help={
        "site": "the site whose desktops it drives (default: this machine)",
        "port": "TCP port of its pages and its API (default: 9443)",
        "webhook-networks": "comma-separated networks in which webhooks may be, beside public addresses; none: - "
        "(default: as before)",
        "yes": "install missing system packages without asking (done by ./inv itself)",
        "json": "print JSON",
    },
)
def up(
    _: Context,
    site: str = "local",
    port: int = 9443,
    webhook_networks: str = "",
    yes: bool = False,
    json: bool = False,
) -> None:
    """Bring Mission Control up: database, pages, API; prints a link that enrols the first person's passkey.

    DESKYARD_DATABASE=postgresql://ADMINISTRATOR@HOST:PORT/mission?sslrootcert=FILE uses a PostgreSQL that is elsewhere.
    """
    from deskyard.control.control import Control
    from deskyard.host.progress import Timings

    timings = Timings()
    networks = [part for part in webhook_networks.split(",") if part and part != "-"] if webhook_networks else None
    state = Control(password=_administrator).up(site, port, timings, networks)
    show({**state, "seconds": timings.steps}, as_json=json, text=_text(state))


@command(changes=Changes("control.down"))
def down(_: Context) -> None:
    """End Mission Control's processes; what it knows stays, and desktops run on."""
    from deskyard.control.control import Control

    Control().down()


@command(changes=Unnoted.LOOKS, help={"json": "print JSON"})
def status(_: Context, json: bool = False) -> None:
    """Say whether Mission Control runs, and each of its processes; exit code 1 if it is not ready."""
    from deskyard.control.ground.folder import Folder
    from deskyard.control.state import state

    found = state(Folder())
    show(found, as_json=json, text=_text(found))
    if not found["ready"]:
        raise Exit(code=1)


@command(
    changes=Unnoted.AUDITED,
    positional=["target"],
    help={"target": "a file that is not there yet, or a folder", "json": "print JSON"},
)
def backup(_: Context, target: str, json: bool = False) -> None:
    """Write all that Mission Control knows to one file, while it runs; keep it as safe as a key."""
    from deskyard.control.control import Control

    made = Control().backup(Path(target))
    show(made, as_json=json, text=f"{made['file']}  {made['bytes']} bytes, made {made['made_at']}")


@command(
    changes=Changes("control.restore", shown=("file",)),
    positional=["file"],
    help={
        "file": "a backup of control.backup",
        "dry-run": "only say what it holds",
        "yes": "do not ask",
        "json": "print JSON",
    },
)
def restore(_: Context, file: str, dry_run: bool = False, yes: bool = False, json: bool = False) -> None:
    """Bring a backup in where Mission Control was never up; desktops are not touched."""
    from deskyard.control.control import Control

    control, path = Control(password=_administrator), Path(file)
    found = control.restore(path, dry_run=True)
    if not dry_run:
        if not yes:
            question = f"{_held(found)}\nType the file's name ({path.name}) to restore it: "
            confirm("control.restore", file, path.name, question, f"add --yes: ./inv control.restore {file} --yes")
        found = control.restore(path, dry_run=False)
    text = "restored; ./inv control.up brings it up" if found["restored"] else "a dry run: nothing was changed"
    show(found, as_json=json, text=f"{_held(found)}\n{text}")


@command(changes=Unnoted.LOOKS, help={"json": "print JSON"})
def audit(_: Context, json: bool = False) -> None:
    """Check Mission Control's audit by its hashes, and by what gateways hold of it; exit code 1 if anything differs."""
    from deskyard.control.control import Control

    found = Control().audit()
    show(found, as_json=json, text=_proof(found))
    if not found["ok"]:
        raise Exit(code=1)


@command(changes=Changes("control.upgrade"), help={"json": "print JSON"})
def upgrade(_: Context, json: bool = False) -> None:
    """Bring a Mission Control that was up to this tree; before its tables change, a backup is made."""
    from deskyard.control.control import Control
    from deskyard.host.progress import Timings

    timings = Timings()
    state = Control(password=_administrator).upgrade(timings)
    show({**state, "seconds": timings.steps}, as_json=json, text=_text(state))


@command(
    changes=Unnoted.AUDITED,
    positional=["name"],
    help={
        "name": "the person's name",
        "role": "viewer (sees), operator (drives and destroys), admin (keys, people, audit, too); default: as before, "
        "a new person: operator",
        "workspaces": "comma-separated: the only ones that the person sees (default: all)",
        "mail": "the declared provider's account with this verified mail is this person's, from its first sign-in on",
        "gives": "of an admin, up to whom they give by the web: viewer (viewers, and keys that neither destroy nor "
        "decide, for 30 days), or operator (operators, too, and all keys but an admin's, for a year); default: as "
        "before, a new admin: viewer",
        "passkeys": "say which passkeys the person has; nothing is changed",
        "passkey": "with --remove: the id of one of the person's passkeys, which alone ends",
        "remove": "let the person in no more",
        "yes": "do not ask before a person, or the last passkey of one, is removed",
        "json": "print JSON",
    },
)
def person(
    _: Context,
    name: str,
    role: str = "",
    workspaces: str = "",
    mail: str = "",
    gives: str = "",
    passkeys: bool = False,
    passkey: str = "",
    remove: bool = False,
    yes: bool = False,
    json: bool = False,
) -> None:
    """Add a person, or give one another link to enrol a passkey; the link works once, for half an hour."""
    from deskyard.control.control import Control

    given = {"--role": role, "--workspaces": workspaces, "--mail": mail, "--gives": gives}
    if passkey and not remove:
        raise ConfigError("--passkey", passkey, "says which one is to end", "add --remove, or leave it out")
    if passkeys:
        _require_none({"--remove": "yes" if remove else "", "--passkey": passkey, **given}, "--passkeys, which lists")
    if remove:
        _require_none(given, "--remove")
    if passkeys:
        found = Control().passkeys(name)
        lines = [f"{each['id']}  {each['created_at']}  {each['name']}" for each in found]
        show(found, as_json=json, text="\n".join(lines) or f"{name} has no passkey")
        return
    if passkey:
        if not yes and [each["id"] for each in Control().passkeys(name)] == [passkey]:
            question = f"It is the last passkey of {name}. Type the name to go on: "
            again = f"./inv control.person {name} --remove --passkey {passkey} --yes"
            confirm("control.person", name, name, question, f"add --yes: {again}")
        ended = Control().remove_passkey(name, passkey)
        show(ended, as_json=json, text=f"{name}: {passkey} ended, with the sessions that it began")
        return
    if remove:
        if not yes:
            question = f"{name} can sign in no more, and all sessions end. Type the name to go on: "
            confirm("control.person", name, name, question, f"add --yes: ./inv control.person {name} --remove --yes")
        done = Control().remove_person(name)
        show(done, as_json=json, text=f"{name}: removed")
        return
    made = Control().person(name, role or None, _list(workspaces) or None, mail or None, gives or None)
    within = f"once, within {made['seconds'] // 60} minutes"
    text = f"{name} ({made['role']}) enrols a passkey here, {within}:\n\n  {made['link']}"
    show(made, as_json=json, text=text)


def _require_none(given: Mapping[str, str], beside: str) -> None:
    """Raise `ConfigError` for an option that says something else than the one that it stands beside."""
    for option, value in given.items():
        if value:
            raise ConfigError(option, value, f"has no part in {beside}", "leave one of the two out")


@command(
    changes=Unnoted.AUDITED,
    positional=["name"],
    help={
        "name": "what the key is for",
        "scopes": "comma-separated: read, desktops:write, desktops:destroy, chat, approvals:read, approvals:decide, "
        "admin (default: read)",
        "workspaces": "comma-separated: the only ones that it sees (default: all)",
        "days": "how long it is valid (default: 90)",
        "json": "print JSON",
    },
)
def key(_: Context, name: str, scopes: str = "read", workspaces: str = "", days: int = 90, json: bool = False) -> None:
    """Make an API key and print it, once: Mission Control keeps only hashes of it."""
    from deskyard.control.control import Control

    made = Control().key(name, _list(scopes), _list(workspaces) or None, days)
    show(made, as_json=json, text=made["key"])


@command(
    changes=Unnoted.AUDITED,
    help={
        "issuer": "the provider's issuer, exactly as its discovery document has it; none: say what is declared",
        "client": "Mission Control's client id there; its secret is asked for, or read from standard input",
        "public": "the client has no secret",
        "name": "what the button says (default: the issuer's host)",
        "scopes": "comma-separated (default: openid,email)",
        "groups-claim": "the claim that holds a person's groups (default: groups)",
        "rules": "comma-separated KIND:VALUE=ROLE or KIND:VALUE=ROLE@WS+WS, the first that fits counts; KIND: domain "
        "(of a verified mail) or group (default: nobody becomes anybody by a rule)",
        "recheck": "minutes until the provider is asked again about who signed in by it (default: 60)",
        "authority": "file with the certificates to trust (PEM) in place of this machine's",
        "remove": "let nobody sign in by it any more",
        "yes": "do not ask before it is removed",
        "json": "print JSON",
    },
)
def oidc(
    _: Context,
    issuer: str = "",
    client: str = "",
    public: bool = False,
    name: str = "",
    scopes: str = "openid,email",
    groups_claim: str = "groups",
    rules: str = "",
    recheck: int = 60,
    authority: str = "",
    remove: bool = False,
    yes: bool = False,
    json: bool = False,
) -> None:
    """Let people sign in by an OpenID provider, too; Mission Control begins anew for it, and desktops run on."""
    from deskyard.control.control import Control
    from deskyard.control.identity.declared import Declared, Rule

    if remove:
        if not yes:
            question = "Who signed in by the provider is signed out. Type oidc to go on: "
            confirm("control.oidc", "", "oidc", question, "add --yes: ./inv control.oidc --remove --yes")
        removed = Control().withdraw()
        show({"removed": removed}, as_json=json, text="removed" if removed else "none was declared")
        return
    if not issuer:
        found = Control().declared()
        show({"declared": found}, as_json=json, text=_declared(found) if found else "no provider is declared")
        return
    wanted = Declared(
        issuer,
        client,
        "",
        name,
        tuple(_list(scopes)),
        groups_claim,
        tuple(map(Rule.parsed, _list(rules))),
        recheck * 60.0,
        _certificates(authority),
    ).checked()
    made = Control().declare(replace(wanted, secret="" if public else _secret()))
    show({"declared": made}, as_json=json, text=_declared(made))


@command(
    changes=Unnoted.AUDITED,
    help={
        "server": "the server that takes mail, such as smtp.example.org; none: say what is declared",
        "sender": "the address that alerts come from",
        "user": "the account there; its password is asked for, or read from standard input (default: no account)",
        "tls": "starttls, implicit, or none, which is for a server on this machine alone",
        "port": "default: 587 with starttls, 465 with implicit, 25 with none",
        "authority": "file with the certificates to trust (PEM) in place of this machine's",
        "remove": "mail nobody any more",
        "yes": "do not ask before it is removed",
        "json": "print JSON",
    },
)
def mail(
    _: Context,
    server: str = "",
    sender: str = "",
    user: str = "",
    tls: str = "starttls",
    port: int = 0,
    authority: str = "",
    remove: bool = False,
    yes: bool = False,
    json: bool = False,
) -> None:
    """Mail alerts to who wants them, by a server that lets us in; then tell the page Alerts whom: mailto:ADDRESS."""
    from deskyard.control.control import Control
    from deskyard.control.watch.mail import MailServer

    if remove:
        if not yes:
            question = "Whoever is mailed is told nothing any more. Type mail to go on: "
            confirm("control.mail", "", "mail", question, "add --yes: ./inv control.mail --remove --yes")
        removed = Control().withdraw_mail()
        show({"removed": removed}, as_json=json, text="removed" if removed else "none was declared")
        return
    if not server:
        found = Control().mail_server()
        show({"mail": found}, as_json=json, text=_mail(found) if found else "no mail server is declared")
        return
    wanted = MailServer(server, sender, user, "", tls, port, _certificates(authority)).checked()
    password = secret("The password of the mail account: ") if user else ""
    made = Control().declare_mail(replace(wanted, password=password))
    show({"mail": made}, as_json=json, text=_mail(made))


@functools.cache
def _administrator() -> str:
    """The password of the administrator of a database elsewhere, asked for once, where it is needed at all."""
    return secret("The password of the database's administrator: ")


def _secret() -> str:
    found = secret("The client's secret: ")
    if not found:
        raise ConfigError("secret", None, "is empty", "give it on standard input, or add --public")
    return found


def _certificates(authority: str) -> str:
    try:
        return Path(authority).read_text() if authority else ""
    except OSError as error:
        raise ConfigError("--authority", authority, f"cannot be read: {error.strerror}", "name a PEM file") from error


def _declared(found: dict[str, Any]) -> str:
    rules = "\n".join(f"  {rule}" for rule in found["rules"]) or "  no rule: persons are made by control.person alone"
    asked = f"who signed in is asked for again within {found['recheck_seconds'] / 60:g} minutes"
    return f"People sign in by {found['issuer']} as its client {found['client']}; {asked}\n{rules}"


def _mail(found: dict[str, Any]) -> str:
    account = f" as {found['user']}" if found["user"] else ""
    return f"Alerts are mailed from {found['sender']} by {found['host']}:{found['port']} ({found['tls']}){account}"


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _proof(found: dict[str, Any]) -> str:
    word = found["problem"] or "whole by its own hashes"
    lines = [f"{found['entries']} lines: {word}"]
    if found["proved"]:
        lines.append(f"gateways prove it up to line {found['proved']}")
    if (first := found["unproved"]) is not None:
        lines.append(f"no gateway proves line {first['line']} of {first['at']} and what comes after it")
    for gateway in found["gateways"]:
        reason = f": {gateway['reason']}" if gateway["reason"] else ""
        holds = (
            f" ({gateway['anchors']} anchors, the last right one of line {gateway['last']})" if gateway["last"] else ""
        )
        lines.append(f"  {gateway['workspace']}  {gateway['state']}{reason}{holds}")
        lines += [f"    its own audit began anew: line {new['line']} of {new['at']}" for new in gateway["anew"]]
        for line in gateway["differences"]:
            lines.append(f"    line {line['line']}: here {line['chain'] or 'missing'}")
            lines.append(f"    anchored {line['at']}: {line['anchored']}")
            lines.append(f"    {line['means']}")
    return "\n".join(lines)


def _held(found: dict[str, Any]) -> str:
    holds = ", ".join(f"{count} {table}" for table, count in found["holds"].items())
    return f"made {found['made_at']}, tables of version {found['schema']}: {holds}"


def _text(state: dict[str, Any]) -> str:
    word = "ready" if state["ready"] else "running, not ready" if state["running"] else "not running"
    lines = [f"Mission Control  {state['url'] or '-'}  {word}"]
    if state["database"]:
        lines.append(f"  the database is elsewhere: {state['database']}")
    if state["e2b_domain"] and not state["e2b_fault"]:
        lines.append(f"  E2B's clients are answered: E2B_DOMAIN={state['e2b_domain']}")
    lines += [f"  {name}  {'runs' if runs else 'DOES NOT RUN'}" for name, runs in state["processes"].items()]
    if state["e2b_fault"]:
        lines.append(f"  e2b {state['e2b_fault']}")
    if state.get("link"):
        lines += [
            "",
            "The first person enrols a passkey here, once, within half an hour:",
            "",
            f"  {state['link']}",
            "",
        ]
        lines.append(f"The browser has to trust {state['certificate_authority']} as an authority.")
    return "\n".join(lines)


ns = Collection("control")
for task in (up, down, status, backup, restore, audit, upgrade, person, oidc, mail, key):
    ns.add_task(task)
