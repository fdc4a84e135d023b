"""Finds the API token of a cluster, and keeps it out of everything that is printed."""

import os
import re
from dataclasses import dataclass, field

from deskyard.errors import ConfigError
from deskyard.host.secret_file import read_secret
from deskyard.model.proxmox import Cluster

VARIABLE = "DESKYARD_PROXMOX_TOKEN"
_FORM = re.compile(r"(?P<user>[^\s:/!@]+@[A-Za-z][A-Za-z0-9._-]+)!(?P<name>[A-Za-z][A-Za-z0-9._-]+)=(?P<secret>[!-~]+)")


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
        return _parse(read_secret(cluster.token_file.expanduser(), "token_file"), "token_file", str(cluster.token_file))
    text = os.environ.get(VARIABLE, "")
    if not text:
        raise ConfigError("proxmox.token_file", None, "there is no API token", f"write token_file, or set {VARIABLE}")
    return _parse(text, VARIABLE, None)


def _parse(text: str, source: str, path: str | None) -> Token:
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise ConfigError(
            source, path, "holds no API token", "write one line, USER@REALM!NAME=SECRET, as pveum printed it"
        )
    return Token(found["user"], found["name"], found["secret"])
