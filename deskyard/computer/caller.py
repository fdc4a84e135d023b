"""Who asks the service, and what they may do: as the gateway says, or all of it from inside the desktop."""

from dataclasses import dataclass
from http import HTTPStatus

from starlette.requests import HTTPConnection

from deskyard.computer.problem import Problem
from deskyard.wire.computer import SCOPES, SCOPES_HEADER, SESSION_HEADER

LOOPBACK = ("127.0.0.1", "::1")


@dataclass(frozen=True)
class Caller:
    """A session of the gateway, or a program of the desktop itself (`session` is empty)."""

    session: str
    scopes: frozenset[str]

    def require(self, scope: str) -> None:
        """Raise `Problem` unless the caller may do what `scope` names."""
        if scope not in self.scopes:
            held = ", ".join(sorted(self.scopes)) or "none"
            reason = f"is not among this session's scopes ({held})"
            remedy = f"ask for a link with --scopes {scope}"
            raise Problem(HTTPStatus.FORBIDDEN, "scope", scope, reason, remedy)


def caller(connection: HTTPConnection) -> Caller:
    """The caller of a request or WebSocket; raises `Problem` where the gateway says nothing of it."""
    session = connection.headers.get(SESSION_HEADER, "")
    said = connection.headers.get(SCOPES_HEADER)
    if said is not None:
        return Caller(session, frozenset(said.split(",")) & frozenset(SCOPES))
    if connection.client and connection.client.host in LOOPBACK:
        # A program of the desktop can do all of this without the service.
        return Caller("", frozenset(SCOPES))
    reason = "does not say which session asks"
    raise Problem(HTTPStatus.UNAUTHORIZED, "session", None, reason, "ask through the workspace's gateway")


def is_gateway(request: HTTPConnection) -> bool:
    """Whether it is the gateway itself: what it passes on has scopes, and who else comes is of this desktop."""
    client = request.client
    return SCOPES_HEADER not in request.headers and client is not None and client.host not in LOOPBACK
