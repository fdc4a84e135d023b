"""The settings that a person writes about desktops that nobody uses."""

from typing import Literal

from pydantic import Field, field_validator

from deskyard.model.base import Declaration
from deskyard.model.duration import seconds

LEAST_SECONDS = 300


class Idle(Declaration):
    """When a desktop that nobody uses is stopped, and whether whoever wants it starts it again."""

    stop_after: str = Field(description="It is stopped when nobody has used it for so long: 30m, 2h, 1d; 5m at least.")
    wake: Literal["on_access", "by_hand"] = Field(
        "on_access",
        description="on_access: access.grant, agent.task, and the same of Mission Control, start it. by_hand: "
        "desktop.start alone does.",
    )
    cpu_percent: int = Field(
        10, ge=1, le=100, description="It is used if it takes more than this of one processor, on average of a look."
    )
    network_kib_per_second: int = Field(
        16, ge=1, le=1_000_000, description="It is used if it sends and gets more than this, on average of a look."
    )

    @field_validator("stop_after")
    @classmethod
    def _duration(cls, text: str) -> str:
        if seconds(text) < LEAST_SECONDS:
            raise ValueError("is too short to tell whether anybody uses it -> write 5m or more")
        return text

    @property
    def stop_seconds(self) -> int:
        """How long nobody has to have used it, in seconds."""
        return seconds(self.stop_after)
