"""The one kind of error the gateway's program shows."""

from dataclasses import dataclass


@dataclass
class GatewayError(Exception):
    """Something to mend: which field, which value, why it is refused, and what to do."""

    field: str
    value: object
    reason: str
    remedy: str

    def __str__(self) -> str:
        value = "" if self.value is None else f" = {self.value!r}"
        return f"{self.field}{value}: {self.reason}\n  -> {self.remedy}"

    def as_dict(self) -> dict[str, str]:
        """The four parts as text, for programs."""
        value = "" if self.value is None else str(self.value)
        return {"field": self.field, "value": value, "reason": self.reason, "remedy": self.remedy}
