"""Grants, lists and revokes access to desktops: asks the gateway's session service over SSH."""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deskyard.access import gateway_program
from deskyard.errors import ConfigError, SiteError
from deskyard.model import duration
from deskyard.wire import session_requests
from deskyard.wire.session_requests import DEFAULT_MODE, DEFAULT_TTL
from deskyard.wire.stages import Stage

STAGES_SECONDS = 15.0
FOLLOW_SECONDS = 2.0
FOLLOW_AT_ONCE = 1000


def grant(
    target: str,
    routes: str | None = None,
    mode: str = DEFAULT_MODE,
    ttl: str = DEFAULT_TTL,
    scopes: str | None = None,
    actor: str = "",
) -> dict[str, Any]:
    """Make a link to WORKSPACE/DESKTOP, for who runs this unless `actor` says for whom.

    The answer holds a secret: the link's ticket.
    """
    name, _, desktop = target.partition("/")
    if not desktop:
        raise ConfigError("desktop", target, "names no desktop", "write WORKSPACE/DESKTOP")
    link = gateway_program.require(name)
    life, who = seconds(ttl), actor or gateway_program.actor()
    arguments = ["grant", "--desktop", desktop, "--mode", mode, "--ttl", str(life), "--actor", who]
    if routes is not None:
        arguments += ["--routes", routes]
    if scopes is not None:
        arguments += ["--scopes", scopes]
    listed = session_requests.listed
    request = session_requests.grant(desktop, listed(routes), mode, life, who, listed(scopes))
    answer: dict[str, Any] = gateway_program.ask_service(link, request, arguments)
    return answer


def sessions(name: str) -> Any:
    """The sessions of a workspace that live or ended within a day, without their secrets; the audit has all."""
    return gateway_program.ask_service(gateway_program.require(name), session_requests.listing(), ["list"])


def agent(name: str, action: str, desktop: str, actor: str = "") -> list[dict[str, Any]]:
    """Have the gateway `stop` a desktop's agent or let it `go` on; all that are stopped then."""
    who = actor or gateway_program.actor()
    request = session_requests.agent(action, desktop, who)
    arguments = ["agent", action, "--desktop", desktop, "--actor", who]
    stopped: list[dict[str, Any]] = gateway_program.ask_service(gateway_program.require(name), request, arguments)
    return stopped


def tell_waking(name: str, desktop: str, state: str) -> None:
    """Tell the pages that wait for a desktop what came of that; of a gateway from before they hear nothing."""
    link, request = gateway_program.require(name), session_requests.waking(desktop, state)
    gateway_program.ask_socket(link, session_requests.SOCKET, request, lambda: None)


def tell_stages(name: str, stages: Mapping[str, tuple[Stage, float]]) -> None:
    """Tell the pages that wait for desktops where their host has them, and since when; nobody waits long for that."""
    link, request = gateway_program.require(name), session_requests.stages(stages)
    gateway_program.ask_socket(link, session_requests.SOCKET, request, lambda: None, STAGES_SECONDS)


def revoke(name: str, *, session: str | None = None, desktop: str | None = None, everything: bool = False) -> Any:
    """End one session, those of a desktop, or all; live connections are closed."""
    chosen = [option for option in (session, desktop, everything or None) if option]
    if len(chosen) != 1:
        remedy = "give just one of --session ID, --desktop NAME, --all"
        raise ConfigError("access.revoke", None, "does not say which sessions", remedy)
    link = gateway_program.require(name)
    arguments = [session] if session else ["--desktop", desktop] if desktop else ["--all"]
    who = gateway_program.actor()
    request = session_requests.revoke(session, desktop, everything, who)
    return gateway_program.ask_service(link, request, ["revoke", *arguments, "--actor", who])


def rotate_keys(name: str, *, at_once: bool = False) -> Any:
    """Sign sessions with a new key; those that are open go on, unless the old key is void at once."""
    return gateway_program.ask(
        gateway_program.require(name),
        ["keys", "rotate", "--actor", gateway_program.actor(), *(["--at-once"] if at_once else [])],
        seconds=gateway_program.CHANGE_SECONDS,
    )


@dataclass(frozen=True)
class Chosen:
    """Which lines of a gateway's audit: decisions or actions, about which desktop and session."""

    actions: bool = False
    desktop: str = ""
    session: str = ""

    def arguments(self) -> list[str]:
        """The choice as the gateway's program takes it."""
        named = {"--desktop": self.desktop, "--session": self.session}
        return [*(["--actions"] if self.actions else []), *(f"{name}={text}" for name, text in named.items() if text)]


def audit(name: str, *, since: int = 0, last: int | None = None, chosen: Chosen | None = None) -> Any:
    """Read what was decided at the door of a workspace, or what programs did behind it, oldest first."""
    wanted = ["--since", str(since), *(["--last", str(last)] if last is not None else [])]
    return gateway_program.ask(
        gateway_program.require(name), ["audit", *wanted, *(chosen.arguments() if chosen else [])]
    )


def verify_audit(name: str, noted: str | None = None) -> Any:
    """Whether the audit is whole and unchanged; `noted` is NUMBER:HASH of a line that was collected before."""
    return gateway_program.ask(
        gateway_program.require(name), ["audit", "--verify", *(["--known", noted] if noted else [])]
    )


def follow_audit(name: str, since: int, pause: float = FOLLOW_SECONDS, chosen: Chosen | None = None) -> Iterator[Any]:
    """Events after number `since`, as they come, for ever."""
    link = gateway_program.require(name)
    asked = chosen.arguments() if chosen else []
    end = "--first"
    while True:
        try:
            arguments = ["audit", "--since", str(since), end, str(FOLLOW_AT_ONCE), *asked]
            found = gateway_program.ask(link, arguments)
        except SiteError as error:
            if end == "--last" or "unrecognized arguments: --first" not in str(error):
                raise
            end = "--last"
            continue
        if end == "--last":
            _say_skipped(found, since)
        for event in found:
            since = event["seq"]
            yield event
        if end == "--last" or len(found) < FOLLOW_AT_ONCE:
            time.sleep(pause)


def _say_skipped(found: Sequence[Any], since: int) -> None:
    """Say that events are missing before these, which a gateway from before gave: the newest alone, of too many."""
    if len(found) == FOLLOW_AT_ONCE and found[0]["seq"] > since + 1:
        missing = f"events {since + 1} to {found[0]['seq'] - 1}"
        remedy = "see access.audit --since with a higher --last"
        print(f"skipped: {missing}, as far as they were asked for -> {remedy}", file=sys.stderr, flush=True)


def seconds(ttl: str, field: str = "--ttl") -> int:
    """A duration such as 90s, 30m, 8h, 2d in seconds."""
    try:
        return duration.seconds(ttl)
    except ValueError as error:
        reason, _, remedy = str(error).partition(" -> ")
        raise ConfigError(field, ttl, reason, remedy) from error
