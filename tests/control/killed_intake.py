"""Takes in what tasks changed, and is killed at a statement: python -m tests.control.killed_intake URL NUMBER."""

import os
import signal
import sys
from typing import Any

import psycopg
from psycopg.rows import dict_row

from deskyard.control.watch.changes import Intake


class Killed(psycopg.Cursor[dict[str, Any]]):
    """A cursor of a process that is killed at a statement."""

    left = int(sys.argv[2])

    def _count(self) -> None:
        if not Killed.left:
            os.kill(os.getpid(), signal.SIGKILL)
        Killed.left -= 1

    def execute(self, *arguments: Any, **options: Any) -> Any:
        """Run a statement, unless it is the one."""
        self._count()
        return super().execute(*arguments, **options)

    def executemany(self, *arguments: Any, **options: Any) -> None:
        """The same for many at once."""
        self._count()
        super().executemany(*arguments, **options)
        # Sent, and not committed.
        self._count()


if __name__ == "__main__":
    with psycopg.connect(sys.argv[1], autocommit=True, row_factory=dict_row, cursor_factory=Killed) as link:
        Intake().look(link)
    # All is committed, and nobody hears of it.
    if Killed.left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
