"""An entry of an allow-list: what may be written, and what it means.

Used by the gateway and by the model that a person's declaration is read with, so that both refuse the same.
"""

import re
from dataclasses import dataclass

MAX_ENTRIES = 4000
WEB_PORTS = (80, 443)
LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
NAME = rf"({LABEL}\.)+[a-z]([a-z0-9-]{{0,61}}[a-z0-9])"
# Of an entry that a person is asked about.
NO_FORWARD = (
    "has a port whose protocol does not name the server, so nobody can be asked about it"
    " -> leave the port out, or write :80 or :443"
)
_NAME = re.compile(NAME + r"\Z")
_ADDRESS = re.compile(r"(\*\.)?[0-9.]*[0-9][0-9.]*(:|\Z)|.*:.*:|\[|0x[0-9a-f]+\Z")
_EXAMPLES = "write a name such as docs.example.org, *.example.org or git.example.org:22"


@dataclass(frozen=True)
class Entry:
    """A name, or all names below it, on one port or on those of the web."""

    name: str
    wildcard: bool = False
    port: int | None = None

    def __str__(self) -> str:
        return f"{'*.' if self.wildcard else ''}{self.name}{f':{self.port}' if self.port else ''}"

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports it opens."""
        return WEB_PORTS if self.port is None else (self.port,)

    @property
    def needs_forward(self) -> bool:
        """Whether the protocol names no server, so that the gateway gives the name an address of its own."""
        return self.port is not None and self.port not in WEB_PORTS

    def covers(self, name: str) -> bool:
        """Whether `name` is this entry's: the very name, or one below the wildcard's."""
        return name.endswith(f".{self.name}") if self.wildcard else name == self.name


def parse(text: str) -> Entry:
    """Read an entry in its one normal form; raises `ValueError` with `reason -> remedy`."""
    if _ADDRESS.match(text):
        raise ValueError("is an address, not a name -> write the server's name; an address proves nothing about it")
    base, _, port = text.partition(":")
    wildcard = base.startswith("*.")
    name = base.removeprefix("*.")
    if "*" in name:
        raise ValueError("has a wildcard that is not its whole first label -> write *.example.org")
    if not name or "" in name.split("."):
        raise ValueError(f"has an empty label -> {_EXAMPLES}")
    if len(name) > 253 or any(len(label) > 63 for label in name.split(".")):
        raise ValueError(f"is too long for a DNS name -> {_EXAMPLES}")
    if wildcard and name.count(".") < 1:
        raise ValueError("would allow a whole top-level domain -> name at least two labels after '*.'")
    if not _NAME.match(name):
        raise ValueError(f"is no DNS name of at least two labels -> {_EXAMPLES}")
    if ":" not in text:
        return Entry(name, wildcard)
    if not re.fullmatch(r"[1-9][0-9]{0,4}", port) or int(port) > 65535:
        raise ValueError("has no TCP port after its colon -> write a number from 1 to 65535")
    entry = Entry(name, wildcard, int(port))
    if entry.wildcard and entry.needs_forward:
        reason = "opens a port on names without number, where the protocol does not name the server"
        raise ValueError(f"{reason} -> list each name with its port; a wildcard can have :80 or :443")
    return entry


def closable(text: str) -> Entry:
    """Read an entry that may be closed: a name, or all names below it, without a port; raises as `parse`."""
    entry = parse(text)
    if entry.port is not None:
        raise ValueError("has a port -> write the name alone: it is closed on each of its ports")
    return entry
