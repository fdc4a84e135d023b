"""The program that keeps a desktop's keys: whole or not at all, guarded, and no value in what it says."""

import grp
import hashlib
import hmac
import json
import os
from pathlib import Path
from typing import Any

import pytest

from deskyard.guest import keys

GROUP = grp.getgrgid(os.getegid()).gr_name
TEXT = "# head\nA_API_KEY='canary-1'\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deskyard" / "keys.env"


def reply(path: Path, **what: Any) -> dict[str, Any]:
    answer = keys.answer({"path": str(path), "group": GROUP, **what})
    assert "canary" not in json.dumps(answer)
    return answer


def test_the_file_is_made_left_alone_changed_and_removed(path: Path) -> None:
    assert reply(path, text=TEXT) == {"done": "changed"}
    assert path.stat().st_mode & 0o7777 == 0o640
    inode = path.stat().st_ino
    assert reply(path, text=TEXT) == {"done": "unchanged"}
    assert path.stat().st_ino == inode
    assert reply(path, text=TEXT.replace("1", "2")) == {"done": "changed"}
    assert "canary-2" in path.read_text()
    assert reply(path, text=None) == {"done": "removed"}
    assert reply(path, text=None) == {"done": "unchanged"}
    assert list(path.parent.iterdir()) == []


def test_a_file_that_others_may_read_is_mended(path: Path) -> None:
    reply(path, text=TEXT)
    path.chmod(0o644)
    assert reply(path, nonce="n")["guarded"] is False
    assert reply(path, text=TEXT) == {"done": "changed"}
    assert reply(path, nonce="n")["guarded"] is True


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_what_is_no_plain_file_is_replaced_and_not_followed(path: Path, tmp_path: Path, kind: str) -> None:
    other = tmp_path / "other"
    other.write_text(TEXT)
    path.parent.mkdir()
    if kind == "link":
        path.symlink_to(other)
    else:
        os.mkfifo(path)
    assert reply(path, nonce="n") == {"exists": True, "guarded": False, "lines": []}
    assert reply(path, text=TEXT.replace("1", "2")) == {"done": "changed"}
    assert path.is_file() and not path.is_symlink()
    assert other.read_text() == TEXT


def test_a_run_that_was_killed_leaves_nothing_in_the_way(path: Path) -> None:
    path.parent.mkdir()
    (path.parent / ".keys.env.new").write_text("canary-0")
    assert reply(path, text=TEXT) == {"done": "changed"}
    assert [file.name for file in path.parent.iterdir()] == ["keys.env"]


def test_codes_tell_only_who_knows_the_value(path: Path) -> None:
    reply(path, text=f"{TEXT}export X=1\nB_API_KEY=\n")
    code = hmac.new(b"n", b"A_API_KEY='canary-1'", hashlib.sha256).hexdigest()
    assert reply(path, nonce="n") == {"exists": True, "guarded": True, "lines": [("A_API_KEY", code)]}
    assert reply(path, nonce="m")["lines"] != [("A_API_KEY", code)]


def test_what_goes_wrong_is_said_without_the_keys(path: Path) -> None:
    (path.parent / "keys.env").mkdir(parents=True)
    assert "Is a directory" in reply(path, text=TEXT)["error"]
    assert [file.name for file in path.parent.iterdir()] == ["keys.env"]
    answer = keys.answer({"path": str(path), "group": "nobody-has-this", "text": TEXT})
    assert answer == {"error": "there is no group nobody-has-this"}
