"""What a person or a key may do, by scope."""

READ, WRITE, DESTROY, CHAT, ADMIN = "read", "desktops:write", "desktops:destroy", "chat", "admin"
SCOPES = {
    READ: "see workspaces, desktops, operations and conversations",
    WRITE: "create, start, stop and restart desktops, and open sessions on them",
    DESTROY: "destroy desktops with all their data",
    CHAT: "give agents tasks, and talk to them",
    ADMIN: "see keys, people, sessions and the audit; revoke keys, end sessions",
}
# A person who destroys signs it with a passkey: the scope alone does not do.
ROLES = {
    "viewer": frozenset({READ}),
    "operator": frozenset({READ, WRITE, DESTROY, CHAT}),
    "admin": frozenset(SCOPES),
}
