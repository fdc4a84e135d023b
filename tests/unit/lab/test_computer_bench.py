"""Figures of the computer-use service are judged by their aims, and viewers count what really came."""

import socket
import struct
import threading
from random import Random

import pytest
from PIL import Image

from deskyard.computer.display.spaces import Rectangle
from deskyard.computer.streaming import rfb
from deskyard.computer.streaming.encodings import RAW, TIGHT, Form, encoded, rectangle
from deskyard.host.deadline import Deadline
from deskyard.lab.computer import figures
from deskyard.lab.computer.viewers import SocketLine, Viewer

SIZE = (64, 48)
SECONDS = 30.0


@pytest.mark.parametrize(
    ("ours", "theirs", "most", "met"),
    [
        ([1.0], [10.0], None, True),
        ([1.0], [9.0], None, False),
        ([1.0], [], 1.0, True),
        ([1.1], [], 1.0, False),
        ([1.1], [90.0], 1.0, False),
        ([1.0], [], None, None),
    ],
)
def test_wait_is_judged_by_ten_times_and_by_its_aim(
    ours: list[float], theirs: list[float], most: float | None, met: bool | None
) -> None:
    figure = figures.waits("a call", ours, theirs, most=most)
    assert figure.met is met
    assert ("NOT met" in figures.text([figure])) is (met is False)


def test_waits_have_their_middle_and_their_worst_of_a_hundred() -> None:
    figure = figures.waits("a call", [float(number) for number in range(1, 201)], [1000.0])
    assert (figure.ours, figure.worst, figure.theirs, figure.ratio) == (100.0, 198.0, 1000.0, 10.0)


def test_more_is_better_where_that_is_said() -> None:
    assert figures.rate("pictures", "1/s", 20.0, 10.0, wants_more=True).ratio == 2.0
    assert figures.rate("processor", "ms", 20.0, 10.0).ratio == 0.5


def picture(kind: str) -> Image.Image:
    random = Random(kind)
    colours = {"fill": [(1, 2, 3)], "two": [(0, 0, 0), (9, 9, 9)], "few": [(shade, 0, 0) for shade in range(50)]}
    image = Image.new("RGB", SIZE)
    image.putdata(
        [
            random.choice(colours[kind]) if kind in colours else tuple(random.randbytes(3))
            for _ in range(SIZE[0] * SIZE[1])
        ]
    )
    return image


def serve(line: socket.socket, updates: list[bytes]) -> None:
    """Greet a viewer, and answer each of its questions with the next update; a bell rings before each."""

    def take(size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = line.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    line.sendall(b"RFB 003.008\n")
    take(12)
    line.sendall(b"\x01\x01")
    take(1)
    line.sendall(bytes(4))
    take(1)
    line.sendall(rfb.greeting(*SIZE, "played"))
    take(20 + 16)
    for update in updates:
        assert take(10)[0] == 3
        line.sendall(b"\x02" + struct.pack(">B3xI", 3, 2) + b"ab" + update)


def test_viewer_counts_each_update_whatever_its_encoding() -> None:
    forms = [(kind, Form(TIGHT, "BGRX", level)) for kind in ("fill", "two", "few", "noise") for level in (6, None)]
    forms.append(("noise", Form(RAW)))
    cuts = [(form, encoded(picture(kind), Rectangle(0, 0, *SIZE), form)) for kind, form in forms]
    updates = [
        rfb.updates(len(found)) + b"".join(rectangle(part, form.encoding, data) for part, data in found)
        for form, found in cuts
    ]
    near, far = socket.socketpair()
    with near, far:
        server = threading.Thread(target=serve, args=(far, updates))
        server.start()
        viewer = Viewer(SocketLine(near))
        assert Deadline(SECONDS).wait_for(lambda: viewer.updates == len(updates), 0.01)
        assert viewer.received > sum(map(len, updates))
        server.join(SECONDS)
        far.shutdown(socket.SHUT_RDWR)
        viewer.close()
