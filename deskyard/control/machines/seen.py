"""Which image each desktop's system started from, and which is built by now, as their host says: no guest is asked."""

import contextlib
import threading
from collections.abc import Mapping
from typing import Any

from psycopg.types.json import Jsonb

from deskyard.control.store.connection import Link
from deskyard.errors import DeskyardError
from deskyard.host.deadline import Deadline
from deskyard.image.store import store
from deskyard.plan.workspace import WorkspacePlan

# An image takes minutes to build, and its digest a fifth of a second to work out.
BUILT_SECONDS = 60.0


class Built:
    """The images that are built from the current sources: for all workspaces looked up once a minute."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, tuple[Deadline, str | None]] = {}

    def newest(self, name: str) -> str | None:
        """The image of a name that an upgrade would take, as NAME-DIGEST; None if it is not built."""
        with self._lock:
            known = self._found.get(name)
            if known is None or known[0].is_over:
                known = self._found[name] = (Deadline(BUILT_SECONDS), _newest(name))
            return known[1]


def _newest(name: str) -> str | None:
    # An image whose sources are wrong is told of where it is built.
    with contextlib.suppress(DeskyardError, OSError):
        if (built := store.find(name)) is not None:
            return f"{built.name}-{built.digest}"
    return None


def write(link: Link, plan: WorkspacePlan, images: Mapping[str, str], built: Built) -> None:
    """Write down of each desktop that is kept which image it runs, of those by machine, and which there is for it."""
    seen = {
        desktop.name: {"now": images.get(desktop.machine.domain), "newest": built.newest(desktop.machine.image)}
        for desktop in plan.desktops
    }
    values: dict[str, Any] = {"workspace": plan.name, "names": list(seen), "seen": Jsonb(seen)}
    changed = """workspace_id = %(workspace)s and name = any(%(names)s) and (image_now, image_newest)
        is distinct from (%(seen)s::jsonb -> name ->> 'now', %(seen)s::jsonb -> name ->> 'newest')"""
    with link.transaction():
        # In the order in which everybody locks them.
        link.execute(f"select 1 from desktop where {changed} order by id for update".encode(), values)
        link.execute(
            f"""update desktop set image_now = %(seen)s::jsonb -> name ->> 'now',
                image_newest = %(seen)s::jsonb -> name ->> 'newest' where {changed}""".encode(),
            values,
        )
