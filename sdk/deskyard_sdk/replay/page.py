"""Writes a recording as one page that plays it in any browser: nothing is loaded from anywhere, and nothing sent."""

import base64
import hashlib
import json
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deskyard_sdk.replay.segments import Part, Segment, load

HERE = Path(__file__).parent


def write_page(folder: str | Path, to: str | Path) -> Path:
    """Write the page of a folder's segments."""
    path = Path(to)
    path.write_text(page(load(folder)), encoding="utf-8")
    return path


def page(segments: Sequence[Segment]) -> str:
    """The page's text; it may run its own script, by the script's hash, and nothing else."""
    script, style = ((HERE / name).read_text() for name in ("player.js", "player.css"))
    # "<" would let a text of the desktop end the element that it stands in.
    data = json.dumps(_data(segments), separators=(",", ":")).replace("<", "\\u003c")
    policy = f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'"
    frame = (HERE / "player.html").read_text()
    for name, text in (("POLICY", policy), ("STYLE", style), ("SCRIPT", script), ("DATA", data)):
        frame = frame.replace(f"@{name}@", text, 1)
    return frame


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _data(segments: Sequence[Segment]) -> dict[str, Any]:
    begin = segments[0].begin
    frames = [
        [round(segment.begin + frame.at - begin, 3), index, [_part(part) for part in frame.parts]]
        for index, segment in enumerate(segments)
        for frame in segment.frames
    ]
    actions = [
        {"at": round(segment.begin + action["offset_ms"] / 1000 - begin, 3), **_words(action)}
        for segment in segments
        for action in segment.actions
    ]
    return {"begin": begin, "sizes": [segment.size for segment in segments], "frames": frames, "actions": actions}


def _words(action: dict[str, Any]) -> dict[str, Any]:
    places = action.get("at") or []
    return {
        "actor": str(action.get("actor", "")),
        "kind": str(action.get("kind", "")),
        "ok": bool(action.get("ok", True)),
        "error": str(action.get("error", "")),
        "where": " ".join(f"{place[0]:g},{place[1]:g} {place[2]}" for place in places),
        "window": str(action.get("class", "")),
    }


def _part(part: Part) -> list[Any]:
    if part.kind == "fill":
        return [part.x, part.y, part.width, part.height, f"#{part.data.hex()}"]
    kind, data = ("jpeg", part.data) if part.kind == "jpeg" else ("png", _png(part))
    return [part.x, part.y, part.width, part.height, kind, base64.b64encode(data).decode()]


def _png(part: Part) -> bytes:
    """Pixels as a PNG, which browsers decode by themselves."""
    row = part.width * 3
    rows = b"".join(b"\0" + part.data[at : at + row] for at in range(0, len(part.data), row))
    head = struct.pack(">IIBBBBB", part.width, part.height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )
