"""Whether the process for E2B's clients answers, and what is shown where it does not."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from deskyard.control import state
from deskyard.control.ground.folder import Folder

FINE, STATUS = b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    found = Folder(tmp_path)
    found.sockets.mkdir()
    found.logs.mkdir()
    return found


@contextmanager
def saying(folder: Folder, answer: bytes, pause: float = 0.0) -> Iterator[None]:
    """Somebody at the socket who says this, with a pause after each letter, until who asked leaves."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder.e2b_socket))
        listener.listen()

        def speak() -> None:
            link, _ = listener.accept()
            with link, suppress(BrokenPipeError, ConnectionResetError):
                link.recv(4096)
                for letter in answer:
                    link.sendall(bytes([letter]))
                    time.sleep(pause)

        speaker = threading.Thread(target=speak)
        speaker.start()
        yield
        speaker.join(60)
        assert not speaker.is_alive()


@pytest.mark.parametrize(("said", "answers"), [(FINE, True), (STATUS, False), (b"", False), (b"no\n", False)])
def test_it_answers_where_it_says_that_all_is_well(folder: Folder, said: bytes, answers: bool) -> None:
    with saying(folder, said):
        assert state.door_answers(folder) is answers


def test_nobody_there_does_not_answer(folder: Folder) -> None:
    assert not state.door_answers(folder)


def test_an_answer_that_comes_slowly_is_awaited_no_longer_than_any_other(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "ANSWER_SECONDS", 0.5)
    with saying(folder, FINE, 0.1):
        assert not state.door_answers(folder)


def test_the_end_of_its_log_is_shown_and_moves_no_terminal(folder: Folder) -> None:
    assert "it said nothing" in state.door_fault(folder)
    log = folder.logs / "e2b.log"
    log.write_bytes(b"x" * 10_000 + b"\nearlier\n--state: cannot be used\n\n  -> give another\n\x1b[2J\x1b]0;\xff\r\n")
    shown = state.door_fault(folder)
    assert "--state: cannot be used -> give another ?[2J?]0;" in shown and "earlier" not in shown
    assert shown.isprintable() and str(log) in shown
    log.write_text("y" * 10_000)
    assert len(state.door_fault(folder)) < 1000
