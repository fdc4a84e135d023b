"""Pictures as rectangles of RFB: raw, Tight (with JPEG or without) and ZRLE, each so that all viewers may share it.

Tight and ZRLE pack with zlib, whose state belongs to a connection. Each rectangle of ours begins anew: in Tight by the
bit that resets the connection's stream, in ZRLE by looking back at nothing. So it is packed once for everybody.
"""

import io
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from isal import isal_zlib
from PIL import Image

from deskyard.computer.display.spaces import Rectangle

RAW, TIGHT, ZRLE = 0, 7, 16
DESKTOP_SIZE = -223
LOWEST_QUALITY, HIGHEST_QUALITY = -32, -23
# Of JPEG, by the levels 0 to 9 of Tight.
QUALITIES = (15, 29, 41, 42, 62, 77, 79, 86, 92, 96)
ZLIB_HEADER = b"\x78\x01"
TILE = 64  # of ZRLE, in pixels
SMALLEST_JPEG = 256  # pixels: below that its head is larger than what it saves
SMALLEST_PACKED = 12  # bytes: Tight sends less as it is
MOST_COLOURS = 256  # of a palette
SMALLEST_CUT = 64  # pixels in either direction: each JPEG has some 600 bytes of tables
MOST_PIXELS = 1 << 20  # of a cut: its data has a length of 22 bits, and noise does not get smaller
MOST_SQUARES = 20  # in either direction, so that to look at a film costs little


@dataclass(frozen=True)
class Form:
    """How a viewer takes pictures: the encoding, its order of a pixel's four bytes, and a level of JPEG, if any."""

    encoding: int = RAW
    order: str = "BGRX"
    level: int | None = None


def encoded(image: Image.Image, place: Rectangle, form: Form) -> list[tuple[Rectangle, bytes]]:
    """The picture of a place as rectangles and their data.

    In ZRLE the data is without its length, and without zlib's header, which a connection has once.
    """
    if form.encoding == TIGHT:
        return [(part, _tight(cut, colours, form.level)) for cut, part, colours in _cuts(image, place)]
    if form.encoding == ZRLE:
        return [(place, _packed(b"".join(_tiles(image, form.order.replace("X", ""))), -15))]
    return [(place, image.tobytes("raw", form.order))]


def rectangle(part: Rectangle, encoding: int, data: bytes) -> bytes:
    """A rectangle with its head."""
    return struct.pack(">HHHHi", part.x, part.y, part.width, part.height, encoding) + data


@dataclass(frozen=True)
class Piece:
    """A part of a picture by its edges, and its colours, if they are few."""

    left: int
    top: int
    right: int
    bottom: int
    colours: frozenset[bytes]

    def with_next(self, other: "Piece") -> "Piece | None":
        """This and the piece beside or below it as one.

        None where their colours would not be as few as theirs are, or it would be too large.
        """
        colours = self.colours | other.colours
        if bool(self.colours) != bool(other.colours) or len(colours) > MOST_COLOURS:
            return None
        if len(colours) != 1 and (other.right - self.left) * (other.bottom - self.top) > MOST_PIXELS:
            return None
        return Piece(self.left, self.top, other.right, other.bottom, colours)


def _cuts(image: Image.Image, place: Rectangle) -> Iterator[tuple[Image.Image, Rectangle, Sequence[bytes]]]:
    """A picture cut so that a photograph or the pointer makes no JPEG of the text around it.

    Each cut with its place and its colours, if they are few.
    """
    colours = _colours(image)
    is_whole = len(colours) == 1 or (colours and image.width * image.height <= MOST_PIXELS)
    pieces = [] if is_whole or max(image.size) < 2 * SMALLEST_CUT else _pieces(image)
    if len(pieces) < 2:
        yield image, place, colours
        return
    for piece in pieces:
        cut = image.crop((piece.left, piece.top, piece.right, piece.bottom))
        yield cut, Rectangle(place.x + piece.left, place.y + piece.top, cut.width, cut.height), list(piece.colours)


def _pieces(image: Image.Image) -> list[Piece]:
    """The squares of a picture, those of a kind joined along their rows, and equal rows below each other."""
    side = -(-max(image.size) // MOST_SQUARES // SMALLEST_CUT) * SMALLEST_CUT
    closed: list[Piece] = []
    above: list[Piece] = []
    for top in range(0, image.height, side):
        row: list[Piece] = []
        for left in range(0, image.width, side):
            edges = (left, top, min(left + side, image.width), min(top + side, image.height))
            square = Piece(*edges, frozenset(_colours(image.crop(edges))))
            joined = row[-1].with_next(square) if row else None
            row[-1:] = [joined] if joined else [*row[-1:], square]
        edges_above = {(piece.left, piece.right): piece for piece in above}
        for index, piece in enumerate(row):
            before = edges_above.get((piece.left, piece.right))
            joined = before.with_next(piece) if before else None
            if before and joined:
                row[index] = joined
                above.remove(before)
        closed += above
        above = row
    return closed + above


def _tight(image: Image.Image, colours: Sequence[bytes], level: int | None) -> bytes:
    if len(colours) == 1:
        return b"\x80" + colours[0]
    if colours and (data := _indexes(image, colours, nearly=level is not None)) is not None:
        return b"\x41\x01" + bytes([len(colours) - 1]) + b"".join(colours) + _basic(data)
    if level is not None and image.width * image.height >= SMALLEST_JPEG:
        out = io.BytesIO()
        image.save(out, "JPEG", quality=QUALITIES[level])
        return b"\x90" + _length(out.tell()) + out.getvalue()
    return b"\x01" + _basic(image.tobytes())


def _colours(image: Image.Image) -> list[bytes]:
    """The colours of an image if they are few enough for a palette to be smaller than its pixels."""
    most = min(MOST_COLOURS, max(1, image.width * image.height * 2 // 3))
    return [bytes(colour) for _, colour in image.getcolors(most) or ()]  # type: ignore[arg-type]


def _indexes(image: Image.Image, colours: Sequence[bytes], *, nearly: bool) -> bytes | None:
    """The place of each pixel's colour in the palette: a bit where there are two, else a byte.

    Exact where one of red, green and blue tells the colours apart, as it does in text and lines; else off by four of
    256 at most, and only if `nearly` will do. Nothing if it cannot be had so.
    """
    for channel in range(3):
        places = {colour[channel]: place for place, colour in enumerate(colours)}
        if len(places) == len(colours):
            of_value = [places.get(value, 0) for value in range(256)]
            if len(colours) == 2:
                return image.getchannel(channel).point([255 * place for place in of_value], "1").tobytes()
            return image.getchannel(channel).point(of_value).tobytes()
    if not nearly:
        return None
    palette = Image.new("P", (1, 1))
    palette.putpalette(b"".join(colours))
    return image.quantize(palette=palette, dither=Image.Dither.NONE).tobytes()


def _basic(data: bytes) -> bytes:
    if len(data) < SMALLEST_PACKED:
        return data
    packed = _packed(data, 15)
    return _length(len(packed)) + packed


def _length(number: int) -> bytes:
    """A length in one to three bytes of seven bits, the last one of eight."""
    if number < 1 << 7:
        return bytes([number])
    if number < 1 << 14:
        return bytes([number & 127 | 128, number >> 7])
    return bytes([number & 127 | 128, number >> 7 & 127 | 128, number >> 14])


def _packed(data: bytes, window: int) -> bytes:
    packer = isal_zlib.compressobj(1, isal_zlib.DEFLATED, window)
    return bytes(packer.compress(data) + packer.flush(isal_zlib.Z_SYNC_FLUSH))


def _tiles(image: Image.Image, order: str) -> Iterator[bytes]:
    for top in range(0, image.height, TILE):
        for left in range(0, image.width, TILE):
            tile = image.crop((left, top, min(left + TILE, image.width), min(top + TILE, image.height)))
            if (colours := tile.getcolors(1)) is not None:
                colour = bytes(colours[0][1])  # type: ignore[arg-type]
                yield b"\x01" + (colour if order == "RGB" else colour[::-1])
            else:
                yield b"\x00" + tile.tobytes("raw", order)
