"""Desktops for a task as a worker's child gives them and takes them back, and what the worker keeps of that."""

from collections.abc import Callable, Mapping
from typing import Any

from deskyard.control.queue.claim import Claim
from deskyard.control.queue.target import desktop_target
from deskyard.control.store.connection import Link
from deskyard.control.tasks import seen
from deskyard.control.tasks.target import BEGIN, KINDS, MEANT, RELEASE, TIDY, claimer
from deskyard.errors import ConfigError

Wanted = Mapping[str, Any]
# What a child tells the worker beside the result that people see.
SEATS = "seats"


def _begin(wanted: Wanted) -> dict[str, Any]:
    from deskyard.life.pool import run

    given, workspace = wanted["input"], wanted["workspace"]
    asked = run.Wanted(workspace, given["image"], given["tier"], given["seconds"], remove=False, command=False)
    # However often the operation is begun, its name is that of one claim.
    found = run.begin(asked, claimer(wanted["actor"], wanted["operation"]))
    result = {"desktop": f"{workspace}.{found['name']}", "until": seen.moment(found["until"])}
    facts = ("image", "tier", "address", "routes", "machine")
    return _with_seats(workspace, result | {name: found[name] for name in facts})


def _release(wanted: Wanted) -> dict[str, Any]:
    from deskyard.life.pool import pool

    pool.end(desktop_target(wanted), wanted["input"]["machine"])
    return _with_seats(wanted["workspace"], {"released": wanted["desktop"]})


def _tidy(wanted: Wanted) -> dict[str, Any]:
    from deskyard.life.pool import filling

    return _with_seats(wanted["workspace"], {"made": filling.tidy(wanted["workspace"])})


def _with_seats(workspace: str, result: dict[str, Any]) -> dict[str, Any]:
    from deskyard.declaration import declaration

    return {"result": {**result, SEATS: seen.read(declaration.read(workspace))}}


def meant(link: Link, held: Claim) -> dict[str, str]:
    """The machine at a seat that an operation is for, so that its child finds out if another is there by then.

    Raises `ConfigError` if another came there since it was asked for, or since what is delivered was said.
    """
    if held.kind not in MEANT:
        return {}
    # One that lies ahead is of before the clock was set back; the child finds out by the machine all the same.
    query = """select machine, there_since <= now()
            and there_since > coalesce((select at from message where id = %s), %s) as is_another
        from desktop where id = %s and lifetime = 'task' and machine is not null"""
    found = link.execute(query, [held.input.get("message"), held.created_at, held.desktop]).fetchone()
    if found is None:
        return {}
    if found["is_another"]:
        raise ConfigError("desktop", held.desktop, "is of another task by now", "ask for it anew, or begin a task")
    return {"machine": str(found["machine"])}


def require_meant(wanted: Wanted) -> None:
    """Raise `ConfigError` if the desktop for a task that something is for is gone."""
    from deskyard.life.pool import pool

    if "machine" in wanted:
        pool.require(desktop_target(wanted), wanted["machine"])


def shown(held: Claim, result: dict[str, Any]) -> dict[str, Any]:
    """The result of an operation as it is kept."""
    return {name: value for name, value in result.items() if name != SEATS} if held.kind in KINDS else result


def keep(link: Link, held: Claim, result: Mapping[str, Any]) -> None:
    """Write down how the seats are after an operation that was done: whoever waits for its end finds its desktop."""
    if held.kind not in KINDS or held.workspace is None:
        return
    seen.write(link, held.workspace, result[SEATS])
    if held.kind == BEGIN:
        link.execute("update operation set desktop_id = %s where id = %s", [result["desktop"], held.id])


JOBS: dict[str, Callable[[Wanted], dict[str, Any]]] = {BEGIN: _begin, RELEASE: _release, TIDY: _tidy}
