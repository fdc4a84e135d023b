"""The lines that are signed to make keys and persons by the web, and the bounds of that. Pure.

A passkey shows no text, and a page that was taken could lie about what it signs: what would give more than its signer
can do without for long is made at the host alone.
"""

import json
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deskyard.control.credentials.giver import KEY_AT_HOST, PERSON_AT_HOST, Giver
from deskyard.control.opening import seal
from deskyard.control.people.scopes import ADMIN, ROLES, SCOPES
from deskyard.errors import ConfigError

KEY, INVITE, REMOVE, PASSKEY = "key.create", "person.invite", "person.remove", "passkey.remove"
KINDS = (KEY, INVITE, REMOVE, PASSKEY)
MOST_DAYS, DAYS = 365, 30
MOST_NAME = 60

# Whoever has one of these names already, or is of that name.
KEY_THERE = "select 1 from api_key where name = %s and revoked_at is null and expires_at > now()"
PERSON_THERE = "select id, name, role, disabled_at from person where name = %s"
# A passkey of a person, how many others they have, and whether an account of a provider lets them in.
PASSKEY_THERE = """select k.name, p.role,
    (select count(*) from passkey o where o.person_id = p.id and o.id <> k.id) as others,
    exists (select from identity i where i.person_id = p.id and i.ended_at is null) as has_account
    from passkey k join person p on p.id = k.person_id
    where k.id = %s and p.name = %s and p.disabled_at is null"""
WORKSPACES_THERE = "select id from workspace where gone_at is null and id = any(%s)"


@dataclass(frozen=True)
class NewKey:
    """A key for the page that asks: what it may, where, and for how many days."""

    name: str
    scopes: tuple[str, ...]
    workspaces: tuple[str, ...] | None
    days: int
    seal_to: str

    @property
    def target(self) -> str:
        """All of it in the one line that an admin signs and the worker compares."""
        where, sealed = _where(self.workspaces), seal.fingerprint(self.seal_to)
        return f"{_quoted(self.name)} scopes={','.join(self.scopes)} {where} days={self.days} for key {sealed}"

    def require(self) -> None:
        """Raise `ConfigError` for a key that is not made by the web."""
        _require_name(self.name)
        if unknown := sorted(set(self.scopes) - set(SCOPES)):
            raise ConfigError("scopes", unknown[0], "is no scope", f"choose of: {', '.join(_given_by_web())}")
        if ADMIN in self.scopes:
            remedy = (
                f"leave it out, or make the key at the host: {KEY_AT_HOST} {shlex.quote(self.name)} --scopes {ADMIN}"
            )
            raise ConfigError("scopes", ADMIN, "is given at the host alone", remedy)
        if not self.scopes:
            raise ConfigError("scopes", None, "are none", f"choose of: {', '.join(_given_by_web())}")
        if not 1 <= self.days <= MOST_DAYS:
            at_host = f"{KEY_AT_HOST} {shlex.quote(self.name)} --days {self.days}"
            remedy = f"write 1 to {MOST_DAYS}, or make the key at the host: {at_host}"
            raise ConfigError("days", self.days, "is no time for a key that is made by the web", remedy)
        _require_some(self.workspaces)
        seal.recipient(self.seal_to)

    def require_of(self, giver: Giver) -> None:
        """Raise `ConfigError` for a key that is more than its giver gives."""
        giver.require_scopes(self.scopes, self.name)
        giver.require_days(self.days, self.name)


@dataclass(frozen=True)
class Invitation:
    """A link that enrols a passkey, sealed to the page that asks: of a new person, or without a role of one there."""

    name: str
    role: str | None
    workspaces: tuple[str, ...] | None
    seal_to: str

    @property
    def target(self) -> str:
        """All of it in the one line that an admin signs and the worker compares."""
        what = f"role={self.role} {_where(self.workspaces)}" if self.role is not None else "another link"
        return f"{_quoted(self.name)} {what} for key {seal.fingerprint(self.seal_to)}"

    def require(self) -> None:
        """Raise `ConfigError` for an invitation that is not made by the web."""
        if self.role is not None:
            _require_name(self.name)
            if self.role == ADMIN:
                at_host = f"{PERSON_AT_HOST} {shlex.quote(self.name)} --role {ADMIN}"
                remedy = f"choose another, or make an admin at the host: {at_host}"
                raise ConfigError("role", ADMIN, "is given at the host alone", remedy)
            if self.role not in ROLES:
                raise ConfigError("role", self.role, "is no role", "choose viewer or operator")
            _require_some(self.workspaces)
        elif self.workspaces is not None:
            # The line of another link names none: nobody signed these.
            remedy = "leave them out: who gets another link stays who they are"
            raise ConfigError("workspaces", ",".join(self.workspaces), "are not given by another link", remedy)
        seal.recipient(self.seal_to)

    def require_person(self, found: Mapping[str, Any] | None) -> None:
        """Raise `ConfigError` where a new person is there already, or one who gets another link is not, or an admin."""
        there = found is not None and found["disabled_at"] is None
        if self.role is not None:
            if there:
                raise ConfigError("name", self.name, "is a person already", "choose another, or give them a new link")
        elif found is None or not there:
            raise ConfigError("person", self.name, "is no person here", "see GET /api/people")
        elif found["role"] == ADMIN:
            remedy = f"make it there: {PERSON_AT_HOST} {shlex.quote(self.name)}"
            raise ConfigError("person", self.name, "is an admin, whose links are made at the host alone", remedy)

    def require_of(self, giver: Giver, found: Mapping[str, Any] | None) -> None:
        """Raise `ConfigError` for a role, or a link of somebody who has one, that is more than its giver gives."""
        if self.role is not None:
            giver.require_role(self.role, self.name)
        elif found is not None:
            giver.require_role(str(found["role"]), self.name, "person")


@dataclass(frozen=True)
class Removal:
    """The end of a person: of passkeys, sessions and links."""

    name: str

    @property
    def target(self) -> str:
        """The line that an admin signs."""
        return _quoted(self.name)

    def require_person(self, found: Mapping[str, Any] | None, by: str) -> None:
        """Raise `ConfigError` for nobody, for an admin, and for who asks for it."""
        if found is None or found["disabled_at"] is not None:
            raise ConfigError("person", self.name, "is no person here", "see GET /api/people")
        if by == f"person:{self.name}":
            raise ConfigError("person", self.name, "is you", "ask for that at the host")
        if found["role"] == ADMIN:
            remedy = f"remove them there: {PERSON_AT_HOST} {shlex.quote(self.name)} --remove"
            raise ConfigError("person", self.name, "is an admin, who is removed at the host alone", remedy)


@dataclass(frozen=True)
class PasskeyRemoval:
    """The end of a passkey of whoever signs, with one that they have; `id` is as browsers write it."""

    id: str
    name: str

    @property
    def target(self) -> str:
        """The line that its person signs."""
        return f"{_quoted(self.name)} {self.id}"

    def require(self, found: Mapping[str, Any] | None, others: int, has_account: bool) -> None:
        """Raise `ConfigError` for a passkey of somebody else, or the last way in of its person."""
        if found is None or found["name"] != self.name:
            raise ConfigError("passkey", self.id, "is no passkey of yours", "see GET /api/me")
        if not others and found["role"] == ADMIN:
            remedy = "enrol another one first, by a link of the host"
            raise ConfigError("passkey", self.id, "is the last one of an admin, which ends at the host alone", remedy)
        if not others and not has_account:
            remedy = "enrol another one first, by a link of an admin or of the host"
            raise ConfigError("passkey", self.id, "is the last one, and nothing else lets you in", remedy)


def parsed(kind: str, values: Mapping[str, Any]) -> NewKey | Invitation | Removal | PasskeyRemoval:
    """The key, invitation or removal that an operation asks for; raises `ConfigError` for what is none."""
    try:
        name = str(values["name"])
        if kind == PASSKEY:
            return PasskeyRemoval(str(values["id"]), name)
        if kind == REMOVE:
            return Removal(name)
        workspaces, seal_to = values.get("workspaces"), str(values["seal_to"])
        where = None if workspaces is None else tuple(sorted({str(each) for each in workspaces}))
        seal.fingerprint(seal_to)
        if kind == KEY:
            scopes = tuple(sorted({str(each) for each in values["scopes"]}))
            return NewKey(name, scopes, where, int(values["days"]), seal_to)
        role = values.get("role")
        return Invitation(name, None if role is None else str(role), where, seal_to)
    except (TypeError, KeyError, ValueError) as error:
        raise ConfigError("operation", kind, "lacks what it needs", "ask for it anew") from error


def require_workspaces(wanted: Sequence[str] | None, there: Collection[str]) -> None:
    """Raise `ConfigError` for a workspace that is not of the site."""
    if unknown := sorted(set(wanted or ()) - set(there)):
        raise ConfigError("workspaces", unknown[0], "is no workspace here", "choose of GET /api/workspaces")


def require_free(name: str, found: object) -> None:
    """Raise `ConfigError` for the name of a key that still counts."""
    if found is not None:
        raise ConfigError("name", name, "is the name of a key that still counts", "choose another, or revoke that key")


def _require_name(name: str) -> None:
    if not (0 < len(name) <= MOST_NAME and name.isprintable() and name == name.strip() and ":" not in name):
        remedy = f"write 1 to {MOST_NAME} letters, figures and marks, without a colon or spaces around them"
        raise ConfigError("name", name, "is no name", remedy)


def _require_some(workspaces: tuple[str, ...] | None) -> None:
    if workspaces == ():
        raise ConfigError("workspaces", None, "are none", "choose some, or leave them out for all")


def _given_by_web() -> list[str]:
    return [scope for scope in SCOPES if scope != ADMIN]


def _where(workspaces: tuple[str, ...] | None) -> str:
    return "all workspaces" if workspaces is None else f"workspaces={','.join(workspaces)}"


def _quoted(name: str) -> str:
    """A name whose end is seen in a line, as a browser's JSON has it."""
    return json.dumps(name, ensure_ascii=False)
