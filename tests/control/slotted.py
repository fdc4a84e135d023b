"""A worker of the test's own process, whose slots a test chooses."""

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from deskyard.control.jobs.running import Runner
from deskyard.control.jobs.standby import Standby
from deskyard.control.jobs.worker import Worker
from deskyard.control.people.passkeys import Passkeys
from deskyard.control.store.cluster import WORKER
from tests.control.lab import ORIGIN, WAIT_SECONDS, Lab


@contextmanager
def slotted(mission: Lab, slots: Mapping[str, int] | None = None, **parts: Any) -> Iterator[None]:
    """A worker with these slots, or its host's, and these parts of its runner, in place of the one that runs."""
    mission.end("worker")
    mission.link.execute("delete from worker")
    with patch.dict(os.environ, {"LAB": str(mission.path)}):
        runner = Runner(Passkeys(ORIGIN), Standby([sys.executable, "-m", "tests.control.child"]), **parts)
        worker = Worker(mission.url(WORKER), runner, slots)
        thread = threading.Thread(target=worker.run)
        thread.start()
        try:
            yield
        finally:
            worker.stop()
            thread.join(WAIT_SECONDS)
