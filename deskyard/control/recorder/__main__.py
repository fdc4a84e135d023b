"""python -m deskyard.control.recorder URL ACCOUNT [NETWORK]: takes what is to be kept, and appends it to the chain."""

import logging
import signal
import sys
import threading

from psycopg.types.json import Jsonb

from deskyard.control.ground.confinement import confine, die_with_parent
from deskyard.control.recorder.chain import START, line_hash
from deskyard.control.store.connection import Link, attend

AT_ONCE = 500
# Without any news it looks again: a notification may have been lost with a connection.
LOOK_SECONDS = 10.0


def append(link: Link) -> int:
    """Move what waits into the chain, in one transaction; how many lines."""
    with link.transaction():
        # Two recorders at once would both go on from the same line.
        link.execute("select pg_advisory_xact_lock(4711)")
        waiting = link.execute("select * from audit_intake order by id limit %s", [AT_ONCE]).fetchall()
        last = link.execute("select number, hash from audit_entry order by number desc limit 1").fetchone()
        number, before = (last["number"], bytes(last["hash"])) if last else (0, START)
        for entry in waiting:
            number += 1
            before = line_hash(before, {**entry, "number": number})
            link.execute(
                "insert into audit_entry (number, at, actor, action, target, detail, hash)"
                " values (%s, %s, %s, %s, %s, %s, %s)",
                [
                    *(number, entry["at"], entry["actor"], entry["action"], entry["target"]),
                    *(Jsonb(entry["detail"]), before),
                ],
            )
        link.execute("delete from audit_intake where id = any(%s)", [[entry["id"] for entry in waiting]])
    return len(waiting)


def follow(link: Link) -> None:
    """Append for ever what comes."""
    link.execute("listen audit")
    while True:
        while append(link):
            pass
        for _ in link.notifies(timeout=LOOK_SECONDS, stop_after=1):
            pass


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    die_with_parent(signal.SIGKILL)
    confine(sys.argv[2], namespace=int(sys.argv[3]) if sys.argv[3:] else None)
    # The signal of a parent's death is forgotten when the account changes.
    die_with_parent(signal.SIGKILL)
    attend(sys.argv[1], threading.Event(), follow)
