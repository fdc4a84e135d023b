"""How E2B's clients are answered, as the site's owner declared it at the host."""

import json
import socket
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from deskyard.errors import ConfigError
from deskyard.host.secret_file import write_secret

PORT = 9444
ENDINGS = ("stop", "destroy", "nothing")
# As Mission Control takes it.
MOST_TASK_SECONDS = 999_999
SIGNS = "abcdefghijklmnopqrstuvwxyz0123456789-"


@dataclass(frozen=True)
class Declared:
    """The domain that clients are given, where the proxy listens for them, and what a new sandbox is."""

    domain: str
    port: int = PORT
    workspace: str = ""
    tier: str = ""
    image: str = ""
    at_timeout: str = ""
    task_seconds: int = 0

    def checked(self, site_domain: str, taken_port: int | None = None) -> "Declared":
        """It, or a `ConfigError` for what cannot be; the site's authority signs for names below its domain alone."""
        labels = self.domain.removesuffix(f".{site_domain}").split(".")
        if not self.domain.endswith(f".{site_domain}") or not all(map(_is_label, labels)):
            remedy = f"give such as e2b.{site_domain}; for another, ./inv e2b.serve with a certificate of your own"
            raise ConfigError("--domain", self.domain, f"is no name below the site's domain {site_domain}", remedy)
        if not 1 <= self.port <= 65535 or self.port == taken_port:
            raise ConfigError("--port", self.port, "is none, or that of Mission Control", f"give such as {PORT}")
        if self.at_timeout and self.at_timeout not in ENDINGS:
            raise ConfigError("--at-timeout", self.at_timeout, "is none", f"give {', '.join(ENDINGS)}")
        if not 0 <= self.task_seconds <= MOST_TASK_SECONDS:
            reason, remedy = "is not in range", f"give 1 to {MOST_TASK_SECONDS}"
            raise ConfigError("--task-seconds", self.task_seconds, reason, remedy)
        return self

    def require_free_port(self, listen: str) -> None:
        """Raise `ConfigError` where another program listens at its port."""
        family = socket.AF_INET6 if ":" in listen else socket.AF_INET
        try:
            with socket.create_server((listen, self.port), family=family):
                pass
        except OSError as error:
            reason = f"cannot be listened on at {listen}: {error.strerror}"
            raise ConfigError("--port", self.port, reason, "give another, or end the program there") from error

    @property
    def authority(self) -> str:
        """The domain with its port, as clients are given it for `E2B_DOMAIN`."""
        return self.domain if self.port == 443 else f"{self.domain}:{self.port}"

    @property
    def names(self) -> tuple[str, str]:
        """The names of the certificate: of the API, and of each sandbox's ports."""
        return f"api.{self.domain}", f"*.{self.domain}"

    def arguments(self) -> Sequence[str]:
        """The options of the program."""
        chosen = {"workspace": self.workspace, "tier": self.tier, "image": self.image, "at-timeout": self.at_timeout}
        chosen |= {"domain": self.authority, "task-seconds": str(self.task_seconds or "")}
        return [f"--{name}={value}" for name, value in chosen.items() if value]

    def shown(self) -> dict[str, Any]:
        """All of it, with what clients are given."""
        return {**asdict(self), "e2b_domain": self.authority}

    def save(self, path: Path) -> None:
        """Keep it, for root alone."""
        write_secret(path, json.dumps(asdict(self)).encode())


def kept(path: Path) -> Declared | None:
    """How they are answered; None if it was not declared."""
    try:
        return Declared(**json.loads(path.read_text()))
    except FileNotFoundError:
        return None


def _is_label(text: str) -> bool:
    return 1 <= len(text) <= 63 and set(text) <= set(SIGNS) and not text.startswith("-") and not text.endswith("-")
