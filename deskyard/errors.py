"""The one kind of error a user sees."""

from dataclasses import dataclass


@dataclass
class DeskyardError(Exception):
    """Something the user can mend: which field, which value, why it is refused, and what to do.

    `field` names what is wrong (a key path such as `desktops[0].tier`, a tool, a file); `value` is shown as given
    and never holds a secret; `remedy` is one sentence that starts with a verb.
    """

    field: str
    value: object
    reason: str
    remedy: str

    def __str__(self) -> str:
        value = "" if self.value is None else f" = {self.value!r}"
        return f"{self.field}{value}: {self.reason}\n  -> {self.remedy}"

    def as_dict(self) -> dict[str, str]:
        """The error for `--json`: all four parts as text."""
        return {
            "field": self.field,
            "value": "" if self.value is None else str(self.value),
            "reason": self.reason,
            "remedy": self.remedy,
        }


class ConfigError(DeskyardError):
    """A declaration (site, image or workspace) that the model refuses."""


class HostError(DeskyardError):
    """The machine lacks something: a tool, a package, memory, disk space, a free port."""


class BuildError(DeskyardError):
    """An image that could not be built or did not pass its tests."""


class SiteError(DeskyardError):
    """The hypervisor or a running virtual machine did not do what was asked."""


class CommandError(DeskyardError):
    """A program that ended with an error; `reason` carries the end of its output."""


class GatewayError(DeskyardError):
    """A request that the program inside a gateway refuses, or could not fulfil."""
