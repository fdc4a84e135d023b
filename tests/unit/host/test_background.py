"""Programs in the background are found again, and strangers are left alone."""

import json
import os
from pathlib import Path

from deskyard.host.background import Background


def test_a_program_is_started_once_and_ended(tmp_path: Path) -> None:
    sleeper = Background("sleeper", tmp_path)
    sleeper.start(["sleep", "60"])
    pid = sleeper.pid()
    sleeper.start(["sleep", "60"])
    assert pid is not None
    assert sleeper.pid() == pid
    sleeper.stop()
    assert sleeper.pid() is None
    assert not sleeper.pid_file.exists()


def test_another_command_line_replaces_the_program(tmp_path: Path) -> None:
    sleeper = Background("sleeper", tmp_path)
    sleeper.start(["sleep", "60"])
    first = sleeper.pid()
    sleeper.start(["sleep", "61"])
    try:
        assert sleeper.pid() != first
    finally:
        sleeper.stop()


def test_a_stale_pid_file_never_ends_a_stranger(tmp_path: Path) -> None:
    stale = Background("stale", tmp_path)
    stale.pid_file.write_text(json.dumps({"pid": os.getpid(), "started": 1, "argv": ["sleep"]}))
    assert stale.pid() is None
    stale.stop()
    assert not stale.pid_file.exists()
