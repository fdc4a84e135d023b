"""Work that goes on at once: all of it is done, and an interruption ends all of it."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from deskyard.errors import BuildError
from deskyard.host.at_once import together
from deskyard.host.command import run
from deskyard.host.progress import Timings, say


def test_everything_is_done_and_timed(capsys: pytest.CaptureFixture[str]) -> None:
    timings = Timings()
    together({"one": lambda: say("hello"), "two": lambda: None}, timings)
    assert set(timings.steps) == {"one", "two"}
    assert "[one] hello" in capsys.readouterr().err


def test_a_failure_lets_the_others_finish_and_is_raised() -> None:
    done: list[str] = []

    def fail() -> None:
        raise BuildError("image", "one", "cannot be built", "mend it")

    def work() -> None:
        time.sleep(0.2)
        done.append("two")

    with pytest.raises(BuildError, match="cannot be built"):
        together({"one": fail, "two": work}, Timings())
    assert done == ["two"]


@pytest.mark.usefixtures("ctrl_c")
def test_an_interruption_ends_the_programs_of_all_and_starts_no_more(tmp_path: Path) -> None:
    notes = [tmp_path / name for name in ("one", "two")]
    started: list[str] = []

    def work(note: Path) -> None:
        run(["sh", "-c", f"echo $$ > {note}; sleep 600"], timeout=600, check=False)
        started.append(note.name)

    def interrupt() -> None:
        for _ in range(2400):
            if all(note.exists() and note.read_text().strip() for note in notes):
                break
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        together({note.name: lambda note=note: work(note) for note in notes}, Timings())  # type: ignore[misc]
    assert started == []
    for note in notes:
        assert not Path(f"/proc/{note.read_text().strip()}").exists()
    assert run(["true"], timeout=10).code == 0
