"""The declared softer side of a desktop: its owner's files, environment and scripts, its agent, its recording."""

import re
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from deskyard.computer.recording.asked import (
    LEAST_KEEP_SECONDS,
    LEAST_SIZE_BYTES,
    MOST_KEEP_SECONDS,
    MOST_SIZE_BYTES,
    Asked,
)
from deskyard.model.base import Declaration
from deskyard.model.duration import seconds

SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)(://|::)")
URL = re.compile(r"(https|ssh|file)://([^/?#]*)(/[A-Za-z0-9._~/%+@-]+)\Z")
SERVER = r"(?:[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9a-fA-F:.]+\])(?::[0-9]{1,5})?"
HOST = re.compile(rf"(?:[A-Za-z0-9_][A-Za-z0-9._-]*@)?{SERVER}\Z")
SCP_FORM = re.compile(r"(?:[^/:]+@)?[^/:]+:")
REF = r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$"
MAX_WORDS = 32
Word = Annotated[str, StringConstraints(min_length=1, max_length=1024, pattern=r"^[^\x00-\x1f\x7f]+$")]
COMMIT = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
SIZE = re.compile(r"(?P<number>[1-9]\d{0,5})(?P<unit>[MG]iB)\Z")
UNITS = {"MiB": 1 << 20, "GiB": 1 << 30}


class Customise(Declaration):
    """Files for the agent's home, environment and scripts: from a folder, or a pinned state of a git repository."""

    # Its value is kept back: somebody may have written a token into a URL.
    source: str = Field(
        alias="from",
        min_length=1,
        max_length=1024,
        repr=False,
        description="A folder, relative to this file, or a git URL without credentials (https, ssh, file).",
    )
    ref: str | None = Field(
        None,
        pattern=REF,
        description="What a git URL is pinned to: a tag, or all digits of a commit. A branch is no pin.",
    )
    max_mib: int = Field(16, ge=1, le=64, description="Size that all files together may have, MiB.")
    script_seconds: int = Field(600, ge=10, le=7200, description="How long each script may run.")

    @property
    def is_git(self) -> bool:
        """True for a repository, false for a folder."""
        return SCHEME.match(self.source) is not None

    @property
    def is_commit(self) -> bool:
        """True if `ref` names the one commit that it will always name."""
        return self.ref is not None and COMMIT.match(self.ref) is not None

    @model_validator(mode="after")
    def _can_be_had(self) -> Self:
        if any(not " " <= letter <= "~" for letter in self.source):
            raise ValueError("from holds what is not printable ASCII -> rename the folder, or correct the URL")
        if self.is_git:
            _check_url(self.source)
            if self.ref is None:
                raise ValueError("from is a git URL without ref -> add ref: a tag, or the 40 digits of a commit")
            if ".." in self.ref or self.ref.endswith(("/", ".", ".lock")):
                raise ValueError("ref is no name of git -> write a tag, or the 40 digits of a commit")
        elif SCP_FORM.match(self.source):
            raise ValueError("from is neither a folder nor a URL -> write ssh://git@HOST/PATH for git over SSH")
        elif self.ref is not None:
            raise ValueError("ref belongs to a git URL, and from is a folder -> remove ref")
        return self


def _check_url(url: str) -> None:
    """Raise `ValueError` with `reason -> remedy` for what is fetched from nowhere, or would show a secret."""
    kind = url.partition(":")[0]
    if kind not in ("https", "ssh", "file"):
        raise ValueError("from is fetched over https, ssh or file alone -> write a URL that begins with one of them")
    server = url.partition("://")[2].partition("/")[0]
    account = server.rpartition("@")[0]
    if account and (kind != "ssh" or ":" in account):
        remedy = "take them out, and let git's credential helper or an SSH key of this machine open it"
        raise ValueError(f"from holds credentials in its URL -> {remedy}; make new ones where they came from")
    whole = URL.match(url)
    if whole is None or (kind == "file" and server) or (kind != "file" and not HOST.match(server)):
        raise ValueError(
            "from is no plain URL of a repository -> write for example https://git.example.org/me/desk.git"
        )


class AgentProgram(Declaration):
    """The agent that tasks go to: OpenClaw, or a program of the owner's choice (Agent Client Protocol)."""

    command: tuple[Word, ...] | None = Field(
        None,
        min_length=1,
        max_length=MAX_WORDS,
        description="Program and arguments, started for each task as the account agent, with the desktop's keys in its "
        "environment; it speaks the Agent Client Protocol on its standard input and output. No secret belongs here. "
        "Without it: OpenClaw, where the image has it.",
    )
    folder: Word = Field(".", description="Where it works: a folder, which a relative path begins in the agent's home.")
    permissions: Literal["allow", "refuse", "ask"] = Field(
        "allow",
        description="What it hears when it asks whether it may do something. allow: it may; what a desktop may do is "
        "decided outside of it. refuse: it may not. ask: a person answers in Mission Control's chat; where nobody "
        "does, it may not. Each question is told either way.",
    )

    @model_validator(mode="after")
    def _openclaw(self) -> "AgentProgram":
        if not self.command and self.folder != ".":
            raise ValueError("folder belongs to a command -> remove it: OpenClaw works in a folder of its own")
        return self


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


def size_bytes(text: str) -> int:
    """A size in bytes; raises `ValueError` for what is none."""
    match = SIZE.match(text)
    if match is None:
        raise ValueError("is no size -> write a number and MiB or GiB, such as 2GiB")
    return int(match["number"]) * UNITS[match["unit"]]
