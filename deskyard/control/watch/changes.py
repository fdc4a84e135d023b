"""Tasks that changed something at the host: lines, each taken in once, for the audit and the timelines of desktops.

How far it was read, the audit's line and the row of a timeline are of the same transaction: whenever who takes them in
is killed, none is lost and none comes twice.
"""

import itertools
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from psycopg.types.json import Jsonb

from deskyard.control.store.connection import Link
from deskyard.errors import HostError
from deskyard.host.changes import INTERRUPTED, MOST_NUMBER, RUNNING, Line, Run, Spool, is_gone
from deskyard.host.places import Stamp
from deskyard.plan.printable import printable

# Lines of a transaction.
AT_ONCE = 500
ACTION, MISSED = "host", "host.missed"
TASK = re.compile(r"[a-z0-9]+(?:[.-][a-z0-9]+)*")
MOST_TASK, MOST_NAME, MOST_ID, MOST_OPTIONS, MOST_TEXT, MOST_DETAIL = 64, 63, 64, 20, 100, 300
KEPT = "90 days"
SILENT = "its process ended without a word"
NOTE = "insert into audit_intake (actor, action, target, detail) values (%s, %s, %s, %s)"
KEEP = """
insert into host_task (id, workspace_id, desktop_id, task, actor, began_at, state, detail, process)
values (%(id)s, %(workspace)s, %(desktop)s, %(task)s, %(actor)s, %(at)s, %(state)s, %(detail)s, %(process)s)
on conflict (id) do update set state = excluded.state, detail = excluded.detail where host_task.state = 'running'
"""
log = logging.getLogger(__name__)


class Intake:
    """Takes in what is new, as often as it looks; what it has seen costs the next look a file's state."""

    def __init__(self, spool: Spool | None = None) -> None:
        self._spool = spool or Spool()
        self._seen: Stamp | None = None
        self._why = ""

    def look(self, link: Link) -> None:
        """Take in what is new, and say of runs whose process is gone without an end that they were interrupted."""
        running = link.execute("select * from host_task where state = %s", [RUNNING]).fetchall()
        # Who is gone now has written all that it had to say.
        gone = [row for row in running if is_gone(row["process"])]
        stamp = self._spool.stamp()
        if stamp != self._seen:
            try:
                lines = self._spool.lines()
            except (HostError, OSError) as error:
                self._say(str(error))
                return
            take_in(link, lines)
            self._seen, self._why = stamp, ""
        for row in gone:
            _interrupt(link, row)

    def _say(self, why: str) -> None:
        """Say once why nothing is read; somebody who writes is done in a moment."""
        if why != self._why:
            log.info("what tasks change is not read now: %s", why)
            self._why = why


def take_in(link: Link, lines: Sequence[Line]) -> None:
    """Take in the lines that come after those that were taken in."""
    for spool, found in itertools.groupby(lines, lambda line: line.spool):
        for part in _parts(list(found)):
            with link.transaction():
                _take_in(link, printable(spool, most=MOST_ID), part)


def _take_in(link: Link, spool: str, lines: Sequence[Line]) -> None:
    link.execute("insert into host_spool (id) values (%s) on conflict do nothing", [spool])
    # Whoever else takes in waits here until this is over.
    row = link.execute("select number from host_spool where id = %s for update", [spool]).fetchone()
    number = before = int(row["number"]) if row else 0
    notes: list[tuple[str, str, str, Jsonb]] = []
    tasks = []
    for line in lines:
        if line.number <= number:
            continue
        if missed := line.number - number - 1:
            notes.append((f"{ACTION}:{ACTION}", MISSED, ACTION, Jsonb({"source": ACTION, "lines": missed})))
        number = line.number
        task = _task(spool, line)
        notes.append((task["actor"], f"{ACTION}.{task['task']}", _target(task), Jsonb(_detail(line, task))))
        tasks.append(task)
    if number == before:
        return
    with link.cursor() as cursor:
        cursor.executemany(NOTE, notes)
        cursor.executemany(KEEP, tasks)
    link.execute(f"delete from host_task where began_at < now() - interval '{KEPT}'")
    link.execute("update host_spool set number = %s where id = %s", [number, spool])


def _interrupt(link: Link, row: Mapping[str, Any]) -> None:
    """End a run whose process was killed, unless its end was taken in."""
    with link.transaction():
        query = "update host_task set state = %s, detail = %s where id = %s and state = %s returning id"
        detail = _joined(row["detail"], SILENT)
        if link.execute(query, [INTERRUPTED, detail, row["id"], RUNNING]).fetchone() is None:
            return
        known = {"source": ACTION, "run": row["id"], "state": INTERRUPTED, "reason": SILENT}
        target = row["desktop_id"] or row["workspace_id"] or ACTION
        link.execute(NOTE, [row["actor"], f"{ACTION}.{row['task']}", target, Jsonb(known)])


def _task(spool: str, line: Line) -> dict[str, Any]:
    """The row of a line's run. Whatever stands in a line is text of the host: it is cut, and shown as it is."""
    run = line.run
    workspace, desktop = (printable(name, most=MOST_NAME) for name in (run.workspace, run.desktop))
    named = len(run.task) <= MOST_TASK and TASK.fullmatch(run.task)
    return {
        "id": f"{spool}:{printable(run.id, most=MOST_ID)}"[:MOST_TEXT],
        "workspace": workspace,
        "desktop": f"{workspace}.{desktop}" if desktop else None,
        "task": run.task if named else "unnamed",
        "actor": f"{ACTION}:{printable(run.operator, most=MOST_TEXT)}",
        "at": datetime.fromtimestamp(line.at, UTC),
        "state": line.state,
        "detail": _joined(_said(_options(run)), *(printable(text) for text in (line.field, line.reason))),
        "process": printable(run.process, most=MOST_TEXT),
    }


def _detail(line: Line, task: Mapping[str, Any]) -> dict[str, Any]:
    """The audit's detail of a line, beside who, what and on what; `at` is the host's clock."""
    known = {"source": ACTION, "run": task["id"], "state": line.state, "at": task["at"].isoformat()}
    known |= {"options": _options(line.run)} if line.run.options else {}
    why = {"field": line.field, "reason": line.reason}
    return known | {name: printable(text, most=MOST_DETAIL) for name, text in why.items() if text}


def _options(run: Run) -> dict[str, str | int | None]:
    chosen = itertools.islice(run.options.items(), MOST_OPTIONS)
    return {printable(name, most=MOST_NAME): _value(value) for name, value in chosen}


def _value(value: object) -> str | int | None:
    if value is None or isinstance(value, bool) or (isinstance(value, int) and abs(value) < MOST_NUMBER):
        return value
    # A number of any length is cut before it is written out, which takes long.
    return printable(value, most=MOST_TEXT) if isinstance(value, str) else "?"


def _said(options: Mapping[str, str | int | None]) -> str:
    """Options as they are typed; of one whose value is not kept its name."""
    words = {True: "--{}", False: "--no-{}", None: "--{} ..."}
    return " ".join(
        words[value].format(name) if value is None or isinstance(value, bool) else f"--{name} {value}"
        for name, value in options.items()
    )


def _joined(*texts: str) -> str:
    return ": ".join(filter(None, texts))[:MOST_DETAIL]


def _target(task: Mapping[str, Any]) -> str:
    return task["desktop"] or task["workspace"] or ACTION


def _parts(lines: list[Line]) -> Iterator[list[Line]]:
    for first in range(0, len(lines), AT_ONCE):
        yield lines[first : first + AT_ONCE]
