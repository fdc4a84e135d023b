"""What a person writes about the recording of a desktop's screen."""

import re

from pydantic import Field, field_validator

from deskyard.computer.recording.asked import (
    LEAST_KEEP_SECONDS,
    LEAST_SIZE_BYTES,
    MOST_KEEP_SECONDS,
    MOST_SIZE_BYTES,
    Asked,
)
from deskyard.model.base import Declaration
from deskyard.model.duration import seconds

SIZE = re.compile(r"(?P<number>[1-9]\d{0,5})(?P<unit>[MG]iB)\Z")
UNITS = {"MiB": 1 << 20, "GiB": 1 << 30}


def size_bytes(text: str) -> int:
    """A size in bytes; raises `ValueError` for what is none."""
    match = SIZE.match(text)
    if match is None:
        raise ValueError("is no size -> write a number and MiB or GiB, such as 2GiB")
    return int(match["number"]) * UNITS[match["unit"]]


class Recording(Declaration):
    """The screen is recorded, with what programs do on it, on the desktop itself, within these bounds."""

    keep: str = Field("24h", description="What is older goes: 1h at least, 366d at most.")
    size: str = Field(
        "2GiB", description="When there is more, the oldest goes: 64MiB at least, half of the tier's home_gib at most."
    )

    @field_validator("keep")
    @classmethod
    def _duration(cls, text: str) -> str:
        if not LEAST_KEEP_SECONDS <= seconds(text) <= MOST_KEEP_SECONDS:
            raise ValueError("is not between an hour and 366 days -> write such as 24h or 7d")
        return text

    @field_validator("size")
    @classmethod
    def _size(cls, text: str) -> str:
        if not LEAST_SIZE_BYTES <= size_bytes(text) <= MOST_SIZE_BYTES:
            raise ValueError("is not between 64MiB and 1024GiB -> write such as 2GiB")
        return text

    @property
    def asked(self) -> Asked:
        """The same in seconds and bytes, as a desktop is asked for it."""
        return Asked(seconds(self.keep), size_bytes(self.size))
