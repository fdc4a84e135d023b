"""Pictures of the screen as PNG, JPEG or WebP, scaled to what a model takes."""

import io
import math
import struct
import zlib
from dataclasses import dataclass
from typing import Any

from isal import isal_zlib
from PIL import Image

from deskyard.computer.display.fields import real, wrong
from deskyard.computer.display.spaces import Rectangle, region_of, window_id

FORMATS = ("png", "jpeg", "webp")
# The long side, and the number of pixels, that a vendor's model takes without scaling it once more.
LIMITS = {"anthropic-1568": (1568, 1_192_464)}
MOST_SIDE = 16384


@dataclass(frozen=True)
class Wanted:
    """What picture is asked for."""

    region: Rectangle | None = None
    window: int | None = None
    format: str = "png"
    side: int = MOST_SIDE
    pixels: int = MOST_SIDE**2
    scale: float = 1.0
    cursor: bool = True
    if_changed: int | None = None


def wanted(fields: Any) -> Wanted:
    """Read what picture is asked for, from a body's object or from a query whose values are text."""
    region = fields.take("region", None)
    window = fields.take("window", None)
    if region is not None and window is not None:
        raise wrong(fields.at("region"), region, "stands beside window", "give region or window")
    side, pixels = MOST_SIDE, MOST_SIDE**2
    most = fields.take("max", None)
    if isinstance(most, str) and most in LIMITS:
        side, pixels = LIMITS[most]
    elif most is not None:
        side = int(_number(most, fields.at("max"), 16, MOST_SIDE, f"or one of: {', '.join(LIMITS)}"))
    since = fields.take("if_changed", None)
    cursor = fields.take("cursor", True)
    if cursor not in (True, False, "true", "false", "1", "0"):
        raise wrong(fields.at("cursor"), cursor, "is neither true nor false", "give true or false")
    return Wanted(
        region_of(region, fields.at("region")) if region is not None else None,
        window_id(window, fields.at("window")) if window is not None else None,
        fields.choice("format", FORMATS, "png"),
        side,
        pixels,
        _number(fields.take("scale", 1), fields.at("scale"), 0.05, 1, "the picture is never made larger"),
        cursor in (True, "true", "1"),
        int(_number(since, fields.at("if_changed"), 0, 1 << 53, "a state of an earlier answer"))
        if since is not None
        else None,
    )


def _number(value: object, path: str, low: float, high: float, also: str) -> float:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise wrong(path, value, "is no number", f"give a number from {low} to {high}; {also}") from None
    number = real(value, path)
    if not low <= number <= high:
        raise wrong(path, number, f"is outside {low} to {high}", f"give a number from {low} to {high}; {also}")
    return number


def size_of(region: Rectangle, asked: Wanted) -> tuple[int, int]:
    """The size of the picture: the region's, scaled, within the long side and number of pixels that are allowed."""
    width, height = region.width, region.height
    scale = min(asked.scale, asked.side / max(width, height), math.sqrt(asked.pixels / (width * height)), 1.0)
    return max(1, int(width * scale + 1e-6)), max(1, int(height * scale + 1e-6))


def encoded(image: Image.Image, format: str) -> bytes:
    """An RGB picture in this format."""
    if format == "png":
        return png(image.tobytes(), *image.size)
    out = io.BytesIO()
    if format == "jpeg":
        image.save(out, "JPEG", quality=80)
    else:
        image.save(out, "WEBP", quality=80, method=0)
    return out.getvalue()


def png(rgb: bytes, width: int, height: int) -> bytes:
    """A PNG of 8-bit RGB, unfiltered and lightly packed: a tenth of the time that a general writer takes."""
    row = 3 * width
    view = memoryview(rgb)
    lines = b"".join(part for top in range(0, row * height, row) for part in (b"\0", view[top : top + row]))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))
        for kind, data in ((b"IHDR", head), (b"IDAT", isal_zlib.compress(lines, 1)), (b"IEND", b""))
    )
