"""The declared softer side of a desktop: where its owner's files, environment and scripts are, and its agent."""

import re
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from deskyard.model.base import Declaration

SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)(://|::)")
URL = re.compile(r"(https|ssh|file)://([^/?#]*)(/[A-Za-z0-9._~/%+@-]+)\Z")
SERVER = r"(?:[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9a-fA-F:.]+\])(?::[0-9]{1,5})?"
HOST = re.compile(rf"(?:[A-Za-z0-9_][A-Za-z0-9._-]*@)?{SERVER}\Z")
SCP_FORM = re.compile(r"(?:[^/:]+@)?[^/:]+:")
REF = r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$"
MAX_WORDS = 32
Word = Annotated[str, StringConstraints(min_length=1, max_length=1024, pattern=r"^[^\x00-\x1f\x7f]+$")]
COMMIT = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")


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
    """An agent of the owner's choice: a program that speaks the Agent Client Protocol."""

    command: tuple[Word, ...] = Field(
        min_length=1,
        max_length=MAX_WORDS,
        description="Program and arguments, started for each task as the account agent, with the desktop's keys in its "
        "environment; it speaks the Agent Client Protocol on its standard input and output. No secret belongs here.",
    )
    folder: Word = Field(".", description="Where it works: a folder, which a relative path begins in the agent's home.")
    permissions: Literal["allow", "refuse", "ask"] = Field(
        "allow",
        description="What it hears when it asks whether it may do something. allow: it may; what a desktop may do is "
        "decided outside of it. refuse: it may not. ask: a person answers in Mission Control's chat; where nobody "
        "does, it may not. Each question is told either way.",
    )
