"""The settings that a person writes about desktops that are booted ahead."""

from pydantic import Field, field_validator

from deskyard.model.base import Declaration
from deskyard.model.duration import seconds


class Pool(Declaration):
    """Disposable desktops that wait, booted, for whoever claims them."""

    size: int = Field(ge=1, le=100, description="So many wait for a claim; at most as many as have lifetime: task.")
    max_age: str = Field("1d", description="One that waited for longer is made anew: 90s, 30m, 8h, 2d.")

    @field_validator("max_age")
    @classmethod
    def _duration(cls, text: str) -> str:
        seconds(text)
        return text

    @property
    def max_seconds(self) -> int:
        """The longest that one waits, in seconds."""
        return seconds(self.max_age)
