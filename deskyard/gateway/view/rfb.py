"""A client's half of RFB, cut into messages: what only looks, and what acts on the desktop.

The desktop's server must cut the stream just as it is cut here, or a viewer could hide keys inside of what may pass.
Hence one length for each kind of message: the one extension that would change a length (ExtendedMouseButtons) is
never offered to the server, and a kind that is not known ends the connection.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass

from deskyard.gateway.view.websocket import ProtocolError

MESSAGE_LIMIT = 1024 * 1024
ENCODINGS_LIMIT = 1024
FENCE_LIMIT = 64
SCREENS_LIMIT = 64
VERSIONS = (b"RFB 003.007\n", b"RFB 003.008\n")
NO_AUTHENTICATION = 1
EXTENDED_MOUSE_BUTTONS, EXTENDED_DESKTOP_SIZE = -316, -308
SET_ENCODINGS, SET_DESKTOP_SIZE = 2, 251


@dataclass(frozen=True)
class Message:
    """A message of a client; `acts` if it types, points, pastes or changes the screen."""

    acts: bool
    data: bytes


class MessageReader:
    """Takes a client's bytes as they come; keeps at most one unfinished message of at most `MESSAGE_LIMIT`.

    `count` is called for each message, before the next one is cut, and may raise.
    """

    def __init__(self, count: Callable[[], None] = lambda: None) -> None:
        self._count = count
        self._encodings: frozenset[int] = frozenset()
        self._buffer = bytearray()
        self._greeting: list[Callable[[], bytes | None]] = [self._version, self._security, self._init]

    def feed(self, data: bytes) -> list[Message]:
        """The messages that are whole now; raises `ProtocolError`."""
        self._buffer += data
        messages: list[Message] = []
        while self._buffer and (message := self._next()) is not None:
            self._count()
            messages.append(message)
        return messages

    def _next(self) -> Message | None:
        if self._greeting:
            answer = self._greeting[0]()
            if answer is None:
                return None
            self._greeting.pop(0)
            return Message(False, answer)
        kind = self._buffer[0]
        if kind not in KINDS:
            raise ProtocolError(f"unknown message {kind}")
        head, size_of, acts = KINDS[kind]
        if len(self._buffer) < head:
            return None
        size = head + size_of(bytes(self._buffer[:head]))
        if size > MESSAGE_LIMIT:
            raise ProtocolError(f"message {kind} too long")
        data = self._take(size)
        if data is None:
            return None
        if kind == SET_ENCODINGS:
            data = self._without_mouse_buttons(data)
        if kind == SET_DESKTOP_SIZE and EXTENDED_DESKTOP_SIZE not in self._encodings:
            # RFC 6143's extension allows it only after the encoding, and TigerVNC 1.15 ends by SIGSEGV without.
            raise ProtocolError("a change of the screen's size from a client that never declared to understand one")
        return Message(acts, data)

    def _without_mouse_buttons(self, data: bytes) -> bytes:
        encodings = struct.unpack(f">{(len(data) - 4) // 4}i", data[4:])
        kept = [encoding for encoding in encodings if encoding != EXTENDED_MOUSE_BUTTONS]
        self._encodings = frozenset(kept)
        return struct.pack(f">BxH{len(kept)}i", SET_ENCODINGS, len(kept), *kept)

    def _take(self, size: int) -> bytes | None:
        if len(self._buffer) < size:
            return None
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def _version(self) -> bytes | None:
        version = self._take(12)
        if version is not None and version not in VERSIONS:
            raise ProtocolError("a version of RFB that is not spoken here")
        return version

    def _security(self) -> bytes | None:
        chosen = self._take(1)
        if chosen is not None and chosen[0] != NO_AUTHENTICATION:
            raise ProtocolError("a kind of authentication that is not spoken here")
        return chosen

    def _init(self) -> bytes | None:
        # Asking for the screen alone would throw everybody else out.
        return b"\x01" if self._take(1) is not None else None


def _nothing(head: bytes) -> int:
    return 0


def _encodings(head: bytes) -> int:
    return 4 * _bounded(int.from_bytes(head[2:4], "big"), ENCODINGS_LIMIT, "encodings")


def _cut_text(head: bytes) -> int:
    # A negative length is that of the extended clipboard.
    size: int = struct.unpack(">i", head[4:8])[0]
    return abs(size)


def _fence(head: bytes) -> int:
    return _bounded(head[8], FENCE_LIMIT, "bytes in a fence")


def _screens(head: bytes) -> int:
    return 16 * _bounded(head[6], SCREENS_LIMIT, "screens")


def _gii(head: bytes) -> int:
    # The sender chooses the order of bytes with the highest bit.
    return int.from_bytes(head[2:4], "big" if head[1] & 0x80 else "little")


def _qemu(head: bytes) -> int:
    if head[1] == 0:
        return 8  # a key with its code
    if head[1] == 1:
        return 6 if head[2:4] == b"\x00\x02" else 0  # audio: its format; on, off
    raise ProtocolError(f"unknown message 255 of kind {head[1]}")


def _bounded(count: int, limit: int, what: str) -> int:
    if count > limit:
        raise ProtocolError(f"{count} {what}")
    return count


# Message -> (bytes of its head, length of the rest out of the head, whether it acts on the desktop).
KINDS: dict[int, tuple[int, Callable[[bytes], int], bool]] = {
    0: (20, _nothing, False),  # SetPixelFormat
    SET_ENCODINGS: (4, _encodings, False),
    3: (10, _nothing, False),  # FramebufferUpdateRequest
    150: (10, _nothing, False),  # EnableContinuousUpdates
    248: (9, _fence, False),  # ClientFence
    4: (8, _nothing, True),  # KeyEvent
    5: (6, _nothing, True),  # PointerEvent
    6: (8, _cut_text, True),  # ClientCutText, plain and extended
    250: (4, _nothing, True),  # xvp: shut down, reboot
    SET_DESKTOP_SIZE: (8, _screens, True),
    253: (4, _gii, True),  # general input interface
    255: (4, _qemu, True),  # QEMU: keys with codes, audio
}
