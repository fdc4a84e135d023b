"""Whether a workspace keeps a desktop where one is destroyed: its declaration has to name one."""

from http import HTTPStatus

from deskyard.control.api import rows
from deskyard.control.api.caller import Link
from deskyard.control.api.problem import Problem
from deskyard.control.machines.target import DESTROY


async def require_others(link: Link, id: str) -> None:
    """Raise a 409 for the desktop of a workspace that has no other, or whose others are being destroyed.

    Of one that is not there nothing is said.
    """
    workspace = id.partition(".")[0]
    query = """select 1 from desktop d where d.workspace_id = %s and d.id <> %s and d.gone_at is null
            and d.lifetime = 'kept' and not exists (
                select from operation o where o.desktop_id = d.id and o.kind = %s
                and o.state in ('queued', 'running', 'waiting'))
        union all select 1 from seat where workspace_id = %s
        union all select 1 where not exists (select from desktop where id = %s and gone_at is null) limit 1"""
    if await rows.row(link, query, [workspace, id, DESTROY, workspace, id]) is None:
        reason = "is the only desktop of its workspace, which has to have one"
        remedy = f"create another first; or destroy the workspace: ./inv workspace.destroy {workspace} at its host"
        raise Problem(HTTPStatus.CONFLICT, "desktop", id, reason, remedy)
