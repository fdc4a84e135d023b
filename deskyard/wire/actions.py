"""The header in which a desktop says what it did for a request; the gateway takes it into its audit.

Whoever is root in a desktop can say here what he likes. Therefore it is bounded on both ends, and of what it says only
numbers, hashes and plain words are taken: nothing that could be read as another field, line or command of a terminal.
"""

import base64
import binascii
import json
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

HEADER = "x-deskyard-actions"
MOST_HEADER = 4096  # characters
MOST_ACTIONS = 100
MOST_PLAIN = 64 * 1024  # bytes that a header may unpack to
MOST_WORD = 64
MOST_PLACES = 2
_NO_WORD = re.compile(r"[^A-Za-z0-9._:/@+\[\]-]")
_DIGEST = re.compile(r"[0-9a-f]{64}")
FARTHEST = 1 << 32


def pack(actions: Sequence[Mapping[str, Any]], frames: Mapping[str, Any] | None = None) -> str:
    """The header's value; of more actions than fit only the first, and how many more there were."""
    kept = [_taken(action) for action in actions[:MOST_ACTIONS]]
    while True:
        said = {**(frames or {}), "actions": kept, "more": len(actions) - len(kept)}
        text = base64.urlsafe_b64encode(zlib.compress(json.dumps(said, separators=(",", ":")).encode())).decode()
        if len(text) <= MOST_HEADER or not kept:
            return text.rstrip("=")
        kept = kept[: len(kept) * 3 // 4]


def unpack(text: str) -> dict[str, Any] | None:
    """Read a header, as far as it can be believed to be well-formed; None if it is not."""
    if len(text) > MOST_HEADER:
        return None
    try:
        packed = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
        plain = zlib.decompressobj()
        said = json.loads(plain.decompress(packed, MOST_PLAIN))
    except (ValueError, zlib.error, binascii.Error, RecursionError):
        return None
    if not isinstance(said, dict) or not isinstance(said.get("actions"), list):
        return None
    actions = [_taken(action) for action in said["actions"][:MOST_ACTIONS] if isinstance(action, dict)]
    more = _number(said.get("more"))
    return {
        **_taken(said, FRAMES),
        "actions": actions,
        **({"more": more} if isinstance(more, int) and more > 0 else {}),
    }


def word(value: object) -> str | None:
    """A plain word, with a mark for each character that could be taken for more; None of what is no text."""
    return _NO_WORD.sub("_", value[:MOST_WORD]) if isinstance(value, str) and value else None


def _number(value: object) -> int | float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool) and -FARTHEST <= value <= FARTHEST
    return value if number else None  # type: ignore[return-value]


def _digest(value: object) -> str | None:
    return value if isinstance(value, str) and _DIGEST.fullmatch(value) else None


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _places(value: object) -> list[list[Any]] | None:
    """Where on the screen: across, down, and in which space."""
    places = value[:MOST_PLACES] if isinstance(value, list | tuple) else []
    found = [
        [_number(place[0]), _number(place[1]), word(place[2])]
        for place in places
        if isinstance(place, list | tuple) and len(place) == 3
    ]
    return [place for place in found if None not in place] or None


FRAMES: Mapping[str, Callable[[object], Any]] = {"frame_before": _digest, "frame_after": _digest}
FACTS: Mapping[str, Callable[[object], Any]] = {
    "kind": word,
    "scope": word,
    "ok": _flag,
    "error": word,
    "window": _number,
    "class": word,
    "at": _places,
    "text_sha256": _digest,
    "path_sha256": _digest,
    "command_sha256": _digest,
}


def _taken(said: Mapping[str, Any], known: Mapping[str, Callable[[object], Any]] = FACTS) -> dict[str, Any]:
    """The known facts of something, as far as they are what they must be."""
    read = {name: take(said[name]) for name, take in known.items() if name in said}
    return {name: value for name, value in read.items() if value is not None}
