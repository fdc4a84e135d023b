"""Text arrives as it was meant under each layout: an owner chooses it, and an agent need not know which.

It is read by a window that notes keys as the core protocol has them, and by an xterm, which reads them as Xlib does.
"""

import contextlib
import os
import random
import select
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import xcffib.sync
import xcffib.xproto as xproto

import deskyard.computer.display.acting.program as program
from deskyard.computer.display.acting import keyboard
from deskyard.computer.display.acting.drive import KEY_PRESS, KEY_RELEASE, fake
from deskyard.computer.display.x_server import XConnection
from tests.computer.desktop import PATIENCE, Recorder, Service, XServer
from tests.support.requirements import need_programs

# The last has two groups, of which the second is in force.
LAYOUTS = ("us", "de", "fr", "ru", "jp", "gr", "us,ru")
OPTIONS = ("-option", "", "-option", "grp:menu_toggle")
ISO_NEXT_GROUP = 0xFE08
U_UMLAUT, OMEGA = 0xFC, 0x100_03A9
SCRIPTS = (
    "".join(map(chr, range(0x20, 0x7F))),
    "äöüßéèàçñøåÿ£§¿¡«»€",
    "αβγδωΩйцукенгЯЖабвгд",
    "日本語漢字東京中文한국어かなカナ",
    "🎉🚀😀👍🌍",
)
PIECE, PIECES, PIECE_DEEP, CHARACTERS_DEEP = 120, 2, 2_000, 100_000
# Requests of the core protocol that do nothing: enough for a server to have something to do for a second or two.
NOTHING = bytes([127, 0, 1, 0]) * 65_536
BUSY = 2_000


def sample(chance: random.Random, length: int) -> str:
    """A text of many scripts, in words of each."""
    text = ""
    while len(text) < length:
        text += "".join(chance.choices(chance.choice(SCRIPTS), k=chance.randint(1, 8)))
    return text[:length]


@pytest.fixture
def choose(server: XServer) -> Iterator[Callable[[str], None]]:
    """What gives the keyboard a layout; afterwards it has the usual one."""
    need_programs("setxkbmap")

    def chosen(layout: str) -> None:
        argv = ["setxkbmap", "-display", server.display, "-layout", layout, *OPTIONS]
        subprocess.run(argv, check=True, timeout=PATIENCE)
        c = XConnection(server.display)
        wanted = layout.count(",")
        if _group(c) != wanted:
            _toggle(c)
        assert _group(c) == wanted
        c.close()

    yield chosen
    chosen("us,ru")
    chosen("us")


def _group(c: XConnection) -> int:
    return int(c.core.QueryPointer(c.root).reply().mask >> 13 & 3)


def _toggle(c: XConnection) -> None:
    first, last = c.x.get_setup().min_keycode, c.x.get_setup().max_keycode
    found = c.core.GetKeyboardMapping(first, last - first + 1).reply()
    keycode = first + list(found.keysyms).index(ISO_NEXT_GROUP) // found.keysyms_per_keycode
    for kind in (KEY_PRESS, KEY_RELEASE):
        fake(c, kind, keycode)
    c.settle()


def arrives(service: Service, recorder: Recorder, text: str) -> None:
    """Type a text, and compare what came of it."""
    before = len(recorder.text)
    service.did({"type": "type", "text": text})
    recorder.until(lambda: len(recorder.text) >= before + len(text), "the text")
    assert recorder.text[before:] == text


@pytest.mark.parametrize("layout", LAYOUTS)
def test_text_of_many_scripts_arrives_under_each_layout(
    service: Service, recorder: Recorder, choose: Callable[[str], None], random_seed: int, layout: str
) -> None:
    chance = random.Random(f"{random_seed} {layout}")
    choose(layout)
    for _ in range(PIECES):
        arrives(service, recorder, sample(chance, PIECE))


def test_a_map_is_read_anew_where_it_changed_alone(
    server: XServer, choose: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    choose("us")
    learned: list[int] = []
    learn = keyboard.Keyboard._learn

    def noted(board: keyboard.Keyboard, keycode: int, row: list[int], group: int) -> None:
        learned.append(keycode)
        learn(board, keycode, row, group)

    c, answered = XConnection(server.display), program.Answered(server.display)
    try:
        board = keyboard.Keyboard(c, answered)
        board.read()
        monkeypatch.setattr(keyboard.Keyboard, "_learn", noted)
        board.read()
        assert not learned and board.find(U_UMLAUT) is None
        choose("de")
        board.read()
        assert learned and board.find(U_UMLAUT)
        board.give([OMEGA])
        given = board.find(OMEGA)
        # Of the keys of its own it learns nothing: they stay what they were given.
        board.read()
        assert given and board.find(OMEGA) == given
        learned.clear()
        board.read()
        assert not learned and board.find(OMEGA) == given
    finally:
        c.close()
        answered.line.close()


def test_what_an_ended_service_gave_spare_keys_is_the_next_ones_to_give(
    server: XServer, choose: Callable[[str], None]
) -> None:
    choose("us")
    answered, spare = program.Answered(server.display), set[int]()
    try:
        for start in range(OMEGA, OMEGA + 25 * keyboard.MOST_NEW, keyboard.MOST_NEW):
            c = XConnection(server.display)
            board = keyboard.Keyboard(c, answered)
            board.read()
            spare.add(len(board._spare))
            new = range(start, start + min(keyboard.MOST_NEW, len(board._spare) // 2))
            board.give(new)
            board.read()
            assert all(board.find(keysym) for keysym in new)
            c.close()
        assert len(spare) == 1
        # Any program may write there.
        c = XConnection(server.display)
        for wrong in ([], [1], [2, 3], [1 << 31, 1], [c.keycodes.stop, 7], [c.keycodes.start, 0], [255] * 501):
            choose("us")
            atom, kind = c.atom(keyboard.GIVEN), xproto.Atom.CARDINAL
            c.core.ChangeProperty(xproto.PropMode.Replace, c.root, atom, kind, 32, len(wrong), wrong)
            board = keyboard.Keyboard(c, answered)
            board.read()
            board.give([OMEGA])
            board.read()
            assert board.find(OMEGA)
        c.close()
    finally:
        answered.line.close()


@pytest.mark.deep
@pytest.mark.parametrize("layout", LAYOUTS)
def test_not_a_character_of_a_hundred_thousand_is_wrong(
    service: Service, recorder: Recorder, choose: Callable[[str], None], random_seed: int, layout: str
) -> None:
    chance = random.Random(f"{random_seed} {layout} deep")
    choose(layout)
    for _ in range(-(-CHARACTERS_DEEP // len(LAYOUTS) // PIECE_DEEP)):
        arrives(service, recorder, sample(chance, PIECE_DEEP))


class Terminal:
    """An xterm that reads a line and ends with it, from when its window is as `event` and `match` say, and ready."""

    def __init__(self, server: XServer, service: Service, folder: Path, event: str, match: dict[str, str]) -> None:
        self._service, self._before, self._line = service, service.last(), folder / "line"
        self.process = server.start("xterm", "-u8", "-e", "sh", "-c", f"head -n1 > {self._line}")
        self.window = service.wait(event, match=match, after=self._before)["id"]
        service.wait("app.ready", match={"id": self.window}, after=self._before)

    def read(self) -> str:
        """What it read, once it has ended."""
        self._service.wait("window.closed", match={"id": self.window}, after=self._before)
        self.process.wait(PATIENCE)
        return self._line.read_text()


@pytest.mark.parametrize("layout", ["fr", "ru", "us,ru"])
def test_a_terminal_reads_what_was_meant_under_each_layout(
    server: XServer,
    service: Service,
    choose: Callable[[str], None],
    tmp_path: Path,
    random_seed: int,
    layout: str,
) -> None:
    text = sample(random.Random(f"{random_seed} {layout} terminal"), PIECE)
    choose(layout)
    terminal = Terminal(server, service, tmp_path, "window.appeared", {"class": "xterm"})
    service.did({"type": "type", "text": f"{text}\n"})
    assert terminal.read() == f"{text}\n"


def test_a_program_that_is_behind_is_waited_for_also_before_the_window_manager_names_its_window(
    server: XServer,
    service: Service,
    choose: Callable[[str], None],
    tmp_path: Path,
    random_seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on a busy machine: the terminal has the keyboard's focus and reads nothing yet, and the manager is later."""
    text = sample(random.Random(f"{random_seed} behind"), PIECE)
    look = program.look
    looked: list[int] = []

    def resumed(pid: int) -> program.Look | None:
        # When it has ended, none is looked at any more, or another one.
        if pid == terminal.process.pid and not looked:
            looked.append(pid)
            os.kill(pid, signal.SIGCONT)
        return look(pid)

    choose("us,ru")
    terminal = Terminal(server, service, tmp_path, "window.focus", {"title": "sh"})
    c = XConnection(server.display)
    server.window_manager.send_signal(signal.SIGSTOP)
    try:
        c.core.ChangeProperty(0, c.root, c.atom("_NET_ACTIVE_WINDOW"), xproto.Atom.WINDOW, 32, 1, [0])
        c.settle()
        c.close()
        terminal.process.send_signal(signal.SIGSTOP)
        monkeypatch.setattr(program, "look", resumed)
        service.did({"type": "type", "text": f"{text}\n"})
    finally:
        terminal.process.send_signal(signal.SIGCONT)
        server.window_manager.send_signal(signal.SIGCONT)
    assert (terminal.read(), looked) == (f"{text}\n", [terminal.process.pid])


@contextmanager
def busy(server: XServer) -> Iterator[None]:
    """The server has to do nothing very often, for a program that waits for no answer; until it is done."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(PATIENCE)
        asking.connect(f"/tmp/.X11-unix/X{server.number}")
        asking.sendall(struct.pack("<BxHHHHxx", 0x6C, 11, 0, 0, 0))
        assert asking.recv(1)

        def ask() -> None:
            for _ in range(BUSY):
                asking.sendall(NOTHING)

        asked = threading.Thread(target=ask)
        asked.start()
        try:
            yield
        finally:
            asked.join()


def test_a_program_that_waits_for_an_answer_of_a_busy_server_has_not_read_its_keys(
    server: XServer,
    service: Service,
    choose: Callable[[str], None],
    tmp_path: Path,
    random_seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It asks for the map when it gets a key, and sleeps; the server serves others first, as if it had asked much."""
    text = sample(random.Random(f"{random_seed} answer"), PIECE)
    choose("ru")
    terminal = Terminal(server, service, tmp_path, "window.focus", {"title": "sh"})
    c = XConnection(server.display)
    c.extension(xcffib.sync).SetPriority(terminal.window, -1, is_checked=True).check()
    c.close()
    # On a machine that is busy itself the server takes longer than a program that hangs.
    monkeypatch.setattr(keyboard, "HANGS_SECONDS", PATIENCE)
    with busy(server):
        service.did({"type": "type", "text": f"{text}\n"})
    assert terminal.read() == f"{text}\n"


def test_answers_are_waited_for_until_a_time_for_there_may_be_no_end_of_questions(server: XServer) -> None:
    answered = program.Answered(server.display)
    assert answered.wait(time.monotonic() + PATIENCE)
    with busy(server):
        until = time.monotonic() + PATIENCE
        while answered.wait(time.monotonic()):
            assert time.monotonic() < until
    assert answered.wait(time.monotonic() + PATIENCE)
    answered.line.close()


def test_a_change_of_the_map_is_not_taken_for_an_answer(server: XServer) -> None:
    answered, found = program.Answered(server.display), list[bool]()
    assert answered.wait(time.monotonic() + PATIENCE)
    with contextlib.closing(XConnection(server.display)) as c:
        first, count = c.keycodes.start, len(c.keycodes)
        keys = c.core.GetKeyboardMapping(first, count).reply()
        c.core.GrabServer()  # from here on nobody else is answered
        c.settle()
        until = time.monotonic() + 1
        waiting = threading.Thread(target=lambda: found.append(answered.wait(until)))
        waiting.start()
        while waiting.is_alive() and time.monotonic() < until + 10:
            c.core.ChangeKeyboardMapping(count, first, keys.keysyms_per_keycode, list(keys.keysyms))
            c.settle()
            waiting.join(0.05)
    waiting.join(PATIENCE)
    assert found == [False]
    answered.line.close()


@pytest.mark.parametrize("end", ["close", "hide"])
def test_a_window_that_goes_before_it_answers_is_not_waited_for(
    server: XServer, service: Service, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    # Longer than the client waits for its answer.
    monkeypatch.setattr(keyboard, "HANGS_SECONDS", 2 * PATIENCE)
    before = service.last()
    window = Recorder(server.display)  # it takes no events, and answers to none
    service.wait("window.appeared", match={"id": window.id}, after=before)
    service.client.post(f"/v1/windows/{window.id}/focus")
    service.wait("window.focus", match={"id": window.id}, after=before)
    ping, said = window.c.atom("_NET_WM_PING"), list[int]()

    def go() -> None:
        until = time.monotonic() + PATIENCE
        while ping not in said and time.monotonic() < until:
            select.select([window.c.x.get_file_descriptor()], [], [], 1)
            while (event := window.c.poll()) is not None:
                if isinstance(event, xproto.ClientMessageEvent):
                    said.append(next(iter(event.data.data32)))
        window.close() if end == "close" else window.c.core.UnmapWindow(window.id, is_checked=True).check()

    going = threading.Thread(target=go)
    going.start()
    service.did({"type": "type", "text": "x"})
    going.join(PATIENCE)
    if end == "hide":
        window.close()
    service.wait("window.closed", match={"id": window.id}, after=before)


def test_a_program_that_has_ended_is_not_waited_for_although_nobody_collects_it(
    server: XServer,
    service: Service,
    choose: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    look = program.look
    looked: list[int] = []

    def noted(pid: int) -> program.Look | None:
        looked.append(pid)
        return look(pid)

    choose("us,ru")
    before = service.last()
    terminal = server.start("xterm", "-u8", "-e", "cat")
    window = service.wait("window.focus", match={"title": "cat"}, after=before)["id"]
    service.wait("app.ready", match={"id": window}, after=before)
    with subprocess.Popen(["true"]) as over:
        os.waitid(os.P_PID, over.pid, os.WEXITED | os.WNOWAIT)
        c = XConnection(server.display)
        c.core.ChangeProperty(0, window, c.atom("_NET_WM_PID"), xproto.Atom.CARDINAL, 32, 1, [over.pid])
        c.settle()
        c.close()
        monkeypatch.setattr(program, "look", noted)
        # Who waited for it now would wait for longer than a test does.
        monkeypatch.setattr(keyboard, "HANGS_SECONDS", 3600.0)
        service.did({"type": "type", "text": SCRIPTS[-2]})
    assert set(looked) == {over.pid}
    terminal.terminate()
    service.wait("window.closed", match={"id": window}, after=before)
    terminal.wait(PATIENCE)
