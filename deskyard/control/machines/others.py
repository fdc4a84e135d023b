"""Whether a workspace keeps a desktop where one is destroyed: its declaration has to name one."""

from http import HTTPStatus

from deskyard.control.api import rows
from deskyard.control.api.caller import Link
from deskyard.control.api.problem import Problem
from deskyard.control.people.intent import DESTROY


async def require_others(link: Link, id: str) -> None:
    """Raise a 409 for the desktop of a workspace that has no other, or whose others are being destroyed.

    Of one that is not there nothing is said.
    """
    workspace = id.partition(".")[0]
    query = """select d.id, o.id as operation, o.state from desktop d left join operation o
            on o.desktop_id = d.id and o.kind = %s and o.state in ('queued', 'running', 'waiting')
        where d.workspace_id = %s and d.id <> %s and d.gone_at is null and d.lifetime = 'kept'
        order by o.id is not null, o.created_at desc limit 1"""
    other = await rows.row(link, query, [DESTROY, workspace, id])
    query = """select 1 from seat where workspace_id = %s
        union all select 1 where not exists (select from desktop where id = %s and gone_at is null) limit 1"""
    stays = other is not None and other["operation"] is None
    if stays or await rows.row(link, query, [workspace, id]) is not None:
        return
    reason = "is the only desktop of its workspace, which has to have one"
    remedy = f"create another first; or destroy the workspace: ./inv workspace.destroy {workspace} at its host"
    if other is not None:
        # What waits for a second person may yet be cancelled: nobody is to destroy the workspace for it.
        reason = f"is the last of its workspace beside {other['id']}, which is to be destroyed ({other['state']})"
        remedy = f"wait for the end of {other['operation']}, or cancel it: the workspace has to have a desktop"
    raise Problem(HTTPStatus.CONFLICT, "desktop", id, reason, remedy)
