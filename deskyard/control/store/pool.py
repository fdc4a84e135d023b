"""A few connections for many threads: as many as there are workspaces would be more than a role may have."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

from deskyard.control.store.connection import Link

MOST = 6
Pool = ConnectionPool[Link]
# Gives a connection for a moment.
Lend = Callable[[], AbstractContextManager[Link]]


def pool(url: str) -> Pool:
    """A pool, to be opened by `with`: who wants a connection waits for one that is free, and uses it for a moment.

    Each statement counts at once, unless a transaction is begun; one that broke meanwhile is replaced.
    """
    options = {"autocommit": True, "row_factory": dict_row}
    return Pool(url, kwargs=options, min_size=0, max_size=MOST, open=False, check=Pool.check_connection)
