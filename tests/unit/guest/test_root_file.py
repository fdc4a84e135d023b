"""Files of root's on a desktop change whole or not at all, and one run at a time."""

import os
import threading
from pathlib import Path

import pytest

from deskyard.guest import root_file


def test_file_is_written_left_alone_and_removed(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "file"
    states = [root_file.put(path, text, 0o640) for text in ("a\n", "a\n", "b\n", None, None)]
    assert states == ["changed", "unchanged", "changed", "removed", "unchanged"]
    assert list(path.parent.iterdir()) == []


def test_file_with_another_mode_or_group_is_brought_in_step(tmp_path: Path) -> None:
    path = tmp_path / "file"
    root_file.put(path, "a\n", 0o640)
    assert root_file.put(path, "a\n", 0o600) == "changed"
    assert root_file.read(path) == (b"a\n", 0o600, os.geteuid(), os.getegid())
    assert root_file.put(path, "a\n", 0o600, os.getegid()) == "unchanged"


def test_folder_that_is_a_link_is_not_entered(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to("other")
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        root_file.put(tmp_path / "link" / "file", "a\n", 0o600)
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"), root_file.alone(tmp_path / "link"):
        pass
    assert list((tmp_path / "other").iterdir()) == []


def test_draft_of_a_write_that_fails_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    root_file.put(tmp_path / "file", "a\n", 0o600)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        root_file.put(tmp_path / "file", "b\n", 0o600)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "a\n"


def test_run_waits_for_another_and_gives_up_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, leave = threading.Event(), threading.Event()

    def first() -> None:
        with root_file.alone(tmp_path):
            inside.set()
            leave.wait(30)

    thread = threading.Thread(target=first)
    thread.start()
    assert inside.wait(30)
    with monkeypatch.context() as patch:
        patch.setattr(root_file, "BUSY_SECONDS", 0.0)
        with pytest.raises(OSError, match="still at work"), root_file.alone(tmp_path):
            pass
    leave.set()
    with root_file.alone(tmp_path):
        pass
    thread.join()
