"""What a client says is cut alike however it is split, and only what looks passes from those who do not drive."""

import random
import struct

import pytest

from deskyard.gateway.view import rfb
from deskyard.gateway.view.stream import Filter
from deskyard.gateway.view.websocket import BINARY, CONTINUATION, PING, Frame, FrameReader, ProtocolError, frame, mask

HELLO = b"RFB 003.008\n\x01\x00"
# A client that understands a change of the screen's size may ask for one.
UNDERSTANDS = struct.pack(">BxHi", 2, 1, -308)
HANDSHAKE = HELLO + UNDERSTANDS
SHAKEN = b"RFB 003.008\n\x01\x01" + UNDERSTANDS
ROUNDS = 300


def message(rng: random.Random) -> tuple[bool, bytes]:
    """Some message, as noVNC and others write them, and whether it acts. Written without the reader's table."""
    word = bytes(rng.randrange(256) for _ in range(rng.randrange(40)))
    number = rng.randrange(1 << 16)
    return rng.choice(
        [
            (False, struct.pack(">BxxxBBBBHHHBBBxxx", 0, 32, 24, 0, 1, 255, 255, 255, 16, 8, 0)),
            (False, struct.pack(f">BxH{len(word) + 1}i", 2, len(word) + 1, *word, -308)),
            (False, struct.pack(">BBHHHH", 3, 1, number, 0, 5, 5)),
            (False, struct.pack(">BBHHHH", 150, 1, 0, 0, number, 5)),
            (False, struct.pack(">BxxxIB", 248, number, len(word)) + word),
            (True, struct.pack(">BBxxI", 4, 1, number)),
            (True, struct.pack(">BBHH", 5, rng.randrange(256), number, number)),
            (True, struct.pack(">Bxxxi", 6, len(word)) + word),
            (True, struct.pack(">Bxxxi", 6, -len(word)) + word),
            (True, bytes([250, 0, 1, rng.randrange(256)])),
            (True, struct.pack(">BxHHBx", 251, number, number, 2) + bytes(32)),
            (True, struct.pack(">BBH", 253, 0x80, len(word)) + word),
            (True, struct.pack("<BBH", 253, 0x00, len(word)) + word),
            (True, struct.pack(">BBHII", 255, 0, 1, number, 30)),
            (True, struct.pack(">BBH", 255, 1, 1)),
            (True, struct.pack(">BBHBBI", 255, 1, 2, 0, 2, 44100)),
        ]
    )


def framed(stream: bytes, rng: random.Random) -> bytes:
    """The stream in frames of random size, whole or in fragments, with pings in between."""
    out, inside = b"", False
    while stream:
        size = rng.choice([1, 2, 7, 126, 70000])
        part, stream = stream[:size], stream[size:]
        final = rng.random() < 0.5 or not stream
        piece = frame(CONTINUATION if inside else BINARY, part)
        out += piece if final else bytes([piece[0] & 0x7F]) + piece[1:]
        inside = not final
        if rng.random() < 0.2:
            out += frame(PING, b"p")
    return out


def fed(sieve: Filter, data: bytes, rng: random.Random) -> bytes:
    """What passes of data that comes in random pieces, as one stream without its frames."""
    passed = b""
    while data:
        size = rng.choice([1, 3, 50, 5000, len(data)])
        passed += sieve.feed(data[:size])
        data = data[size:]
    return b"".join(piece.payload for piece in FrameReader().feed(passed) if piece.opcode == BINARY)


@pytest.mark.parametrize("seed", range(6))
def test_only_looking_passes_however_it_is_split(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(ROUNDS // 6):
        messages = [message(rng) for _ in range(rng.randrange(20))]
        data = framed(HANDSHAKE + b"".join(data for _, data in messages), rng)
        looking = SHAKEN + b"".join(data for acts, data in messages if not acts)
        assert fed(Filter(lambda: False), data, rng) == looking
        everything = SHAKEN + b"".join(data for _, data in messages)
        assert fed(Filter(lambda: True), data, rng) == everything


def test_drive_that_ends_within_a_message_keeps_the_message_back() -> None:
    driving = [True]
    sieve = Filter(lambda: driving[0])
    sieve.feed(frame(BINARY, HANDSHAKE))
    key = struct.pack(">BBxxI", 4, 1, ord("k"))
    assert sieve.feed(frame(BINARY, key[:5])) == b""
    driving[0] = False
    assert sieve.feed(frame(BINARY, key[5:])) == b""
    assert sieve.dropped == 1
    driving[0] = True
    assert FrameReader().feed(sieve.feed(frame(BINARY, key))) == [Frame(BINARY, key)]


@pytest.mark.parametrize("seed", range(4))
def test_garbage_ends_the_connection_or_waits_and_never_acts(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(ROUNDS):
        sieve = Filter(lambda: False)
        passed = sieve.feed(frame(BINARY, HANDSHAKE))
        try:
            for _ in range(rng.randrange(1, 6)):
                passed += sieve.feed(frame(BINARY, rng.randbytes(rng.randrange(200))))
        except ProtocolError:
            pass
        stream = b"".join(piece.payload for piece in FrameReader().feed(passed))
        again = rfb.MessageReader()
        assert not any(later.acts for later in again.feed(HANDSHAKE + stream[len(HANDSHAKE) :]))


@pytest.mark.parametrize("seed", range(4))
def test_garbage_in_place_of_frames_is_refused_or_kept_within_bounds(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(ROUNDS):
        reader = FrameReader()
        try:
            frames = reader.feed(rng.randbytes(rng.randrange(300)))
        except ProtocolError:
            continue
        assert all(len(piece.payload) <= 300 for piece in frames)


@pytest.mark.parametrize("encodings", [(), (0, 7, -308), (-308, 0), (0, 7)])
@pytest.mark.parametrize("driving", [True, False])
def test_size_of_the_screen_is_changed_only_by_who_said_to_understand_it(
    encodings: tuple[int, ...], driving: bool
) -> None:
    sieve = Filter(lambda: driving)
    sieve.feed(frame(BINARY, HANDSHAKE))
    # The last word counts.
    sieve.feed(frame(BINARY, struct.pack(f">BxH{len(encodings)}i", 2, len(encodings), *encodings)))
    size = struct.pack(">BxHHBx", 251, 800, 600, 1) + bytes(16)
    if -308 in encodings:
        assert FrameReader().feed(sieve.feed(frame(BINARY, size))) == ([Frame(BINARY, size)] if driving else [])
    else:
        with pytest.raises(ProtocolError, match="never declared"):
            sieve.feed(frame(BINARY, size))


@pytest.mark.parametrize("kind", sorted(set(range(256)) - set(rfb.KINDS)))
def test_unknown_kind_of_message_ends_the_connection(kind: int) -> None:
    with pytest.raises(ProtocolError, match=f"unknown message {kind}"):
        rfb.MessageReader().feed(HANDSHAKE + bytes([kind]))


@pytest.mark.parametrize(
    "hello",
    [b"RFB 003.003\n", b"ID:something:1\0\0\0\0", b"RFB 003.008\n\x02", b"RFB 003.008\n\x13", b"GET / HTTP/1.1\r\n"],
)
def test_other_versions_and_authentications_are_refused(hello: bytes) -> None:
    with pytest.raises(ProtocolError):
        rfb.MessageReader().feed(hello)


@pytest.mark.parametrize(
    "head",
    [
        struct.pack(">Bxxxi", 6, 2**31 - 1),
        struct.pack(">Bxxxi", 6, -(2**31)),
        struct.pack(">BxH", 2, 65535),
        struct.pack(">BxxxIB", 248, 0, 255),
        struct.pack(">BxHHBx", 251, 1, 1, 255),
        struct.pack(">BBH", 255, 7, 0),
    ],
)
def test_message_without_bounds_is_refused_at_its_head(head: bytes) -> None:
    with pytest.raises(ProtocolError):
        rfb.MessageReader().feed(HANDSHAKE + head)


def test_mask_twice_is_nothing() -> None:
    rng = random.Random(1)
    for size in (0, 1, 3, 4, 5, 1000):
        data, key = rng.randbytes(size), rng.randbytes(4)
        assert mask(data, key) == bytes(byte ^ key[n % 4] for n, byte in enumerate(data))
        assert mask(mask(data, key), key) == data
