"""Finds the API token of a cluster, and keeps it out of everything that is printed."""

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path

from deskyard.errors import ConfigError
from deskyard.model.proxmox import Cluster

VARIABLE = "DESKYARD_PROXMOX_TOKEN"
_FORM = re.compile(r"(?P<user>[^\s:/!@]+@[A-Za-z][A-Za-z0-9._-]+)!(?P<name>[A-Za-z][A-Za-z0-9._-]+)=(?P<secret>[!-~]+)")
_MOST_BYTES = 4096


@dataclass(frozen=True)
class Token:
    """An API token; its secret is shown by no representation of it."""

    user: str
    name: str
    secret: str = field(repr=False)

    @property
    def id(self) -> str:
        """The name of the token, which is no secret, as `deskyard@pve!site`."""
        return f"{self.user}!{self.name}"

    def header(self) -> str:
        """The value of the Authorization header."""
        return f"PVEAPIToken={self.id}={self.secret}"

    def redact(self, text: str) -> str:
        """`text` without the secret, should a server or proxy have repeated it."""
        return text.replace(self.secret, "***")


def read_token(cluster: Cluster) -> Token:
    """The token from the site's file, or from the environment; raises `ConfigError` that never shows it."""
    if cluster.token_file is not None:
        return _parse(_private_text(cluster.token_file.expanduser()), "token_file", str(cluster.token_file))
    text = os.environ.get(VARIABLE, "")
    if not text:
        raise ConfigError("proxmox.token_file", None, "there is no API token", f"write token_file, or set {VARIABLE}")
    return _parse(text, VARIABLE, None)


def _private_text(path: Path) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigError("token_file", str(path), str(error.strerror), "create it, or correct the path") from error
    with os.fdopen(descriptor, "rb") as file:
        # Asked of the open file, so that nothing can be put in its place in between.
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode):
            raise ConfigError("token_file", str(path), "is no plain file", "write the token into a file")
        if state.st_mode & 0o077:
            reason = f"others can read it (mode {stat.S_IMODE(state.st_mode):o})"
            raise ConfigError("token_file", str(path), reason, f"run chmod 600 {path}")
        return file.read(_MOST_BYTES).decode("ascii", "replace")


def _parse(text: str, source: str, path: str | None) -> Token:
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise ConfigError(
            source, path, "holds no API token", "write one line, USER@REALM!NAME=SECRET, as pveum printed it"
        )
    return Token(found["user"], found["name"], found["secret"])
