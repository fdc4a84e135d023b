"""No more machines go on from templates at once than this machine has processors."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deskyard.site.libvirt.limits.starts import turn

SECONDS = 60.0


class Starts:
    """Machines that start, each for as long as a test says; `most` is how many did so at once."""

    def __init__(self) -> None:
        self._lock, self._now = threading.Lock(), 0
        self.most, self.begun, self.may_end = 0, threading.Semaphore(0), threading.Event()

    def start(self) -> None:
        """Take a turn."""
        with turn():
            with self._lock:
                self._now += 1
                self.most = max(self.most, self._now)
            self.begun.release()
            assert self.may_end.wait(SECONDS)
            with self._lock:
                self._now -= 1


@pytest.mark.parametrize("processors", [1, 2, None])
def test_as_many_start_at_once_as_there_are_processors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processors: int | None
) -> None:
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    monkeypatch.setattr(os, "cpu_count", lambda: processors)
    starts = Starts()
    with ThreadPoolExecutor(8) as pool:
        started = [pool.submit(starts.start) for _ in range(8)]
        assert all(starts.begun.acquire(timeout=SECONDS) for _ in range(processors or 1))
        starts.may_end.set()
        for each in started:
            each.result(SECONDS)
    assert starts.most == (processors or 1)


def test_a_start_that_fails_leaves_its_place_to_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    for _ in range(2):
        with pytest.raises(ValueError, match="no memory"), turn():
            raise ValueError("no memory")
