"""Segments on disk: bounded by age and size, and after a killed service readable up to their last whole block."""

import json
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deskyard.computer.recording import fbs
from deskyard.computer.recording.asked import MOST_SIZE_BYTES, Asked, NotUnderstood, read, written
from deskyard.computer.recording.shelf import Shelf

TREE = Path(__file__).resolve().parents[4]
SIZE = (64, 48)
GREETING = len(fbs.beginning(*SIZE))
WRITES_FOR_EVER = """
import sys, time
from pathlib import Path
from deskyard.computer.recording.shelf import Shelf
segment = Shelf(Path(sys.argv[1])).begin((64, 48), time.time())
while True:
    segment.frame(b"frame" * 1000)
    segment.action(time.monotonic(), {"kind": "click"})
    print(segment.length, flush=True)
"""


def segment(shelf: Shelf, at: float, frame: bytes = b"frame") -> str:
    """A closed segment of that time."""
    begun = shelf.begin(SIZE, at)
    begun.frame(frame)
    shelf.close()
    return begun.id


def ids(shelf: Shelf) -> list[str]:
    return [entry.id for entry, _ in shelf.entries()]


def on_disk(shelf: Shelf) -> list[str]:
    return sorted({path.name.split(".")[0] for path in shelf.folder.iterdir()})


def test_old_segments_go_and_younger_ones_stay(tmp_path: Path) -> None:
    first, now = Shelf(tmp_path), time.time()
    old, young = segment(first, now - 4000), segment(first, now - 3000)
    for id, end in ((old, now - 3700), (young, now - 2900)):
        about = tmp_path / f"{id}.json"
        about.write_text(json.dumps(json.loads(about.read_text()) | {"end": end}))
    shelf, bounds = Shelf(tmp_path), Asked(3600, 1 << 30)
    shelf.find()
    assert ids(shelf) == [old, young] and shelf.expires(bounds) == 0
    shelf.keep(bounds)
    assert ids(shelf) == on_disk(shelf) == [young]
    assert 600 < shelf.expires(bounds) <= 700


def test_oldest_segments_go_when_there_is_too_much(tmp_path: Path) -> None:
    shelf, now = Shelf(tmp_path), time.time()
    names = [segment(shelf, now - 100 + number, bytes(10_000)) for number in range(5)]
    each = shelf.total // 5
    assert each == sum(path.stat().st_size for path in tmp_path.iterdir() if path.suffix != ".json") // 5
    shelf.keep(Asked(3600, 3 * each))
    assert ids(shelf) == on_disk(shelf) == names[2:]
    shelf.keep(Asked(3600, 3 * each), room=1)
    assert ids(shelf) == on_disk(shelf) == names[3:]
    assert shelf.total == 2 * each


def test_segment_in_hand_is_never_removed(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    begun = shelf.begin(SIZE, time.time() - 9000)
    begun.frame(bytes(10_000))
    shelf.keep(Asked(3600, 1))
    assert ids(shelf) == [begun.id] and not shelf.remove(begun.id)
    shelf.close()
    assert shelf.remove(begun.id) and on_disk(shelf) == []


def test_names_stay_in_order_when_the_clock_is_put_back(tmp_path: Path) -> None:
    shelf, now = Shelf(tmp_path), time.time()
    first, second = segment(shelf, now), segment(shelf, now - 500)
    assert int(second) > int(first)


def test_segment_without_a_frame_leaves_nothing(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.begin(SIZE, time.time())
    shelf.close()
    assert (ids(shelf), on_disk(shelf)) == ([], [])


def test_killed_writer_leaves_what_the_next_start_finds_whole(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITES_FOR_EVER, str(tmp_path)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(TREE)})
    assert child.stdout is not None
    reported = [int(child.stdout.readline()) for _ in range(20)][-1]
    child.send_signal(signal.SIGKILL)
    assert child.wait(20) == -signal.SIGKILL
    child.stdout.close()
    shelf = Shelf(tmp_path)
    shelf.find()
    ((entry, is_open),) = shelf.entries()
    assert not is_open and entry.size == SIZE and entry.frames >= 20 and entry.bytes >= reported
    lines = (tmp_path / f"{entry.id}.jsonl").read_text().splitlines()
    assert len(lines) == entry.actions >= 20 and all(json.loads(line)["kind"] == "click" for line in lines)
    assert int(segment(shelf, time.time())) > int(entry.id)


@pytest.mark.parametrize("tail", [b"\0", b"\0\0\x10\0half of it", bytes(500), struct.pack(">I", 8) + bytes(8) + b"\0"])
def test_tail_that_is_not_whole_is_cut_off(tmp_path: Path, tail: bytes) -> None:
    shelf = Shelf(tmp_path)
    id = segment(shelf, time.time())
    (tmp_path / f"{id}.json").unlink()
    whole = (tmp_path / f"{id}.fbs").read_bytes()
    (tmp_path / f"{id}.fbs").write_bytes(whole + tail)
    (tmp_path / f"{id}.jsonl").write_bytes(b'{"kind": "key"}\n{"kind": "cli')
    again = Shelf(tmp_path)
    again.find()
    ((entry, _),) = again.entries()
    assert (tmp_path / f"{id}.fbs").read_bytes() == whole
    assert (tmp_path / f"{id}.jsonl").read_bytes() == b'{"kind": "key"}\n'
    assert (entry.frames, entry.actions, entry.bytes) == (1, 1, len(whole) + 16)
    third = Shelf(tmp_path)
    third.find()
    assert third.entries() == again.entries()


@pytest.mark.parametrize("content", [b"", b"FBS 001.000\n", b"something else", fbs.beginning(*SIZE)])
def test_file_in_which_nothing_can_be_seen_goes(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "1700000000000.fbs").write_bytes(content)
    (tmp_path / "1700000000000.jsonl").touch()
    (tmp_path / "notes.txt").write_text("mine")
    shelf = Shelf(tmp_path)
    shelf.find()
    assert shelf.entries() == [] and [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_finding_makes_nothing(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "recordings")
    shelf.find()
    assert shelf.entries() == [] and not shelf.folder.exists() and shelf.free() > 0


def test_file_of_the_declaration_is_read_as_it_was_written() -> None:
    assert read(written(Asked(86400, 2 << 30))) == Asked(86400, 2 << 30)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no JSON"),
        ("[]", "keep_seconds and size_bytes"),
        ('{"keep_seconds": 3600}', "keep_seconds and size_bytes"),
        ('{"keep_seconds": 3600, "size_bytes": 67108864, "more": 1}', "keep_seconds and size_bytes"),
        ('{"keep_seconds": true, "size_bytes": 67108864}', "keep_seconds"),
        ('{"keep_seconds": 3599, "size_bytes": 67108864}', "keep_seconds"),
        (f'{{"keep_seconds": 3600, "size_bytes": {MOST_SIZE_BYTES + 1}}}', "size_bytes"),
    ],
)
def test_what_cannot_be_followed_is_named(text: str, reason: str) -> None:
    with pytest.raises(NotUnderstood, match=reason):
        read(text)
