"""The declared care of desktops: updates, when they may restart, when disks are freed, how often they are backed up."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator

from deskyard.model.base import Declaration
from deskyard.model.duration import seconds

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
WINDOW = re.compile(r"(?:(?P<days>[a-z]{3}(?:,[a-z]{3})*) )?(?P<begin>[0-2]\d:[0-5]\d)-(?P<end>[0-2]\d:[0-5]\d)\Z")
LEAST_SECONDS, MOST_KEPT = 3600, 10_000
MOST_PATHS = 50
# Identity, secrets that come again by their own way, and accounts, which the next image may number otherwise. Of these
# the program in a desktop leaves out fewer, as nobody may declare the rest: see `LEFT_OUT` of `deskyard.guest.system`.
OF_THE_MACHINE = (
    *("/etc/deskyard", "/etc/machine-id", "/etc/ssh/ssh_host_", "/etc/fstab", "/etc/hostname", "/etc/resolv.conf"),
    *("/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc/subuid", "/etc/subgid", "/etc/ld.so.cache"),
)


def _kept(path: str) -> str:
    """A path of the system that outlives its exchange; raises `ValueError` with `reason -> remedy`."""
    example = "name files or folders of /etc, such as /etc/cron.d/report or /etc/myapp"
    if not re.fullmatch(r"/etc(/[A-Za-z0-9@_+.:-]+)+", path) or {".", ".."} & set(path.split("/")):
        raise ValueError(f"is no path below /etc -> {example}")
    for own in OF_THE_MACHINE:
        if path == own or path.startswith(f"{own}/") or (own.endswith("_") and path.startswith(own)):
            raise ValueError(f"is of the machine or its image -> leave it out; {example}")
    return path


KeptPath = Annotated[str, AfterValidator(_kept), Field(max_length=200)]


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

    @field_validator("hook")
    @classmethod
    def _hook(cls, text: str | None) -> str | None:
        if text is not None and text.startswith("https://") and not re.fullmatch(r"[!-~]+", text):
            raise ValueError("is no https URL -> write blanks and other letters as %20 and so on")
        return text

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


class BackupSchedule(Declaration):
    """How often care.run backs a desktop up, and which of its backups it keeps."""

    every: str = Field(
        description="Its newest backup is never older, as long as a timer runs care.run: 6h, 1d; 1h at least."
    )
    verify_every: str | None = Field(
        None, description="Only the next one after so long is booted to verify it: 7d; each, if left out."
    )
    keep_last: int = Field(0, ge=0, le=MOST_KEPT, description="Keep the last so many; without any keep_ all are kept.")
    keep_hourly: int = Field(0, ge=0, le=MOST_KEPT, description="Keep the last of each of so many hours.")
    keep_daily: int = Field(0, ge=0, le=MOST_KEPT, description="Keep the last of each of so many days.")
    keep_weekly: int = Field(0, ge=0, le=MOST_KEPT, description="Keep the last of each of so many weeks.")
    keep_monthly: int = Field(0, ge=0, le=MOST_KEPT, description="Keep the last of each of so many months.")
    keep_yearly: int = Field(0, ge=0, le=MOST_KEPT, description="Keep the last of each of so many years.")

    @field_validator("every", "verify_every")
    @classmethod
    def _duration(cls, text: str | None) -> str | None:
        if text is not None and seconds(text) < LEAST_SECONDS:
            raise ValueError("is shorter than a backup may take -> write 1h or more")
        return text

    @property
    def every_seconds(self) -> int:
        """The most that a newest backup is old, in seconds."""
        return seconds(self.every)

    @property
    def verify_seconds(self) -> int:
        """The most that a newest verified backup is old, in seconds."""
        return max(self.every_seconds, seconds(self.verify_every or self.every))

    @property
    def keep(self) -> tuple[int, ...]:
        """How many of each period are kept, in the order of `backup.prune`; all are if none is named."""
        days = (self.keep_last, self.keep_hourly, self.keep_daily)
        return (*days, self.keep_weekly, self.keep_monthly, self.keep_yearly)
