"""The queue: who runs an operation holds a lease on it; every later word counts only with the number of its attempt.

An own table, not a library's: what people see and what is claimed are the same row, so that neither is reaped without
the other (procrastinate, the best kept, needs claim, lease and fence of ours beside its own row, and came back later).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from deskyard.control.people.intent import DESTROY, END
from deskyard.control.queue.turns import FILLING, MOVING, ORDER, TURN
from deskyard.control.store.connection import Link, Row

LEASE_SECONDS = 30.0
# By which a lease is renewed so many times before it runs out.
RENEWALS = 15
# An operation that took so many workers with it needs a person.
MOST_ATTEMPTS = 5
# One whose program was killed from outside is begun so many times: what killed it may come again.
MOST_KILLED = 2
# What was asked to stop ends in its own order for so long, which is 90 seconds for the engine; then it is killed.
STOP_SECONDS = 120
# What waits for room is tried again by the clock, since who works at a shell frees some unheard, and not for ever.
ROOM_SECONDS, MOST_ROOM_SECONDS = 30.0, 3600.0

KILLED = "its program was killed (SIGKILL)"
LOST = {
    "field": "operation",
    "value": "",
    "reason": f"was begun {MOST_ATTEMPTS} times, and its worker ended each time",
    "remedy": "see the worker's log; then retry it",
}


class Wish(StrEnum):
    """The end that somebody wants of an operation that runs."""

    NONE = "none"
    STOP = "stop"
    KILL = "kill"


@dataclass(frozen=True)
class Claim:
    """An operation that this worker runs, by its attempt."""

    id: str
    attempt: int
    kind: str
    workspace: str | None
    desktop: str | None
    input: Mapping[str, Any]
    proof: Mapping[str, Any] | None
    actor: str
    # Whose slots it takes: see `deskyard.control.jobs.slots`.
    share: str
    # When it was admitted, by the database's clock.
    created_at: datetime


def claim(link: Link, worker: str, lease: float = LEASE_SECONDS, full: Sequence[str] = ()) -> Claim | None:
    """The next operation whose lane is free, of no share that is full, held for `lease` seconds; None without any.

    What somebody asked for comes before what is asked by the hour. What there was no room for comes behind what may
    leave some, and before what was asked for later and would take it. Then it is the turn of the workspace with the
    fewest of that share under way, and of those of the one whose last began the longest ago, so that who asks for much
    at once waits for it alone; of one workspace the oldest comes first.
    """
    query = f"""with {TURN}
        update operation set state = 'running', attempt = attempt + 1, worker = %(worker)s, claimed_at = now(),
            lease_until = now() + make_interval(secs => %(lease)s), started_at = coalesce(started_at, now())
        where id = (
            select o.id from operation o join turn t on t.id = o.id
            where o.state = 'queued' and o.cancel_requested_at is null
                and (o.not_before is null or o.not_before <= now())
                and not t.share = any(%(full)s)
                and not exists (select from operation r where r.state = 'running' and r.lane = o.lane)
                and not exists (select from operation p where p.id = o.after_id and p.state <> 'done')
            order by {ORDER}
            limit 1 for update of o skip locked)
        returning *, share_of(kind) as share"""
    try:
        with link.transaction():
            values = {"worker": worker, "lease": lease, "full": list(full)}
            row = link.execute(query.encode(), values).fetchone()
    except psycopg.errors.UniqueViolation:
        # Another worker began the lane's next one in the same moment.
        return None
    if row is None:
        return None
    return _claim(row)


def _claim(row: Row) -> Claim:
    names = ("id", "attempt", "kind", "input", "proof", "actor", "share", "created_at")
    return Claim(**{name: row[name] for name in names}, workspace=row["workspace_id"], desktop=row["desktop_id"])


def renew(link: Link, held: Claim, lease: float = LEASE_SECONDS, remains: str | None = None) -> Wish | None:
    """Hold it longer, and say what of its program cannot be ended; what is wanted of it, None if it is not ours."""
    query = """update operation set lease_until = now() + make_interval(secs => %s), remains = %s
        where id = %s and attempt = %s and state = 'running'
        returning case when cancel_requested_at is null then 'none'
            when force_requested_at is not null
                or not recent(cancel_requested_at, make_interval(secs => %s)) then 'kill'
            else 'stop' end as wish"""
    row = link.execute(query, [lease, remains, held.id, held.attempt, STOP_SECONDS]).fetchone()
    return None if row is None else Wish(row["wish"])


def note_program(link: Link, held: Claim, mark: str) -> bool:
    """Write down by which mark all that its program starts is found; false if it is not ours any more."""
    query = "update operation set program = %s where id = %s and attempt = %s and state = 'running' returning id"
    return link.execute(query, [mark, held.id, held.attempt]).fetchone() is not None


def finish(
    link: Link, held: Claim, state: str, *, result: Any = None, problem: Mapping[str, str] | None = None
) -> bool:
    """Write its end down; false if it is not ours any more."""
    query = """update operation set state = %s, ended_at = now(), lease_until = null, program = null, remains = null,
            result = %s, problem = %s
        where id = %s and attempt = %s and state = 'running' returning id"""
    values = [state, Jsonb(result) if result is not None else None, Jsonb(problem) if problem else None]
    if link.execute(query, [*values, held.id, held.attempt]).fetchone() is None:
        return False
    if held.share in MOVING and not (state == "done" and held.kind in FILLING):
        # It may have left room.
        _leave_alone_no_longer(link)
    return True


def wait_for_room(link: Link, held: Claim, reason: str) -> bool:
    """Put it back into the queue until there may be room; false if it waited too long, waits for none, or is not ours.

    Those of its lane need not wait for it meanwhile.
    """
    query = """update operation set state = 'queued', worker = null, lease_until = null, program = null, waits = %s,
            not_before = now() + make_interval(secs => %s), refusals = refusals + 1
        where id = %s and attempt = %s and state = 'running' and share_of(kind) = any(%s)
            and created_at > now() - make_interval(secs => %s) returning id"""
    values = [reason, ROOM_SECONDS, held.id, held.attempt, list(MOVING), MOST_ROOM_SECONDS]
    return link.execute(query, values).fetchone() is not None


def begin_again(link: Link, held: Claim, pause: float = LEASE_SECONDS) -> bool:
    """Have it begun again, since its program was killed; false if it was begun often enough, or is not ours.

    Its lane is held for as long as where a worker is killed: whatever took the memory of all may have ended then.
    """
    say(link, held, KILLED)
    query = """update operation set worker = null, lease_until = now() + make_interval(secs => %s),
            program = null, remains = null
        where id = %s and attempt = %s and state = 'running' and attempt - refusals < %s returning id"""
    return link.execute(query, [pause, held.id, held.attempt, MOST_KILLED]).fetchone() is not None


def forced(kind: str, workspace: str | None, desktop: str | None) -> dict[str, str]:
    """The problem of an operation that was ended by force."""
    remedy = f"see ./inv workspace.status {workspace}; ./inv workspace.up {workspace} puts right what is half done"
    if kind == "desktop.chat":
        remedy = "look at what its agent has done, then write again"
    elif kind == DESTROY:
        remedy = f"it is declared again in a moment if {desktop} is there yet: destroy it again then"
    elif kind == END:
        # What brings it up would make those anew, and empty, that are destroyed already.
        remedy = f"destroy {workspace} again: the last backups of what is gone are in this operation's log"
    elif workspace is None:
        remedy = "see its log, then ask for it again"
    reason = "was killed with all that it had started, since it did not stop: what it was at may be half done"
    return {"field": "operation", "value": kind, "reason": reason, "remedy": remedy}


def _leave_alone_no_longer(link: Link) -> None:
    """Let all that waits for room be tried again now."""
    link.execute("update operation set not_before = null where state = 'queued' and not_before is not null")


def say(link: Link, held: Claim, line: str) -> None:
    """Add a line to its log, while it is ours."""
    query = """insert into operation_log (operation_id, number, attempt, line)
        select id, 1 + coalesce((select max(number) from operation_log where operation_id = %(id)s), 0), attempt,
            %(line)s
        from operation where id = %(id)s and attempt = %(attempt)s and state = 'running'"""
    link.execute(query, {"id": held.id, "attempt": held.attempt, "line": line})


def hold_anew(link: Link, lease: float = LEASE_SECONDS) -> None:
    """Let every lease begin anew: the clock jumped, and none of them says who is gone."""
    query = "update operation set lease_until = now() + make_interval(secs => %s) where state = 'running'"
    link.execute(query, [lease])
    _leave_alone_no_longer(link)


def expired(link: Link) -> list[Row]:
    """Those whose worker is gone and whose program may not be: `id`, `attempt` and `program`."""
    query = """select id, attempt, program from operation
        where state = 'running' and lease_until < now() and program is not null"""
    return link.execute(query).fetchall()


def take_over(link: Link, left: Row, worker: str, lease: float = LEASE_SECONDS) -> Claim | None:
    """Hold what another worker left, until all of its program has ended; None if that or another worker has it.

    From here on it is not the other's any more, however late that wakes; it is begun no more often by this.
    """
    query = """update operation set worker = %s, lease_until = now() + make_interval(secs => %s),
            attempt = attempt + 1, refusals = refusals + 1
        where id = %s and attempt = %s and state = 'running' and lease_until < now()
        returning *, share_of(kind) as share"""
    row = link.execute(query, [worker, lease, left["id"], left["attempt"]]).fetchone()
    return None if row is None else _claim(row)


def give_back(link: Link, held: Claim) -> None:
    """Let it be begun again, or ended: nothing of its program runs any more."""
    query = """update operation set lease_until = now() - interval '1 second', program = null, remains = null
        where id = %s and attempt = %s and state = 'running'"""
    link.execute(query, [held.id, held.attempt])


def put_back(link: Link, held: Claim) -> None:
    """Put what was claimed and not begun back into the queue, for a moment; it counts for no attempt."""
    query = """update operation set state = 'queued', worker = null, lease_until = null,
            not_before = now() + make_interval(secs => %s), refusals = refusals + 1
        where id = %s and attempt = %s and state = 'running'"""
    link.execute(query, [ROOM_SECONDS, held.id, held.attempt])


def sweep(link: Link, lease: float = LEASE_SECONDS, gone: Collection[str] = ()) -> None:
    """Give back what a worker left behind, and end what was cancelled before it began.

    Of those in `gone` it is known that nothing of their programs runs: no other that had one is touched.
    """
    # Nobody holds anything for so long: the clock was set back since.
    link.execute(
        """update operation set lease_until = now() + make_interval(secs => %(lease)s)
        where state = 'running' and lease_until > now() + make_interval(secs => 2 * %(lease)s)""",
        {"lease": lease},
    )
    left = "state = 'running' and lease_until < now() and (program is null or id = any(%(gone)s))"
    values = {"gone": list(gone), "most": MOST_ATTEMPTS, "lost": Jsonb(LOST)}
    link.execute(
        f"""update operation set state = 'queued', worker = null, lease_until = null, program = null
        where {left} and attempt - refusals < %(most)s and cancel_requested_at is null""".encode(),
        values,
    )
    link.execute(
        f"""update operation set state = case when cancel_requested_at is null then 'failed' else 'cancelled' end,
            ended_at = now(), lease_until = null, program = null,
            problem = case when cancel_requested_at is null then %(lost)s end
        where {left} and force_requested_at is null""".encode(),
        values,
    )
    query = f"select id, kind, workspace_id, desktop_id from operation where {left} and force_requested_at is not null"
    for row in link.execute(query.encode(), values).fetchall():
        link.execute(
            """update operation set state = 'cancelled', ended_at = now(), lease_until = null, program = null,
                problem = %s where id = %s and state = 'running' and lease_until < now()""",
            [Jsonb(forced(row["kind"], row["workspace_id"], row["desktop_id"])), row["id"]],
        )
    link.execute(
        """update operation set state = 'cancelled', ended_at = now()
        where state in ('queued', 'waiting') and cancel_requested_at is not null"""
    )
    link.execute(
        """update operation o set state = 'cancelled', ended_at = now() from operation p
        where o.state = 'queued' and p.id = o.after_id and p.state in ('failed', 'cancelled')"""
    )
    link.execute(
        """update message m set state = 'failed' from operation o where m.operation_id = o.id
        and o.state = 'cancelled' and m.state = 'queued'"""
    )
    link.execute("delete from operation_secret where expires_at < now()")
    link.execute("delete from challenge where expires_at < now()")
    link.execute("delete from idempotency where answer is not null and not recent(created_at, '24 hours')")
    link.execute("delete from worker where not recent(seen_at, '1 hour')")
    # The last of them stays: who heard all until then goes on after it, also where nothing happened for a day.
    old = "at < now() - interval '24 hours'"
    link.execute(f"delete from event where {old} and id < (select max(id) from event where {old})")
