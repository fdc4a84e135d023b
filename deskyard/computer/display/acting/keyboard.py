"""The keyboard's map, and spare keycodes of it for characters that the layout has not.

A program reads the map when it gets a key, later than we changed it: a keycode that is given a new meaning too early
writes the new letter for the old key. So spare keycodes are kept, taken again least recently used first, and before and
after a change the window in front is asked to show that it has come so far (`_NET_WM_PING`), or seen to.
"""

import select
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import xcffib
import xcffib.xproto as xproto

from deskyard.computer.display import windows
from deskyard.computer.display.acting import program
from deskyard.computer.display.acting.keysyms import SHIFT
from deskyard.computer.display.x_server import XConnection

# New characters for one change of the map: each change costs two barriers, and each character a keycode.
MOST_NEW = 9
# A program that reads nothing for so long hangs, or is stopped.
HANGS_SECONDS = 10.0
# Of xterm and other old programs that answer no ping it is seen that they sleep on: between two looks the server has
# sent what it had for them, and answered what they asked (`program.Answered`). One that ran so long meanwhile has read
# its keys and has work of its own; on a busy machine that takes far longer than it runs.
LOOKS, LOOK_SECONDS, BUSY_SECONDS = 3, 0.002, 0.5
# Nothing shows of a program of another machine when it has come so far.
UNSEEN_SECONDS = 0.1
LOCK_MASK = 2
# So many windows may go one after the other while a text is written.
MOST_WINDOWS = 3
# On the root window: keycode and keysym in turn. The map outlives who changed it: the next finds there what is spare.
GIVEN = "_DESKYARD_SPARE_KEYCODES"
MAPPING_NOTIFY = xproto.MappingNotifyEvent


@dataclass(frozen=True)
class Key:
    """A keycode, and whether Shift goes with it."""

    keycode: int
    shift: bool


class Keyboard:
    """The map of one connection's server, as it was `read` last; used by the thread that types."""

    def __init__(self, connection: XConnection, answered: program.Answered) -> None:
        self._c = connection
        self._answered = answered
        # Keycode -> keysym that it has now (0: none), oldest first.
        self._spare: OrderedDict[int, int] = OrderedDict(self._given())
        self._keys: dict[int, Key] = {}
        self._known: tuple[Any, ...] = ()  # the map that these were made of

    def read(self) -> None:
        """Read the map anew: a layout may have been chosen, or a viewer's keys been added."""
        first, count = self._c.keycodes.start, len(self._c.keycodes)
        asked = self._c.core.GetKeyboardMapping(first, count)
        state = self._c.core.QueryPointer(self._c.root).reply().mask
        reply, group = asked.reply(), state >> 13 & 3
        known = (reply.keysyms.raw, reply.keysyms_per_keycode, group)
        if known == self._known:
            return
        self._known = known
        width, syms = reply.keysyms_per_keycode, list(reply.keysyms)
        self._keys = {}
        empty = []
        for index in range(count):
            row = syms[index * width : (index + 1) * width]
            keycode = first + index
            if not any(row):
                empty.append(keycode)
            elif self._spare.get(keycode) == row[0] and keycode in self._spare:
                continue
            else:
                self._learn(keycode, row, group)
        mine = {
            keycode: keysym
            for keycode, keysym in self._spare.items()
            if self._is_mine(keycode, keysym, syms, width, first)
        }
        self._spare = OrderedDict((keycode, 0) for keycode in empty if keycode not in mine) | OrderedDict(mine)

    def _is_mine(self, keycode: int, keysym: int, syms: list[int], width: int, first: int) -> bool:
        return keysym != 0 and syms[(keycode - first) * width] == keysym

    def _learn(self, keycode: int, row: list[int], group: int) -> None:
        if group > 1:
            return
        for column in (0, 1):
            at = 2 * group + column
            if at < len(row) and row[at]:
                self._keys.setdefault(row[at], Key(keycode, column == 1))

    def find(self, keysym: int) -> Key | None:
        """The key that writes this keysym now."""
        found = self._keys.get(keysym)
        if found:
            return found
        for keycode, kept in self._spare.items():
            if kept == keysym:
                self._spare.move_to_end(keycode)
                return Key(keycode, False)
        return None

    def give(self, keysyms: Iterable[int]) -> None:
        """Give spare keycodes to the first of these keysyms that have none, with barriers around the change."""
        new: list[int] = []
        most = max(1, min(MOST_NEW, len(self._spare) // 2))
        for keysym in keysyms:
            if keysym not in new and self.find(keysym) is None:
                new.append(keysym)
                if len(new) == most:
                    break
        if not new:
            return
        if not self._spare:
            raise RuntimeError("the keyboard's map has no spare keycode")
        self.barrier()
        changed = dict(zip(list(self._spare), new, strict=False))
        # Said first: what was said and not done is seen to be as it was.
        self._say(self._given() | self._spare | changed)
        for keycode, keysym in changed.items():
            self._c.core.ChangeKeyboardMapping(1, keycode, 2, [keysym, keysym])
            self._spare[keycode] = keysym
            self._spare.move_to_end(keycode)
        self._known = ()
        self.barrier()

    def _given(self) -> dict[int, int]:
        """The keysyms that spare keycodes were given, by whoever did so."""
        numbers = iter(self._c.numbers(self._c.root, GIVEN))
        pairs = zip(numbers, numbers, strict=False)
        return {keycode: keysym for keycode, keysym in pairs if keycode in self._c.keycodes}

    def _say(self, given: Mapping[int, int]) -> None:
        pairs = [number for keycode, keysym in given.items() if keysym for number in (keycode, keysym)]
        replace, kind = xproto.PropMode.Replace, xproto.Atom.CARDINAL
        self._c.core.ChangeProperty(replace, self._c.root, self._c.atom(GIVEN), kind, 32, len(pairs), pairs)

    def barrier(self) -> None:
        """Return when the window in front has read all events that were sent to it so far, as well as can be known."""
        self._c.settle()
        # Where a window goes meanwhile, the next in front gets what is still to come.
        for _ in range(MOST_WINDOWS):
            window = windows.reader(self._c)
            if not window or self._has_read(window):
                return

    def _has_read(self, window: int) -> bool:
        """Wait for a window's program; False where the window goes: nothing is read there any more."""
        ping = self._c.atom("_NET_WM_PING")
        if ping not in self._c.numbers(window, "WM_PROTOCOLS"):
            self._until_at_rest((self._c.numbers(window, "_NET_WM_PID") or [0])[0])
            return True
        stamp = int(time.monotonic() * 1000) & 0x7FFFFFFF | 1
        self._listen(self._c.root, xproto.EventMask.SubstructureNotify)
        self._listen(window, xproto.EventMask.StructureNotify)
        went = False

        def ends(event: Any) -> bool:
            nonlocal went
            if isinstance(event, xproto.UnmapNotifyEvent | xproto.DestroyNotifyEvent) and event.window == window:
                went = True
            elif isinstance(event, xproto.ClientMessageEvent) and event.window == self._c.root:
                said: list[int] = list(event.data.data32)
                return said[:2] == [ping, stamp]
            return went

        try:
            if self._c.core.GetWindowAttributes(window).reply().map_state == xproto.MapState.Unmapped:
                return False
            self._c.send(window, "WM_PROTOCOLS", [ping, stamp, window], target=window, mask=0)
            self._drain(time.monotonic() + HANGS_SECONDS, ends)
            return not went
        except xcffib.Error:
            return False
        finally:
            self._listen(self._c.root, 0)
            self._listen(window, 0)

    def _until_at_rest(self, pid: int) -> None:
        until, looks = time.monotonic() + HANGS_SECONDS, 0
        first = last = program.look(pid)
        while looks < LOOKS and self._answered.wait(until):
            found = program.look(pid)
            if found is None or first is None or last is None:
                # The one wait of a fixed time.
                self._drain(time.monotonic() + UNSEEN_SECONDS, lambda event: False)
                return
            if found.ended or found.ran - first.ran > BUSY_SECONDS:
                return
            looks = looks + 1 if found.sleeps and found.sleep == last.sleep else int(found.sleeps)
            last = found
            if not found.sleeps:
                self._drain(time.monotonic() + LOOK_SECONDS, lambda event: False)

    def _listen(self, window: int, mask: int) -> None:
        # Only while an answer is awaited: events that nobody reads would pile up in the server.
        self._c.core.ChangeWindowAttributes(window, xproto.CW.EventMask, [mask])

    def _drain(self, until: float, wanted: Any) -> bool:
        """Read events until the wanted one has come or the time is over."""
        fd = self._c.x.get_file_descriptor()
        while True:
            while (event := self._c.heard()) is not None:
                if wanted(event):
                    return True
            left = until - time.monotonic()
            if left <= 0:
                return False
            select.select([fd], [], [], left)

    def caps_lock(self) -> bool:
        """Whether Caps Lock is on."""
        return bool(self._c.core.QueryPointer(self._c.root).reply().mask & LOCK_MASK)

    def shift(self) -> int:
        """The keycode of Shift."""
        return self._required(SHIFT)

    def _required(self, keysym: int) -> int:
        key = self.find(keysym)
        if key is None:
            self.give([keysym])
            key = self.find(keysym)
        assert key is not None
        return key.keycode
