"""The operations that a person or a key may do, by scope."""

from collections.abc import Iterable

READ, WRITE, DESTROY, CHAT, ADMIN = "read", "desktops:write", "desktops:destroy", "chat", "admin"
APPROVALS, DECIDE = "approvals:read", "approvals:decide"
SCOPES = {
    READ: "see workspaces, desktops, operations and conversations",
    WRITE: "create, start, stop and restart desktops, halt their agents, and open sessions on them",
    DESTROY: "destroy desktops with all their data",
    CHAT: "give agents tasks, and talk to them",
    APPROVALS: "see what desktops wait to be allowed",
    DECIDE: "answer what desktops wait to be allowed, which opens the network to them",
    ADMIN: "see keys, people, sessions and the audit; revoke keys, end sessions, set rules and quotas; "
    "make workspaces, and destroy them",
}
# A person who destroys, or opens the network, signs it with a passkey: the scope alone does not do.
ROLES = {
    "viewer": frozenset({READ, APPROVALS}),
    "operator": frozenset({READ, WRITE, DESTROY, CHAT, APPROVALS, DECIDE}),
    "admin": frozenset(SCOPES),
}
# Up to whom an admin gives by the web, as the host says of each.
GIVES = ("viewer", "operator")


def bounded(scopes: Iterable[str], workspaces: Iterable[str] | None) -> frozenset[str]:
    """The scopes that count: keys, people and the audit are of all workspaces, so who is bound to some is no admin."""
    return frozenset(scopes) - (frozenset() if workspaces is None else {ADMIN})
