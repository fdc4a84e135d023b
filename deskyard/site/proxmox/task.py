"""Waits for what a cluster does in the background, and says how it ended."""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from deskyard.errors import SiteError
from deskyard.site.proxmox.client import Client, quoted

TAIL_LINES, MOST_LINES, MOST_PAGES, MOST_TASKS = 15, 500, 20, 1000
TASK_SECONDS = 1800.0
# Of the task that removes a machine (destroy_vm), which ends with warnings, or before 9.0 with OK.
_LEFT = re.compile(r"Could not remove disk '([^']+)', check manually")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 3.0


@dataclass(frozen=True)
class Done:
    """A task that ended well; `warnings` is the end of its log where it warned.

    That it says OK is its own word: who needs the result looks at the result.
    """

    upid: str
    warnings: str = ""


def node_of(upid: str) -> str:
    """The node that runs a task: `UPID:node:pid:pstart:starttime:type:id:user:`."""
    return _parts(upid)[1]


def kind_of(upid: str) -> str:
    """The type of a task."""
    return _parts(upid)[5]


def running(client: Client, node: str, *, kind: str | None = None, vmid: int | None = None) -> list[str]:
    """The tasks that run on a node now: those about a machine, or those of a kind that this token began."""
    rows = client.get(f"nodes/{node}/tasks", source="active", vmid=vmid, typefilter=kind)
    return [
        str(row["upid"])
        for row in rows
        if not row.get("endtime")
        and row.get("status") in (None, "", "RUNNING", "running")
        and kind in (None, row.get("type"))
        and (vmid is not None or _is_ours(client, row))
    ]


def ended(client: Client, node: str, *, kind: str, vmid: int) -> list[dict[str, Any]]:
    """The tasks of a kind about a machine that this token began and that have ended on a node, the latest first."""
    given = {"source": "all", "typefilter": kind, "vmid": vmid, "limit": MOST_TASKS}
    rows = client.get(f"nodes/{node}/tasks", **given)
    return [row for row in rows if row.get("endtime") and row.get("type") == kind and _is_ours(client, row)]


def log_of(client: Client, upid: str) -> list[str]:
    """The lines of a task's log."""
    path, lines = f"nodes/{node_of(upid)}/tasks/{quoted(upid)}/log", list[str]()
    for _ in range(MOST_PAGES):
        rows = client.get(path, start=len(lines), limit=MOST_LINES)
        lines += [str(row.get("t", "")) for row in rows]
        if len(rows) < MOST_LINES:
            break
    return lines


def wait_task(
    client: Client,
    upid: str,
    seconds: float = TASK_SECONDS,
    clock: Callable[[], float] = time.monotonic,
    *,
    follow: Callable[[str], None] | None = None,
) -> Done:
    """Wait until a task ends; raises `SiteError` with the end of its log if it failed or takes too long.

    `follow` is given each line of its log.
    """
    path = f"nodes/{node_of(upid)}/tasks/{quoted(upid)}"
    deadline, pause, lines = clock() + seconds, _FIRST_PAUSE, 0
    while True:
        state = client.get(f"{path}/status")
        if follow is not None:
            lines += _pass_on(client, path, lines, follow)
        if state.get("status") == "stopped":
            return _verdict(client, upid, path, str(state.get("exitstatus", "no exit status")))
        if clock() >= deadline:
            raise SiteError(
                "task",
                upid,
                f"still runs after {seconds:.0f} s; it was left running\n{_tail(client, path)}",
                "wait until it ends (its node's task list shows it), then run the command again",
            )
        client.sleep(pause)
        pause = min(_LONGEST_PAUSE, pause * 1.5)


def finish(client: Client, upid: str | None, seconds: float = TASK_SECONDS) -> None:
    """Wait until what a call began has ended; a call that was done at once names no task."""
    if upid:
        wait_task(client, upid, seconds)


def wait_removal(client: Client, upid: str, seconds: float = TASK_SECONDS) -> None:
    """Wait until a machine is removed; raises `SiteError` with the disks of it that could not be, which stay alone."""
    wait_task(client, upid, seconds)
    lines = log_of(client, upid)
    if left := sorted({found[1] for line in lines if (found := _LEFT.search(line))}):
        why = client.token.redact("\n".join(f"  {line}" for line in lines if _LEFT.search(line)))
        remedy = f"mend what is named, then on {node_of(upid)}: pvesm free {' '.join(left)}"
        raise SiteError("disk", ", ".join(left), f"stays, though its machine is removed\n{why}", remedy)


def _verdict(client: Client, upid: str, path: str, ending: str) -> Done:
    if ending == "OK":
        return Done(upid)
    tail = _tail(client, path)
    if ending.startswith("WARNINGS"):
        return Done(upid, f"{ending}\n{tail}")
    raise SiteError("task", upid, f"{ending}\n{tail}", "mend what the log names, then run the command again")


def _is_ours(client: Client, row: Mapping[str, Any]) -> bool:
    return client.token.id in (row.get("user"), f"{row.get('user')}!{row.get('tokenid')}")


def _parts(upid: str) -> list[str]:
    parts = upid.split(":")
    if len(parts) < 8 or parts[0] != "UPID":
        raise SiteError("task", upid, "is no name of a task", "look at the cluster's version with ./inv site.check")
    return parts


def _pass_on(client: Client, path: str, start: int, follow: Callable[[str], None]) -> int:
    """Pass on what a task has said since; a log that cannot be read ends nothing."""
    try:
        rows = client.get(f"{path}/log", start=start, limit=MOST_LINES)
    except SiteError:
        return 0
    # The API gives a line `no content` of a log that is empty (PVE::Tools::dump_logfile).
    said = [row for row in rows if int(row.get("n") or 0) > start]
    for row in said:
        follow(str(row.get("t", "")))
    return len(said)


def _tail(client: Client, path: str) -> str:
    """The last lines of a task's log; what cannot be read is said, so that it hides no other error."""
    try:
        total = int(client.call("GET", f"{path}/log", {"limit": 1}).body.get("total") or 0)
        lines = client.get(f"{path}/log", start=max(0, total - TAIL_LINES), limit=TAIL_LINES)
    except SiteError as error:
        return f"  (its log could not be read: {error.reason})"
    return client.token.redact("\n".join(f"  {line.get('t', '')}" for line in lines))
