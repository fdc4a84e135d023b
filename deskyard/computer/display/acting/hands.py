"""Keyboard and mouse of the agent: XTEST events on a connection of their own, each asked of the drive first."""

import itertools
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from http import HTTPStatus
from typing import Any, TypeVar

from deskyard.computer.display import windows
from deskyard.computer.display.acting.drive import BUTTON_PRESS, KEY_PRESS, MOTION, Drive, fake
from deskyard.computer.display.acting.keyboard import Key, Keyboard
from deskyard.computer.display.acting.keysyms import CAPS_LOCK, of_character
from deskyard.computer.display.acting.program import Answered
from deskyard.computer.display.x_server import Line, XConnection
from deskyard.computer.fields import wrong
from deskyard.computer.problem import Problem

T = TypeVar("T")

BUTTONS = {"left": 1, "middle": 2, "right": 3, "back": 8, "forward": 9}
UP, DOWN, LEFT, RIGHT = 4, 5, 6, 7
BUTTON_MASKS = {button: 1 << (7 + button) for button in range(1, 6)}
POLL_SECONDS = 0.001
PATIENCE_SECONDS = 1.0  # of a batch, for what is held up in the server
# A drag that jumps is not seen as one by every program: the way is gone in steps of so many pixels.
STRIDE = 12
# Letters that are sent and not yet taken in by the server: what a person who takes over may still see arrive.
IN_FLIGHT = 8
AHEAD = 400  # how many characters on are looked at when spare keycodes are given out


class Hands:
    """The agent's hands: they move the pointer, press buttons and type; used by one thread."""

    def __init__(self, display: str, drive: Drive) -> None:
        self._keyboard: Keyboard | None = None
        self.line = Line(display, self._prepare)
        self._answered = Answered(display)
        self.drive = drive
        self._patience = PATIENCE_SECONDS
        self._map_read = False
        self._front = (0, "")
        self.gone: Callable[[], bool] = lambda: False  # whether nobody waits for the batch any more

    def _prepare(self, connection: XConnection) -> None:
        self._keyboard = Keyboard(connection, self._answered)
        self._map_read = False

    def _keys(self, anew: bool = False) -> Keyboard:
        """The keyboard, with its map as it is in this batch, or anew as it is now."""
        self.line.get()
        assert self._keyboard is not None
        if anew or not self._map_read:
            self._keyboard.read()
            self._map_read = True
        return self._keyboard

    def close(self) -> None:
        """End the connections to the server."""
        self.line.close()
        self._answered.line.close()

    def begin(self, session: str) -> None:
        """Get ready for a batch of this session: a connection, and nothing known of before it."""
        self.drive.begin(session)
        self.line.get()
        self._patience = PATIENCE_SECONDS
        self._map_read = False

    def window(self) -> tuple[int, str]:
        """The window in front with its class, once the server has taken in what was sent; 0 and nothing if none is."""
        self._front = windows.front(self.line.get(), self._front)
        return self._front

    def reader(self) -> int:
        """The window whose program gets what is typed now, or 0."""
        return windows.reader(self.line.get())

    def move(self, at: tuple[int, int]) -> None:
        """Move the pointer."""
        connection = self.line.get()
        with self.drive.agent():
            fake(connection, MOTION, 0, connection.root, at)
        self._until(lambda pointer: (pointer.root_x, pointer.root_y) == at)

    def _until(self, arrived: Callable[[Any], bool]) -> None:
        """Return when the server has done what was sent, also where it is held up for a while.

        A window manager may take a button's press for itself first, and give it on. Until then the server keeps what
        comes after it: motions melt into one, and buttons meet modifiers that are up again. There is no event of it.
        """
        connection = self.line.get()
        start = time.monotonic()
        while not arrived(connection.core.QueryPointer(connection.root).reply()):
            if self.drive.taken.wait(POLL_SECONDS) or time.monotonic() - start > self._patience:
                break
        self._patience = max(0.0, self._patience - (time.monotonic() - start))

    def press_button(self, button: int) -> None:
        """Press a button of the mouse."""
        self.drive.press(self.line.get(), BUTTON_PRESS, button)

    def release_button(self, button: int) -> None:
        """Let a button go."""
        self.drive.release(self.line.get(), BUTTON_PRESS + 1, button)
        mask = BUTTON_MASKS.get(button, 0)
        self._until(lambda pointer: not pointer.mask & mask)

    def click(self, button: int, count: int = 1) -> None:
        """Press a button and let it go, so many times."""
        for _ in range(count):
            self.still_wanted()
            self.press_button(button)
            self.release_button(button)

    def drag(self, button: int, path: Sequence[tuple[int, int]]) -> None:
        """Press at the first place, go along the path, and let go at the last."""
        self.move(path[0])
        self.press_button(button)
        for start, end in itertools.pairwise(path):
            far = max(abs(end[0] - start[0]), abs(end[1] - start[1]))
            steps = max(1, -(-far // STRIDE))
            for step in range(1, steps + 1):
                self.still_wanted()
                self.move(tuple(a + round((b - a) * step / steps) for a, b in zip(start, end, strict=True)))  # type: ignore[arg-type]
        self.release_button(button)

    def scroll(self, across: int, down: int) -> None:
        """Turn the wheel: down and to the right where positive."""
        self.click(DOWN if down > 0 else UP, abs(down))
        self.click(RIGHT if across > 0 else LEFT, abs(across))

    def keycode(self, keysym: int) -> Key:
        """The key that has this keysym; a spare one is given it if none has."""
        keyboard = self._keys()
        keyboard.give([keysym])
        key = keyboard.find(keysym)
        assert key is not None
        return key

    def press_key(self, keysym: int) -> None:
        """Press a key; the keysym on Shift's side of a key is that key, without Shift."""
        self.drive.press(self.line.get(), KEY_PRESS, self.keycode(keysym).keycode)

    def release_key(self, keysym: int) -> None:
        """Let a key go."""
        self.drive.release(self.line.get(), KEY_PRESS + 1, self.keycode(keysym).keycode)

    def combination(self, keysyms: Sequence[int], seconds: float = 0) -> None:
        """Press keys in this order, and let them go in the opposite one, after a time if one is given."""
        connection, keyboard = self.line.get(), self._keys()
        keys = [self.keycode(keysym) for keysym in keysyms]
        codes = [key.keycode for key in keys]
        # A character that needs Shift takes it along, as ? does in ctrl+?.
        if keys[-1].shift and keyboard.shift() not in codes:
            codes.insert(0, keyboard.shift())
        for code in codes:
            self.drive.press(connection, KEY_PRESS, code)
        if seconds:
            self.pause(seconds)
        for code in reversed(codes):
            self.drive.release(connection, KEY_PRESS + 1, code)

    def with_held(self, keysyms: Sequence[int], act: Callable[[], None]) -> None:
        """Do something while these keys are down."""
        for keysym in keysyms:
            self.press_key(keysym)
        act()
        for keysym in reversed(keysyms):
            self.release_key(keysym)

    def type(self, text: str, path: str) -> None:
        """Write a text; what is held down would change its letters and is refused."""
        connection, keyboard = self.line.get(), self._keys(anew=True)
        if self.drive.held:
            raise wrong(path, None, "would be changed by keys or buttons that are down", "let them go first (up)")
        caps = keyboard.caps_lock()
        if caps:
            self.combination([CAPS_LOCK])
        keysyms = [of_character(character) for character in text]
        shift = keyboard.shift()
        shifted = False
        for index, keysym in enumerate(keysyms):
            if index % IN_FLIGHT == 0:
                self.still_wanted()
                connection.settle()
            key = keyboard.find(keysym)
            if key is None:
                keyboard.give(keysyms[index : index + AHEAD])
                key = keyboard.find(keysym)
                assert key is not None
            shifted = self._shift(connection, shift, shifted, key.shift)
            self.drive.press(connection, KEY_PRESS, key.keycode)
            self.drive.release(connection, KEY_PRESS + 1, key.keycode)
        self._shift(connection, shift, shifted, False)
        keyboard.barrier()
        if caps:
            self.combination([CAPS_LOCK])

    def _shift(self, connection: XConnection, shift: int, now: bool, wanted: bool) -> bool:
        if wanted and not now:
            self.drive.press(connection, KEY_PRESS, shift)
        if now and not wanted:
            self.drive.release(connection, KEY_PRESS + 1, shift)
        return wanted

    def pause(self, seconds: float) -> None:
        """Wait so long; a batch that may not go on, and a person who takes over, end it at once as a `Problem`."""
        if problem := self.drive.wait(lambda: self._objection() or self.drive.refusal(), seconds):
            raise problem

    def await_event(self, coming: Future[T]) -> T:
        """Wait for what the event loop waits for, as long as the batch may go on.

        A person who takes over does not end it: to wait takes no drive, and it may be for what they do.
        """
        coming.add_done_callback(lambda _: self.drive.look_again())
        problem = self.drive.wait(lambda: self._objection() or coming.done())
        if isinstance(problem, Problem):
            coming.cancel()
            raise problem
        return coming.result()

    def release_own(self) -> None:
        """Let go of all that the batch's session holds."""
        if self.drive.held:
            self.drive.release_own(self.line.get())

    def still_wanted(self) -> None:
        """Raise `Problem` where nobody waits for the batch any more."""
        if self.gone():
            raise self._gone()

    def _objection(self) -> Problem | None:
        return self._gone() if self.gone() else self.drive.objection()

    @staticmethod
    def _gone() -> Problem:
        remedy = "look at the screen, and send in a new batch what this one did not do"
        return Problem(HTTPStatus.CONFLICT, "connection", None, "the caller is gone", remedy)
