"""Desktops for a task as a worker's child gives them and takes them back, and what the worker keeps of that."""

from collections.abc import Callable, Mapping
from typing import Any

from deskyard.control.queue.claim import Claim
from deskyard.control.queue.target import desktop_target
from deskyard.control.store.connection import Link
from deskyard.control.tasks import seen
from deskyard.control.tasks.target import BEGIN, KINDS, RELEASE, TIDY, claimer

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
