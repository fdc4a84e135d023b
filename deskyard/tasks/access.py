"""access.*: who may reach which desktop."""

from invoke import Collection, Context

from deskyard.run import access
from deskyard.tasks.front import command, show


@command(
    help={
        "target": "WORKSPACE/DESKTOP",
        "routes": "comma-separated: desktop, terminal (default: all that the mode allows)",
        "mode": "drive, or view to watch only",
        "ttl": "life of the session: 30m, 8h, 2d",
        "json": "print JSON",
    }
)
def grant(_: Context, target: str, routes: str = "", mode: str = "drive", ttl: str = "8h", json: bool = False) -> None:
    """Print a link to a desktop. It works once and soon expires: hand it over as a secret."""
    granted = access.grant(target, routes or None, mode, ttl)
    show(granted, as_json=json, text=granted["url"])


@command(name="list", help={"workspace": "name of the workspace", "json": "print JSON"})
def list_(_: Context, workspace: str, json: bool = False) -> None:
    """Show the sessions of a workspace."""
    found = access.sessions(workspace)
    lines = [
        f"{one['id']}  {one['desktop']}  {','.join(one['routes'])}  {one['mode']}  {one['state']}" for one in found
    ]
    show(found, as_json=json, text="\n".join(lines) or "no sessions")


@command(
    help={
        "workspace": "name of the workspace",
        "session": "id of one session",
        "desktop": "all sessions of this desktop",
        "all": "all sessions of the workspace",
        "json": "print JSON",
    }
)
def revoke(
    _: Context, workspace: str, session: str = "", desktop: str = "", all: bool = False, json: bool = False
) -> None:
    """End sessions; their live connections are closed."""
    ended = access.revoke(workspace, session=session or None, desktop=desktop or None, everything=all)
    show(ended, as_json=json, text=f"revoked: {len(ended)}")


ns = Collection("access")
for one in (grant, list_, revoke):
    ns.add_task(one)
