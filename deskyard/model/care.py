"""The declared care of desktops: updates, when they may restart, when disks are freed."""

import re
from typing import Literal

from pydantic import Field, field_validator

from deskyard.model.base import Declaration

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
WINDOW = re.compile(r"(?:(?P<days>[a-z]{3}(?:,[a-z]{3})*) )?(?P<begin>[0-2]\d:[0-5]\d)-(?P<end>[0-2]\d:[0-5]\d)\Z")


class Care(Declaration):
    """Updates in a window, a free disk, and whom to tell of trouble."""

    updates: Literal["security", "all", "none"] = Field(
        "security", description="What of the distribution is installed by itself: security updates, all, or nothing."
    )
    window: str = Field(
        "03:00-05:00",
        description="When desktops may be updated and restarted, in this machine's time: 03:00-05:00, or with days, "
        "sat,sun 22:00-02:00.",
    )
    clean_above: int = Field(
        85, ge=10, le=99, description="Percent of the system disk in use above which caches and old logs are deleted."
    )
    hook: str | None = Field(
        None,
        min_length=1,
        max_length=1024,
        repr=False,
        description="Who learns of trouble: a program, relative to this file, that gets JSON on its standard input, or "
        "an https URL that JSON is posted to.",
    )

    @field_validator("window")
    @classmethod
    def _window(cls, text: str) -> str:
        match = WINDOW.match(text)
        days = (match["days"] or "").split(",") if match else []
        if match is None or match["begin"] == match["end"] or any(day not in ("", *DAYS) for day in days):
            raise ValueError("is no window -> write 03:00-05:00, or with days: sat,sun 22:00-02:00")
        if max(match["begin"], match["end"]) > "23:59":
            raise ValueError("names no time of a day -> write 00:00 to 23:59")
        return text
