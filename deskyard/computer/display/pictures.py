"""Pictures of the screen as PNG, JPEG or WebP, scaled to what a model takes."""

import io
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from isal import isal_zlib
from PIL import Image

from deskyard.computer.display.spaces import Rectangle, region_of, window_id
from deskyard.computer.fields import Fields, wrong

FORMATS = ("png", "jpeg", "webp")
# The long side, and the number of pixels, that a vendor's model takes without scaling it once more, or is said to be
# best with (https://ai.google.dev/gemini-api/docs/computer-use: 1440 x 900).
LIMITS = {"anthropic-1568": (1568, 1_192_464), "gemini-1440": (1440, 1440 * 900)}
MOST_SIDE = 16384
BAND = 64  # lines of a PNG that are packed at a time


@dataclass(frozen=True)
class Wanted:
    """A picture as it is asked for: of which part or window, and in what format and size."""

    region: Rectangle | None = None
    window: int | None = None
    format: str = "png"
    side: int = MOST_SIDE
    pixels: int = MOST_SIDE**2
    scale: float = 1.0
    cursor: bool = True
    if_changed: int | None = None


def wanted(fields: Fields) -> Wanted:
    """Read what picture is asked for."""
    region = fields.take("region", None)
    window = fields.take("window", None)
    if region is not None and window is not None:
        raise wrong(fields.at("region"), region, "stands beside window", "give region or window")
    side, pixels = _most(fields)
    return Wanted(
        region_of(region, fields.at("region")) if region is not None else None,
        window_id(window, fields.at("window")) if window is not None else None,
        fields.choice("format", FORMATS, "png"),
        side,
        pixels,
        fields.number("scale", 0.05, 1, 1),
        fields.flag("cursor", True),
        fields.integer("if_changed", 0, 1 << 53) if fields.given("if_changed") else None,
    )


def _most(fields: Fields) -> tuple[int, int]:
    """The longest side and the most pixels that a picture may have."""
    if not fields.given("max"):
        return MOST_SIDE, MOST_SIDE**2
    most = fields.peek("max")
    if isinstance(most, str) and most in LIMITS:
        return LIMITS[fields.take("max")]
    return fields.integer("max", 16, MOST_SIDE), MOST_SIDE**2


def size_of(region: Rectangle, asked: Wanted) -> tuple[int, int]:
    """The size of the picture: the region's, scaled, within the long side and number of pixels that are allowed."""
    width, height = region.width, region.height
    scale = min(asked.scale, asked.side / max(width, height), math.sqrt(asked.pixels / (width * height)), 1.0)
    return max(1, int(width * scale + 1e-6)), max(1, int(height * scale + 1e-6))


def encoded(image: Image.Image, format: str) -> bytes:
    """An RGB picture in this format."""
    if format == "png":
        return png(image)
    out = io.BytesIO()
    if format == "jpeg":
        image.save(out, "JPEG", quality=80)
    else:
        image.save(out, "WEBP", quality=80, method=0)
    return out.getvalue()


def png(image: Image.Image) -> bytes:
    """A PNG of an RGB picture, unfiltered and lightly packed: a tenth of the time that a general writer takes."""
    head = struct.pack(">IIBBBBB", *image.size, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", isal_zlib.crc32(data, isal_zlib.crc32(kind)))
        for kind, data in ((b"IHDR", head), (b"IDAT", b"".join(_packed(image))), (b"IEND", b""))
    )


def _packed(image: Image.Image) -> Iterator[bytes]:
    """The lines of a PNG, each behind the number of its filter: 0.

    A few at a time: to get memory for all of them from the kernel, picture by picture, takes longer than to pack them.
    """
    packer = isal_zlib.compressobj(1)
    for top in range(0, image.height, BAND):
        band = image.crop((0, top, image.width, min(top + BAND, image.height)))
        # With a byte more to the line each ends in a 0, which is the next line's number.
        lines = b"\0" + band.tobytes("raw", "RGB", 3 * image.width + 1, 1)
        yield packer.compress(memoryview(lines)[:-1])
    yield packer.flush()
