"""Connections to the database, which may go away and come back."""

import logging
import threading
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg.rows import dict_row

AGAIN_SECONDS = 1.0
# What changes or counts whole tables lasts as long as they are large.
UNBOUNDED = "-c statement_timeout=0 -c idle_in_transaction_session_timeout=0"
# A wrong statement is as wrong a second later: its traceback fills no log.
MISTAKEN_SECONDS = 10.0
# The database, or the way to it, was away or busy: the same may go well later. Every other error is a wrong statement.
AWAY = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.errors.IdleInTransactionSessionTimeout,
    psycopg.errors.ReadOnlySqlTransaction,
)
Row = dict[str, Any]
Link = psycopg.Connection[Row]
log = logging.getLogger(__name__)


def connect(url: str, **parameters: str) -> Link:
    """A connection on which each statement counts at once, unless a transaction is begun."""
    return psycopg.connect(url, autocommit=True, row_factory=dict_row, **parameters)  # type: ignore[arg-type]


def unbounded(url: str) -> Link:
    """A connection on which a statement may last, for what works on whole tables."""
    return connect(url, options=UNBOUNDED)


def attend(url: str, ended: threading.Event, work: Callable[[Link], None]) -> None:
    """Work with a connection until the end; a database that went away is waited for, and the work begun anew.

    So it is after a statement that was refused, which is no fault of the database, and said to be none.
    """
    while not ended.is_set():
        try:
            with connect(url) as link:
                work(link)
        except AWAY as error:
            log.warning("no database, which is asked again: %s", error)
            ended.wait(AGAIN_SECONDS)
        except psycopg.Error:
            log.exception("the database refused a statement, which is a mistake of this program; it begins anew")
            ended.wait(MISTAKEN_SECONDS)
