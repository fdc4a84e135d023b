"""Egress of a workspace's desktops: shows and changes what they may reach, and shows what was refused."""

import json
import subprocess
from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from deskyard.access import gateway_program
from deskyard.declaration import declaration
from deskyard.declaration.allow_list import declare, undeclare
from deskyard.errors import ConfigError, SiteError
from deskyard.model.egress import normal_entry
from deskyard.site.ssh_link import GATEWAY

COUNTS = ("sent", "received", "connections")
# Of what holds connections, below the root of the gateway's file system.
ASK_SOCKET = "run/deskyard-ask/control.sock"
MOST_DAYS = 40  # as many as a gateway keeps


def allow(name: str, entry: str, seconds: int | None, once: bool, always: bool, actor: str = "") -> dict[str, Any]:
    """Let the desktops of workspace `name` reach `entry`; `always` also writes it into the declaration.

    It is allowed in the name of who runs this, unless `actor` says for whom.
    """
    entry = normal(entry)
    link = gateway_program.require(name)
    if always and (once or seconds is not None):
        raise ConfigError("egress.allow", entry, "cannot end and stay", "leave out --always, or --once and --for")
    bound = ["--for", str(seconds)] if seconds is not None else []
    arguments = ["allow", entry, *bound, *(["--once"] if once else []), "--actor", actor or gateway_program.actor()]
    state: dict[str, Any] = gateway_program.ask(link, arguments, seconds=gateway_program.CHANGE_SECONDS)
    state["written"] = declare(declaration.stack_file(name), entry) if always else False
    return state


def forbid(name: str, entry: str) -> dict[str, Any]:
    """Take an entry back, from the gateway and from the declaration."""
    entry = normal(entry)
    state: dict[str, Any] = gateway_program.ask(
        gateway_program.require(name), ["forbid", entry], seconds=gateway_program.CHANGE_SECONDS
    )
    state["written"] = undeclare(declaration.stack_file(name), entry)
    return state


def close(name: str, entries: Iterable[str], reason: str = "", actor: str = "") -> dict[str, Any]:
    """Let nobody in workspace `name` reach entries, whatever the list says, until they are reopened for the reason.

    All connections of before end: of one that is open the gateway cannot tell the name.
    """
    return _closing(name, "close", entries, reason, actor)


def reopen(name: str, entries: Iterable[str], reason: str = "", actor: str = "") -> dict[str, Any]:
    """Take back what was closed for a reason: the list says again what is reached."""
    return _closing(name, "reopen", entries, reason, actor)


def _closing(name: str, command: str, entries: Iterable[str], reason: str, actor: str) -> dict[str, Any]:
    names = [normal(entry) for entry in entries]
    why = [f"--reason={reason}"] if reason else []
    words = [command, *names, *why, "--actor", actor or gateway_program.actor()]
    state: dict[str, Any] = gateway_program.ask_newer(
        gateway_program.require(name), words, "closed names", seconds=gateway_program.CHANGE_SECONDS
    )
    return state


def allowed(name: str) -> dict[str, Any]:
    """The list in force: where each entry comes from, and when it ends."""
    state: dict[str, Any] = gateway_program.ask(gateway_program.require(name), ["egress"])
    return state


def denied(name: str, follow: bool) -> Generator[dict[str, str], None, None]:
    """Read what was refused, oldest first; with `follow` each refusal as it happens, until interrupted."""
    yield from _lines(name, ["denied", "--json", *(["--follow"] if follow else [])], "what it refused")


def traffic(name: str, days: int) -> dict[str, Any]:
    """The traffic between desktops and names in the last `days` days (UTC), today among them, as the gateway counted.

    Sums of each desktop and name, those with the most bytes first.
    """
    if not 1 <= days <= MOST_DAYS:
        raise ConfigError("days", days, "is no number of days that a gateway keeps", f"write 1 to {MOST_DAYS}")
    since = (datetime.now(UTC).date() - timedelta(days=days - 1)).isoformat()
    counted = traffic_by_day(name, since)
    return {"workspace": name, "egress": counted["egress"], "since": since, "traffic": summed(counted["traffic"])}


def traffic_by_day(name: str, since: str) -> dict[str, Any]:
    """The traffic between desktops and names from the day `since` on, of each day (UTC), as the gateway counted."""
    link = gateway_program.require(name)
    counted: dict[str, Any] = gateway_program.ask_newer(link, ["traffic", "--since", since], "counted traffic")
    return counted


def summed(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sums of all days for each desktop and name, those with the most bytes first."""
    sums: dict[tuple[str, str], Counter[str]] = {}
    for row in rows:
        counts = {name: int(row[name]) for name in COUNTS}
        sums.setdefault((str(row["desktop"]), str(row["name"])), Counter()).update(counts)
    ordered = sorted(sums.items(), key=lambda item: (-item[1]["sent"] - item[1]["received"], item[0]))
    return [{"desktop": desktop, "name": name, **counts} for (desktop, name), counts in ordered]


def tickets(name: str, follow: bool) -> Generator[dict[str, Any], None, None]:
    """Read what desktops wait to be allowed, oldest first; with `follow` each ticket as it changes."""
    yield from _lines(name, ["asks", "--json", *(["--follow"] if follow else [])], "what waits for a person")


def waiting(name: str) -> list[dict[str, Any]]:
    """The tickets as they are now, oldest first, asked of what holds connections."""
    link = gateway_program.require(name)
    found: list[dict[str, Any]] = gateway_program.ask_socket(
        link, ASK_SOCKET, {"command": "list"}, lambda: list(tickets(name, follow=False))
    )
    return found


def decide(name: str, ticket: str, verdict: str, seconds: int | None, reason: str, actor: str = "") -> dict[str, Any]:
    """Answer a ticket, in the name of who runs this unless `actor` says for whom; the ticket as it is then."""
    answer = ["--for", str(seconds)] if verdict == "for" else [f"--{verdict}"]
    # One word each: sshd hands the line to a shell, and SshLink quotes it.
    arguments = ["decide", ticket, *answer, "--actor", actor or gateway_program.actor()]
    decided: dict[str, Any] = gateway_program.ask(
        gateway_program.require(name), [*arguments, *([f"--reason={reason}"] if reason else [])]
    )
    return decided


def decide_signed(name: str, ticket: str, answer: str, proofs: list[Any], reason: str) -> dict[str, Any]:
    """Answer a ticket by what people signed (`once`, `15m`, `always`), which the gateway verifies by its own list.

    Raises `TooOld` for a gateway that verifies nothing.
    """
    link = gateway_program.require(name)
    words = ["decide-signed", ticket, answer, *([f"--reason={reason}"] if reason else [])]
    decided: dict[str, Any] = gateway_program.ask_newer(link, words, "verified answers", json.dumps(proofs))
    return decided


def bring_deciders(name: str, deciders: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Tell a gateway who may answer its tickets, and by which passkeys, within so many seconds; what changed there."""
    text = json.dumps(deciders, sort_keys=True)
    link = gateway_program.require(name)
    brought = gateway_program.ask_newer(link, ["deciders"], "verified answers", text, seconds)
    if not isinstance(brought, dict) or not isinstance(brought.get("changed"), bool):
        raise gateway_program.rubbish(name)
    return brought


def _lines(name: str, arguments: list[str], what: str) -> Generator[dict[str, Any], None, None]:
    """Documents that the gateway's program writes, a line each, for as long as they are wanted."""
    link = gateway_program.require(name)
    remote = ["sudo", "deskyard-gateway", *arguments]
    with subprocess.Popen(link.command(GATEWAY, remote), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                yield json.loads(line)
        except BaseException:  # whoever reads stops: so does the connection, which would follow for ever
            process.terminate()
            raise
    if process.returncode != 0:
        reason = f"the gateway did not say {what} ({process.returncode})"
        raise SiteError("gateway", name, reason, f"see ./inv workspace.status {name}")


def normal(entry: str) -> str:
    """An entry in its one form; raises `ConfigError` saying what is wrong with it."""
    try:
        return normal_entry(entry)
    except ValueError as error:
        reason, _, remedy = str(error).partition(" -> ")
        raise ConfigError("name", entry, reason, remedy) from error
