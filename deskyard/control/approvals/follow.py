"""Writes down what waits for a person at the gateways, as they say it."""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from deskyard.control.approvals.target import answered_by
from deskyard.control.ground.reasons import Reasons
from deskyard.control.ground.threads import Threads
from deskyard.control.store.connection import Link, attend
from deskyard.control.store.pool import pool
from deskyard.control.store.upsert import upsert
from deskyard.errors import DeskyardError

# Workspaces change by events; this often they are looked at whatever was heard.
LOOK_SECONDS = 30.0
# A gateway that went away tells nobody when it is back.
AGAIN_SECONDS = 5.0
RUNNING = ("ready", "not ready")
# What a ticket is for: the database lets nobody change it who asks gateways.
LASTING = ("id", "ticket", "workspace_id", "desktop_id", "address", "name", "port", "since")
log = logging.getLogger(__name__)
Tickets = Callable[[str], Iterator[Mapping[str, Any]]]


class Follower:
    """Who follows which workspace: `tickets` reads those of one, `wanted` says whether a person is asked there."""

    def __init__(self, url: str, tickets: Tickets, wanted: Callable[[str], bool]) -> None:
        self._url, self._tickets, self._wanted = url, tickets, wanted
        self._pool = pool(url)
        self._threads = Threads(self._follow)
        self._ended = threading.Event()
        self._reasons = Reasons(log, "is not followed now")

    def stop(self, *_: Any) -> None:
        """Follow no more."""
        self._ended.set()

    def run(self) -> None:
        """Follow every workspace that asks, until stopped; a database that went away is waited for."""
        with self._pool:
            attend(self._url, self._ended, self._look_again)

    def _look_again(self, link: Link) -> None:
        link.execute("listen event")
        while not self._ended.is_set():
            self.look(link)
            for _ in link.notifies(timeout=LOOK_SECONDS, stop_after=1):
                pass

    def look(self, link: Link) -> None:
        """Begin to follow what runs and is not followed yet."""
        query = "select id from workspace where gone_at is null and egress = 'locked' and state = any(%s)"
        self._threads.begin(row["id"] for row in link.execute(query, [list(RUNNING)]).fetchall())

    def _follow(self, name: str) -> None:
        try:
            if self._wanted(name):
                for ticket in self._tickets(name):
                    with self._pool.connection() as link:
                        write(link, name, ticket)
            self._reasons.forget(name)
        except (DeskyardError, psycopg.Error) as error:
            self._reasons.say(name, str(error).splitlines()[0])
        # Until then its thread stands for it: a gateway that is away is not asked in a loop.
        self._ended.wait(AGAIN_SECONDS)


def write(link: Link, workspace: str, ticket: Mapping[str, Any]) -> None:
    """Write a ticket down as its gateway says it; a new one is a line of the audit."""
    answer = ticket["answer"] or {}
    values = {
        "id": f"{workspace}.{ticket['id']}",
        "ticket": ticket["id"],
        "workspace_id": workspace,
        "desktop_id": f"{workspace}.{ticket['desktop']}",
        **{name: ticket[name] for name in ("address", "name", "port", "state", "tries", "held", "held_until")},
        **{"since": ticket["since"], "until": ticket["until"], "last_at": ticket["last"]},
        **{
            "verdict": answer.get("verdict"),
            "decided_by": answered_by(answer.get("actor")),
            "reason": answer.get("reason", ""),
        },
        **{"decided_at": answer.get("time"), "ends_at": answer.get("until")},
    }
    query = f"{upsert('approval', list(values), LASTING)} returning (xmax = 0) as is_new"
    with link.transaction():
        row = link.execute(query.encode(), list(values.values())).fetchone()
        if row is not None and row["is_new"]:
            detail = Jsonb({"approval": values["id"], "port": ticket["port"], "since": ticket["since"]})
            link.execute(
                "insert into audit_intake (actor, action, target, detail) values (%s, 'approval.raised', %s, %s)",
                [f"desktop:{values['desktop_id']}", f"{ticket['name']}:{ticket['port']}", detail],
            )
