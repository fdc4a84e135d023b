"""How much an admin gives by the web: little, unless the host lets that admin give more. Pure.

The web process serves the page, and says what a passkey signs: whoever takes it may use one signature, also one that
was asked for as a sign-in, for a key or a link of their own choice. What they get by it outlasts the taken process.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from deskyard.control.people.scopes import ADMIN, APPROVALS, CHAT, DECIDE, READ, SCOPES, WRITE
from deskyard.errors import ConfigError

PERSON_AT_HOST, KEY_AT_HOST = "./inv control.person", "./inv control.key"
VIEWER, OPERATOR = "viewer", "operator"

# Of who signs, as the worker finds it.
GIVER = "select name, gives from person where name = %s and role = 'admin' and disabled_at is null"
# Whoever gives a role, a link or a key has it for themselves as well, and would answer as another.
RULED = "select workspace_id from approval_rule order by workspace_id limit 1"


class Bounds(NamedTuple):
    """The roles and scopes that are given, and for how many days a key counts at most; the database has these, too."""

    roles: tuple[str, ...]
    scopes: tuple[str, ...]
    days: int


BOUNDS = {
    VIEWER: Bounds((VIEWER,), (READ, WRITE, CHAT, APPROVALS), 30),
    OPERATOR: Bounds((OPERATOR, VIEWER), tuple(scope for scope in SCOPES if scope != ADMIN), 365),
}


@dataclass(frozen=True)
class Giver:
    """An admin who signs; `gives` is what the host lets them give, `ruled` a workspace with a rule of approvals."""

    name: str
    gives: str
    ruled: str | None = None

    @classmethod
    def of(cls, person: Mapping[str, Any], rule: Mapping[str, Any] | None) -> "Giver":
        """The giver of the row of a person, and of that of a rule if there is any."""
        return cls(person["name"], person["gives"], rule["workspace_id"] if rule is not None else None)

    @property
    def bounds(self) -> Bounds:
        """The roles and scopes that they give as things are now."""
        found = BOUNDS[self.gives]
        if self.ruled is None:
            return found
        roles = tuple(role for role in found.roles if role != OPERATOR)
        return found._replace(roles=roles, scopes=tuple(scope for scope in found.scopes if scope != DECIDE))

    @property
    def widening(self) -> str:
        """The command at the host that lets them give more; the host alone writes it down."""
        return f"{PERSON_AT_HOST} {shlex.quote(self.name)} --role {ADMIN} --gives {OPERATOR}"

    def require_role(self, role: str, name: str, field: str = "role") -> None:
        """Raise `ConfigError` for a role, or a link of who has it, that they do not give; `field` says which."""
        if role not in self.bounds.roles:
            added, value = (f" --role {role}", role) if field == "role" else ("", name)
            at_host = f"make it at the host: {PERSON_AT_HOST} {shlex.quote(name)}{added}"
            raise self._refusal(field, value, at_host, ruled=role in BOUNDS[self.gives].roles)

    def require_scopes(self, scopes: tuple[str, ...], name: str) -> None:
        """Raise `ConfigError` for a scope that they do not give."""
        for scope in scopes:
            if scope not in self.bounds.scopes:
                command = f"{KEY_AT_HOST} {shlex.quote(name)} --scopes {','.join(scopes)}"
                at_host = f"leave it out, or make the key at the host: {command}"
                raise self._refusal("scopes", scope, at_host, ruled=scope in BOUNDS[self.gives].scopes)

    def require_days(self, days: int, name: str) -> None:
        """Raise `ConfigError` for a key that counts for longer than they give."""
        if days > self.bounds.days:
            command = f"{KEY_AT_HOST} {shlex.quote(name)} --days {days}"
            at_host = f"write 1 to {self.bounds.days}, or make the key at the host: {command}"
            raise self._refusal("days", days, at_host, ruled=False)

    def shown(self) -> dict[str, Any]:
        """All of it, for the page that offers it: with why it is no more, and how it gets more."""
        return {
            **self.bounds._asdict(),
            "ruled": self.ruled,
            "widening": None if self.gives == OPERATOR else self.widening,
        }

    def _refusal(self, field: str, value: object, at_host: str, ruled: bool) -> ConfigError:
        if ruled:
            reason = f"could answer as somebody else where the rule of approvals of {self.ruled} asks for another"
            return ConfigError(field, value, f"{reason}: given at the host alone while there is a rule", at_host)
        reason = f"is more than {self.name} gives by the web"
        return ConfigError(field, value, reason, f"{at_host}; or let {self.name} give more: {self.widening}")
