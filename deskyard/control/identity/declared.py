"""Which provider signs people in, as the site's owner declared it at the host; the file has the client's secret."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from deskyard.control.people import session
from deskyard.control.people.scopes import ROLES
from deskyard.errors import ConfigError
from deskyard.host.authorities import require_certificates
from deskyard.host.secret_file import write_secret

# An issuer without TLS can be on this machine alone: what it says is believed.
LOOPBACK = ("127.0.0.1", "[::1]", "localhost")
DOMAIN, GROUP = "domain", "group"
RULE = re.compile(r"(?P<kind>domain|group):(?P<value>[^=@,]{1,200})=(?P<role>[a-z]+)(?:@(?P<workspaces>[^,=@]+))?\Z")
SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+\Z")


@dataclass(frozen=True)
class Rule:
    """Who is of a domain or a group gets a role, in some workspaces or in all."""

    kind: str
    value: str
    role: str
    workspaces: tuple[str, ...] | None = None

    @classmethod
    def parsed(cls, text: str) -> "Rule":
        """The rule of a text such as `group:platform=operator@research+lab`."""
        found = RULE.match(text.strip())
        if found is None or found["role"] not in ROLES:
            remedy = f"write KIND:VALUE=ROLE or KIND:VALUE=ROLE@WS+WS; KIND: domain, group; ROLE: {', '.join(ROLES)}"
            raise ConfigError("--rules", text, "is no rule", remedy)
        named = found["workspaces"]
        if named is not None and found["role"] == "admin":
            remedy = "leave the workspaces out, or choose operator"
            raise ConfigError("--rules", text, "bounds an admin: keys, people and the audit are of all", remedy)
        return cls(found["kind"], found["value"], found["role"], tuple(named.split("+")) if named is not None else None)

    @property
    def bounds(self) -> list[str] | None:
        """The workspaces of its persons, as the database has them; None for all."""
        return list(self.workspaces) if self.workspaces is not None else None

    @property
    def text(self) -> str:
        """How it is written."""
        bounds = f"@{'+'.join(self.workspaces)}" if self.workspaces is not None else ""
        return f"{self.kind}:{self.value}={self.role}{bounds}"

    def is_for(self, mail: str, groups: Sequence[str]) -> bool:
        """Whether it is for somebody with this verified mail and these groups."""
        if self.kind == GROUP:
            return self.value in groups
        return mail.rpartition("@")[2] == self.value.lower()


@dataclass(frozen=True)
class Declared:
    """A provider; without rules nobody becomes anything by it who is not a person here already."""

    issuer: str
    client: str
    secret: str = ""
    # What the button says.
    name: str = ""
    scopes: tuple[str, ...] = ("openid", "email")
    groups_claim: str = "groups"
    rules: tuple[Rule, ...] = ()
    # For how long a sign-in counts until the provider is asked again.
    recheck_seconds: float = 3600.0
    # Certificates that are trusted instead of this machine's, as PEM.
    authorities: str = ""

    def checked(self) -> "Declared":
        """It, or a `ConfigError` for what cannot be."""
        remedy = "write it exactly as the provider's discovery document does, such as https://login.example.org"
        if not is_safe(self.issuer, self.issuer) or urlsplit(self.issuer).query or urlsplit(self.issuer).fragment:
            raise ConfigError("issuer", self.issuer, "is no https address without query and fragment", remedy)
        if not self.client:
            raise ConfigError("--client", self.client, "is missing", "give the client's id at the provider")
        if "openid" not in self.scopes or not all(map(SCOPE.match, self.scopes)):
            raise ConfigError("--scopes", ",".join(self.scopes), "has no openid, or no scopes", "write openid,email")
        if not 0 < self.recheck_seconds <= session.SECONDS:
            remedy = f"write 1 to {session.SECONDS // 60} minutes, as long as a session lasts at most"
            raise ConfigError("--recheck", f"{self.recheck_seconds / 60:g}", "is no such time", remedy)
        require_certificates(self.authorities)
        return self

    @property
    def title(self) -> str:
        """The name by which people know the provider."""
        return self.name or str(urlsplit(self.issuer).hostname)

    def rule_for(self, mail: str, groups: Sequence[str]) -> Rule | None:
        """The first rule that is for somebody."""
        return next((rule for rule in self.rules if rule.is_for(mail, groups)), None)

    def shown(self) -> dict[str, Any]:
        """All but the secret."""
        values = {**asdict(self), "rules": [rule.text for rule in self.rules], "secret": bool(self.secret)}
        return {**values, "scopes": list(self.scopes), "authorities": bool(self.authorities)}

    def save(self, path: Path) -> None:
        """Keep it, for root alone."""
        write_secret(path, json.dumps({**asdict(self), "rules": [rule.text for rule in self.rules]}).encode())


def kept(path: Path) -> Declared | None:
    """The declared provider; None if none was declared."""
    try:
        values: Mapping[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    rules = tuple(Rule.parsed(text) for text in values["rules"])
    return Declared(**{**values, "rules": rules, "scopes": tuple(values["scopes"])})


def is_safe(url: str, issuer: str) -> bool:
    """Whether an address may be asked: by https, or in plain on this machine where its issuer is that, too."""
    try:
        found = urlsplit(url)
        port = found.port
    except ValueError:
        return False
    if not found.hostname or port == 0 or found.username is not None:
        return False
    if not url.isascii() or any(ord(sign) <= 32 for sign in url):
        return False
    here = [urlsplit(each).netloc.rpartition("@")[2].rsplit(":", 1)[0] in LOOPBACK for each in (url, issuer)]
    return found.scheme == "https" or (found.scheme == "http" and all(here))
