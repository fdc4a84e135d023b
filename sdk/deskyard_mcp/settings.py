"""The server's settings, from its environment: links and tokens stand on no command line."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from deskyard_sdk import DesktopError

from deskyard_mcp.offers import SCOPES

LINK, CA, SESSION = "DESKYARD_LINK", "DESKYARD_CA", "DESKYARD_SESSION_FILE"
TOKEN, ASK, WAKE = "DESKYARD_MCP_TOKEN", "DESKYARD_MCP_ASK", "DESKYARD_MCP_WAKE_WITHIN"
SHORTEST_TOKEN = 24
# Clients give a call up after a minute, unless told otherwise. Who calls again finds the desktop further on.
WAKE_SECONDS = 50.0


@dataclass(frozen=True)
class Settings:
    """Which desktop is served, with what its clients prove themselves over HTTP, and how long a call waits for it."""

    link: str = field(repr=False)
    ca: str | None = None
    session: str | None = None
    token: str = field(default="", repr=False)
    ask: tuple[str, ...] = ()
    wake_within: float = WAKE_SECONDS


def read(environment: Mapping[str, str], http: bool) -> Settings:
    """The settings of an environment; raises `DesktopError` for what is missing or open to others."""
    link = _secret(environment, LINK, "give the link of access.grant --mode agent, or http://127.0.0.1:6090 inside")
    token = ""
    if http:
        token = _secret(environment, TOKEN, "give a long random word: whoever has it uses the desktop")
        if len(token) < SHORTEST_TOKEN:
            reason = f"has {len(token)} characters, fewer than {SHORTEST_TOKEN}"
            raise DesktopError(TOKEN, "", reason, "make one with: openssl rand -hex 24")
    ca, session = environment.get(CA) or None, environment.get(SESSION) or None
    return Settings(link, ca, session, token, _scopes(environment.get(ASK, "")), _seconds(environment.get(WAKE, "")))


def _seconds(text: str) -> float:
    if not text.strip():
        return WAKE_SECONDS
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise DesktopError(WAKE, text, "is no number of seconds", "give a number, as 120; 0 for no wait")
    return seconds


def _scopes(text: str) -> tuple[str, ...]:
    chosen = tuple(scope.strip() for scope in text.split(",") if scope.strip())
    for scope in chosen:
        if scope not in SCOPES:
            raise DesktopError(ASK, scope, "is no scope", f"give some of: {', '.join(SCOPES)}")
    return chosen


def _secret(environment: Mapping[str, str], name: str, remedy: str) -> str:
    """A secret that stands in a variable, or in the file that the variable with _FILE names."""
    if value := environment.get(name, "").strip():
        return value
    if not (place := environment.get(f"{name}_FILE")):
        raise DesktopError(name, "", f"is not set, nor is {name}_FILE", remedy)
    path = Path(place).expanduser()
    try:
        open_to_others = path.stat().st_mode & 0o077
        value = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise DesktopError(f"{name}_FILE", place, f"cannot be read ({error})", remedy) from error
    if open_to_others:
        raise DesktopError(f"{name}_FILE", place, "can be read by others", f"chmod 600 {place}")
    if not value:
        raise DesktopError(f"{name}_FILE", place, "is empty", remedy)
    return value


def from_process(http: bool) -> Settings:
    """The settings of this process; what it starts inherits no secret."""
    settings = read(os.environ, http)
    for name in (LINK, TOKEN):
        os.environ.pop(name, None)
    return settings
