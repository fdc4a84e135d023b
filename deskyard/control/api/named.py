"""The rows that a request names, as far as its caller may see them; raises a 404 for what is not there."""

from http import HTTPStatus

from deskyard.control.api import rows
from deskyard.control.api.caller import Caller, Link, Row
from deskyard.control.api.problem import Problem, unknown

CONVERSATION_REMEDY = "see GET /api/conversations; what is older than GET /api/retention says is deleted"


async def require_desktop(link: Link, who: Caller, id: str) -> Row:
    """The row of a desktop that the caller may see; raises a 404 for none."""
    found = await rows.row(link, f"{rows.DESKTOP} where d.id = %s and d.gone_at is null", [id])
    if found is None or not who.sees(found["workspace_id"]):
        raise unknown("desktop", id, "see GET /api/desktops; an id is WORKSPACE.DESKTOP")
    return found


async def require_kept(link: Link, who: Caller, id: str) -> Row:
    """The same for a desktop that is kept; raises a 409 for one that is for a task."""
    found = await require_desktop(link, who, id)
    if found["lifetime"] != "kept":
        raise for_a_task(found)
    return found


def for_a_task(found: Row) -> Problem:
    """The refusal of what is done to desktops that are kept alone."""
    remedy = f"release it: DELETE /api/workspaces/{found['workspace_id']}/tasks/{found['name']}"
    return Problem(HTTPStatus.CONFLICT, "desktop", found["id"], "is for a task: it is never kept or changed", remedy)


async def require_workspace(link: Link, who: Caller, name: str) -> Row:
    """The row of a workspace that the caller may see; raises a 404 for none."""
    found = await rows.row(link, f"{rows.WORKSPACE} where w.id = %s and w.gone_at is null", [name])
    if found is None or not who.sees(name):
        raise unknown("workspaceId", name, "see GET /api/workspaces; a workspace is declared in its stack file")
    return found


async def require_conversation(link: Link, who: Caller, id: str) -> Row:
    """The row of a conversation that the caller may see; raises a 404 for none."""
    found = await rows.row(link, f"{rows.CONVERSATION} where c.id = %s", [id])
    if found is None or not who.sees(found["desktop_id"].partition(".")[0]):
        raise unknown("conversation", id, CONVERSATION_REMEDY)
    return found


async def require_operation(link: Link, who: Caller, id: str) -> Row:
    """The row of an operation that the caller may see; raises a 404 for none."""
    found = await rows.row(link, f"{rows.OPERATION} where o.id = %s", [id])
    if found is None or not who.sees(found["workspace_id"]):
        raise unknown("operation", id, "see GET /api/operations")
    return found
