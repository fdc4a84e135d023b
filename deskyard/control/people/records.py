"""Records of who may what: persons, links that enrol passkeys, offers to accounts of a provider, and keys.

The host makes them, and the worker those that an admin signed for: by the same statements, with the same lines of the
audit.
"""

import secrets
from dataclasses import dataclass
from typing import Any

from psycopg.types.json import Jsonb

from deskyard.control.people import enrolment
from deskyard.control.people.keys import Key
from deskyard.control.people.mail import verified_mail
from deskyard.control.people.passkeys import credential_id, written
from deskyard.control.people.scopes import ADMIN, GIVES, ROLES, SCOPES
from deskyard.control.people.token import fresh_token
from deskyard.control.store.connection import Link
from deskyard.errors import ConfigError

LINK_SECONDS = 30 * 60
MOST_DAYS = 3660
# Of a person of whom nothing else is said.
ROLE = "operator"
# Where what counts towards several persons is kept, and by which operation each was signed.
SIGNED = {
    "approval_decision": "operation_id",
    "approval_rule_change": "operation_id",
    "operation_decision": "decision_id",
}
# Who signed in by a provider may have a passkey, too, and signs in with it again.
END_LINKED = """update session set ended_at = now()
    where ended_at is null and person_id in (select person_id from identity)"""


def require_scopes(scopes: list[str], workspaces: list[str] | None, days: int) -> None:
    """Raise `ConfigError` for what no key can have."""
    if unknown := sorted(set(scopes) - set(SCOPES)):
        raise ConfigError("--scopes", unknown[0], "is no scope", f"choose of: {', '.join(SCOPES)}")
    if ADMIN in scopes and workspaces is not None:
        remedy = "leave --workspaces out, or the scope"
        raise ConfigError("--scopes", ADMIN, "is for keys of all workspaces: keys and people are of all", remedy)
    if not scopes or not 0 < days <= MOST_DAYS:
        remedy = f"write 1 to {MOST_DAYS}, and at least one scope"
        raise ConfigError("--days", days, "is no time for a key", remedy)


@dataclass(frozen=True)
class Given:
    """A role, which counts in these workspaces or else in all; none of both: the person stays who they are."""

    role: str | None = None
    workspaces: list[str] | None = None
    mail: str | None = None
    # Up to whom an admin gives by the web: said by the host alone.
    gives: str | None = None


def add(link: Link, giver: str, name: str, given: Given) -> tuple[str, str]:
    """Write a person down, or change what is given of one; their role, and the token of a link that enrols a passkey.

    `giver` is who gives it, as the audit names them.
    """
    known = link.execute("select * from person where name = %s for update", [name]).fetchone()
    # Who is given nothing but another link stays who they are, and stays with their rule.
    stays = known is not None and given.role is None and given.workspaces is None
    role = given.role or (known["role"] if known is not None else ROLE)
    _require_role(role, given.workspaces)
    _require_gives(role, given.gives)
    if known is None:
        query = "insert into person (id, name, role, workspaces, giver) values (%s, %s, %s, %s, %s) returning id"
        row = link.execute(query, [f"pe_{secrets.token_hex(8)}", name, role, given.workspaces, giver]).fetchone()
    elif stays:
        row = link.execute("update person set disabled_at = null where id = %s returning id", [known["id"]]).fetchone()
    else:
        query = """update person set role = %s, workspaces = %s, disabled_at = null, by_rule = false, rule = null,
            granted_at = now(), giver = %s where id = %s returning id"""
        row = link.execute(query, [role, given.workspaces, giver, known["id"]]).fetchone()
    assert row is not None
    if given.mail is not None:
        _offer(link, row["id"], given.mail)
    if given.gives is not None:
        link.execute("update person set gives = %s where id = %s", [given.gives, row["id"]])
    token = _enrolling(link, row["id"], giver)
    detail = {"role": role, "workspaces": given.workspaces, "mail": given.mail, "gives": given.gives}
    note(link, giver, "person.link", name, **detail)
    return role, token


def link_again(link: Link, giver: str, name: str) -> str:
    """The token of another link for a person who is there: nothing of them changes."""
    query = "select id, role from person where name = %s and disabled_at is null for update"
    row = link.execute(query, [name]).fetchone()
    if row is None:
        raise ConfigError("person", name, "is no person here", "see GET /api/people")
    token = _enrolling(link, row["id"], giver)
    note(link, giver, "person.link", name, role=row["role"], workspaces=None, mail=None, gives=None)
    return token


def remove(link: Link, remover: str, name: str) -> None:
    """Let a person in no more; raises `ConfigError` for nobody."""
    query = "update person set disabled_at = coalesce(disabled_at, now()) where name = %s returning id"
    row = link.execute(query, [name]).fetchone()
    if row is None:
        raise ConfigError("name", name, "is no person here", "see GET /api/people")
    link.execute("update session set ended_at = now() where person_id = %s and ended_at is null", [row["id"]])
    # An account at a provider stays theirs, so that no rule makes them somebody again, and stands for nobody who gets
    # their name later: the host alone offers that anew.
    query = "update identity set ended_at = now() where person_id = %s and ended_at is null"
    link.execute(query, [row["id"]])
    for table in ("passkey", "enrolment", "mail_offer"):
        link.execute(f"delete from {table} where person_id = %s".encode(), [row["id"]])
    note(link, remover, "person.remove", name)


def passkeys_of(link: Link, name: str) -> list[dict[str, Any]]:
    """The passkeys of a person, the oldest first; `id` is as browsers write it."""
    query = """select passkey.id, passkey.name, passkey.created_at from passkey
        join person on person.id = person_id where person.name = %s order by created_at"""
    rows = link.execute(query, [name]).fetchall()
    return [{**row, "id": written(bytes(row["id"])), "created_at": row["created_at"].isoformat()} for row in rows]


def remove_passkey(link: Link, remover: str, id: bytes) -> str:
    """End a passkey and the sessions that it began; what it signed counts no more. The name of its person."""
    query = """delete from passkey using person where person.id = person_id and passkey.id = %s
        returning person.name, person_id, passkey.name as passkey"""
    row = link.execute(query, [id]).fetchone()
    if row is None:
        raise ConfigError("passkey", written(id), "is of nobody here", "see GET /api/me")
    link.execute(
        """update session set ended_at = now() where person_id = %s and ended_at is null
            and (passkey_id = %s or passkey_id is null and confirmed_until is null)""",
        [row["person_id"], id],
    )
    _forget_signed(link, id)
    note(link, remover, "passkey.remove", row["name"], passkey=written(id), name=row["passkey"])
    return str(row["name"])


def _forget_signed(link: Link, passkey: bytes) -> None:
    """Let what a passkey signed and waits for other persons count no more."""
    for table, operation in SIGNED.items():
        query = f"""select distinct o.id, o.proof from operation o join {table} on {operation} = o.id
            where jsonb_typeof(o.proof -> 'credential') = 'object'"""
        rows = link.execute(query.encode()).fetchall()
        ids = [row["id"] for row in rows if credential_id(row["proof"]["credential"]) == passkey]
        link.execute(f"delete from {table} where {operation} = any(%s)".encode(), [ids])


def make_key(link: Link, maker: str, name: str, scopes: list[str], workspaces: list[str] | None, days: int) -> Key:
    """Make an API key: hashes of it are kept."""
    key = Key.fresh()
    link.execute(
        "insert into api_key (id, name, auth_hash, scopes, workspaces, expires_at, giver)"
        " values (%s, %s, %s, %s, %s, now() + make_interval(days => %s), %s)",
        [key.id, name, key.auth_hash, sorted(set(scopes)), workspaces, days, maker],
    )
    link.execute("insert into key_proof (key_id, secret) values (%s, %s)", [key.id, key.proof_secret])
    note(link, maker, "key.make", key.id, name=name, scopes=sorted(set(scopes)), workspaces=workspaces)
    return key


def enrolment_link(origin: str, token: str) -> str:
    """The address where a link's token enrols a passkey."""
    return f"{origin}/enrol#{token}"


def note(link: Link, actor: str, action: str, target: str, **detail: Any) -> None:
    """Write a line of the audit, in the transaction of what it tells of."""
    query = "insert into audit_intake (actor, action, target, detail) values (%s, %s, %s, %s)"
    link.execute(query, [actor, action, target, Jsonb(detail)])


def _enrolling(link: Link, person: str, giver: str) -> str:
    """The token of a new link that enrols a passkey of a person."""
    token = fresh_token()
    link.execute(
        "insert into enrolment (token_hash, person_id, expires_at, giver)"
        " values (%s, %s, now() + make_interval(secs => %s), %s)",
        [enrolment.kept(enrolment.shown(token)), person, LINK_SECONDS, giver],
    )
    return token


def _offer(link: Link, person: str, mail: str) -> None:
    """Let the next account with this verified mail stand for a person, and none that did before."""
    kept = verified_mail({"email": mail, "email_verified": True})
    if kept is None:
        raise ConfigError("--mail", mail, "is no mail address", "write it as the provider tells it")
    link.execute("delete from identity where person_id = %s", [person])
    link.execute("delete from mail_offer where person_id = %s or mail = %s", [person, kept])
    link.execute("insert into mail_offer (mail, person_id) values (%s, %s)", [kept, person])


def _require_role(role: str, workspaces: list[str] | None) -> None:
    """Raise `ConfigError` for what no person can be."""
    if role not in ROLES:
        raise ConfigError("--role", role, "is no role", f"choose one of: {', '.join(ROLES)}")
    if role == "admin" and workspaces is not None:
        remedy = "leave --workspaces out, or choose another role"
        raise ConfigError("--role", role, "is of all workspaces: keys and people are of all", remedy)


def _require_gives(role: str, gives: str | None) -> None:
    """Raise `ConfigError` for what nobody gives by the web, or nobody of a role."""
    if gives is not None and gives not in GIVES:
        raise ConfigError("--gives", gives, "is given by nobody by the web", f"choose one of: {', '.join(GIVES)}")
    if gives is not None and role != ADMIN:
        remedy = f"add --role {ADMIN}, or leave it out"
        raise ConfigError("--gives", gives, f"is for admins, and this is a person of role {role}", remedy)
