"""Recordings: what a desktop's screen showed, and what was done on it, where its declaration asks for that."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deskyard_sdk.door import Door

PAGE = 1000


@dataclass(frozen=True)
class Recorded:
    """A segment of a recording: some minutes that begin with the whole screen; times are seconds since 1970."""

    id: str
    begin: float
    end: float
    bytes: int
    size: tuple[int, int]
    frames: int
    actions: int
    is_open: bool

    @staticmethod
    def of(answer: dict[str, Any]) -> "Recorded":
        """The segment of an answer."""
        width, height = answer["size"]
        return Recorded(
            str(answer["id"]),
            float(answer["begin"]),
            float(answer["end"]),
            int(answer["bytes"]),
            (int(width), int(height)),
            int(answer["frames"]),
            int(answer["actions"]),
            bool(answer["open"]),
        )


@dataclass(frozen=True)
class Recording:
    """Whether the screen is recorded: `state` is off, recording, or stopped for a `reason`; what is kept, if it is."""

    state: str
    reason: str
    bytes: int
    count: int
    keep_seconds: int | None
    size_bytes: int | None


class AsyncRecordings:
    """Tells whether the desktop is recorded, lists and fetches what there is.

    To know takes the scope see, to look back files as well.
    """

    def __init__(self, door: Door) -> None:
        self._door = door

    async def state(self) -> Recording:
        """Whether the screen is recorded."""
        answer = await self._door.json("GET", "/v1/recordings", params={"most": "1"})
        keep, size = answer.get("keep_seconds"), answer.get("size_bytes")
        return Recording(answer["state"], answer.get("reason", ""), answer["bytes"], answer["count"], keep, size)

    async def list(self, after: str = "0") -> "list[Recorded]":
        """The segments that there are, the oldest first; `after` is the id of the last one that is known."""
        found: list[Recorded] = []
        while True:
            params = {"after": found[-1].id if found else after, "most": str(PAGE)}
            page = (await self._door.json("GET", "/v1/recordings", params=params))["recordings"]
            found += [Recorded.of(answer) for answer in page]
            if len(page) < PAGE:
                return found

    async def get(self, id: str) -> Recorded:
        """A segment as it is now."""
        return Recorded.of(await self._door.json("GET", f"/v1/recordings/{id}"))

    async def frames(self, segment: str | Recorded, start: int = 0, length: int | None = None) -> bytes:
        """A segment's frames, or a part of the bytes: a file of the format FBS 001.000."""
        headers = {}
        if start or length is not None:
            headers["Range"] = f"bytes={start}-{'' if length is None else start + length - 1}"
        return await self._door.bytes("GET", f"/v1/recordings/{_id(segment)}/frames", headers=headers)

    async def actions(self, segment: str | Recorded) -> "Sequence[dict[str, Any]]":
        """The actions in a segment; a line that is just being written is left out."""
        content = await self._door.bytes("GET", f"/v1/recordings/{_id(segment)}/actions")
        return [json.loads(line) for line in content.split(b"\n")[:-1]]

    async def delete(self, segment: str | Recorded) -> None:
        """Remove a segment; the one that is being written cannot be (409)."""
        await self._door.json("DELETE", f"/v1/recordings/{_id(segment)}")

    async def download(self, to: str | Path, after: str = "0") -> "Sequence[Path]":
        """Copy the segments to a folder, for `deskyard_sdk.replay`; what is there whole is not fetched again."""
        folder = Path(to)
        folder.mkdir(parents=True, exist_ok=True)
        fetched = []
        for segment in await self.list(after):
            frames = folder / f"{segment.id}.fbs"
            about = folder / f"{segment.id}.json"
            if not about.exists():
                await self._copy(segment, "frames", frames)
                await self._copy(segment, "actions", frames.with_suffix(".jsonl"))
                if not segment.is_open:
                    about.write_text(json.dumps({"id": segment.id, "begin": segment.begin, "end": segment.end}))
            fetched.append(frames)
        return fetched

    async def _copy(self, segment: Recorded, what: str, to: Path) -> None:
        draft = to.with_name(f"{to.name}.part")
        async with self._door.stream("GET", f"/v1/recordings/{segment.id}/{what}") as response:
            with draft.open("wb") as file:
                async for chunk in response.aiter_bytes():
                    file.write(chunk)
        draft.replace(to)


def _id(segment: str | Recorded) -> str:
    return segment.id if isinstance(segment, Recorded) else segment
