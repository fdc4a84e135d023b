"""Pictures as rectangles of Tight, taken apart again as a viewer does."""

import os
import zlib
from collections.abc import Callable

import pytest
from PIL import Image

from deskyard.computer.display.spaces import Rectangle
from deskyard.computer.streaming.encodings import TIGHT, Form, encoded

SIZE = (2600, 1700)  # of a large screen


def grey() -> Image.Image:
    """As many colours as a palette may have, in no order."""
    return Image.frombytes("L", SIZE, os.urandom(SIZE[0] * SIZE[1])).convert("RGB")


def any_colours() -> Image.Image:
    return Image.frombytes("RGB", SIZE, os.urandom(3 * SIZE[0] * SIZE[1]))


def half_a_colour() -> Image.Image:
    image = any_colours()
    image.paste((1, 2, 3), (0, 0, SIZE[0], SIZE[1] // 2))
    return image


def unpacked(data: bytes) -> bytes:
    """What was packed behind a length of one to three bytes."""
    length = at = 0
    while True:
        bits = data[at] if at == 2 else data[at] & 127
        length, more, at = length | bits << 7 * at, at < 2 and data[at] > 127, at + 1
        if not more:
            break
    assert len(data) == at + length
    return zlib.decompressobj().decompress(data[at:])


def decoded(data: bytes, size: tuple[int, int]) -> Image.Image:
    if data[0] == 0x80:
        return Image.new("RGB", size, tuple(data[1:4]))
    if data[0] == 0x01:
        return Image.frombytes("RGB", size, unpacked(data[1:]))
    assert data[:2] == b"\x41\x01" and data[2] > 1, "a palette of bytes"
    colours = data[3 : 3 * data[2] + 6]
    pixels = (colours[3 * place : 3 * place + 3] for place in unpacked(data[len(colours) + 3 :]))
    return Image.frombytes("RGB", size, b"".join(pixels))


@pytest.mark.parametrize("picture", [grey, any_colours, half_a_colour])
def test_noise_on_a_large_screen_is_cut_so_that_each_part_can_say_its_length(
    picture: Callable[[], Image.Image],
) -> None:
    image = picture()
    parts = encoded(image, Rectangle(0, 0, *SIZE), Form(TIGHT))
    found = Image.new("RGB", SIZE)
    for part, data in parts:
        found.paste(decoded(data, (part.width, part.height)), (part.x, part.y))
    assert sum(part.width * part.height for part, _ in parts) == SIZE[0] * SIZE[1]
    assert found.tobytes() == image.tobytes()


def test_a_large_screen_of_one_colour_is_one_rectangle() -> None:
    ((part, data),) = encoded(Image.new("RGB", SIZE, (7, 8, 9)), Rectangle(0, 0, *SIZE), Form(TIGHT))
    assert (part, data) == (Rectangle(0, 0, *SIZE), b"\x80\x07\x08\x09")
