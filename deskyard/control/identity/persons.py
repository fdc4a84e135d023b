"""Who of Mission Control somebody is: by issuer and subject, once linked; before that by what the host allowed.

A mail links once, where the host offered that, and never again: mails change hands. A rule makes persons of its own,
and is looked at whenever they sign in; what the host said of a person stands above every rule.
"""

import secrets
from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from deskyard.control.identity.declared import Declared, Rule
from deskyard.control.identity.refusal import NotHere
from deskyard.control.people.mail import verified_mail
from deskyard.control.store.connection import Link, Row

ASK = "ask whoever runs Mission Control: ./inv control.person NAME --mail ADDRESS, or a rule of ./inv control.oidc"
MOST_GROUPS = 1000
# What a person of a rule has without one: role, workspaces, rule.
NOTHING: tuple[str, list[str], None] = ("viewer", [], None)


def person_of(link: Link, declared: Declared, claims: Mapping[str, Any]) -> str:
    """The id of the person whom the claims are of; raises `NotHere` if they are nobody here."""
    mail = verified_mail(claims)
    rule = declared.rule_for(mail, _groups(claims, declared.groups_claim)) if mail is not None else None
    who = (declared.issuer, str(claims["sub"]))
    with link.transaction():
        # Two sign-ins of the same account at once make one person.
        link.execute("select pg_advisory_xact_lock(hashtextextended(%s, 11))", ["\n".join(who)])
        person = link.execute(
            """select person.*, identity.ended_at from identity join person on person.id = person_id
                where issuer = %s and subject = %s""",
            who,
        ).fetchone()
        if person is None:
            person = _linked(link, who, mail) or _made(link, who, mail, rule)
        if person["disabled_at"] is not None or person.get("ended_at") is not None:
            remedy = (
                "ask whoever runs Mission Control: ./inv control.person NAME --mail ADDRESS lets an account in again"
            )
            raise NotHere("person", person["name"], "was removed", remedy)
        if person["by_rule"]:
            _follow(link, person, rule)
    # Written down by then: a passkey of theirs opens nothing any more, either.
    if person["by_rule"] and rule is None:
        raise NotHere("person", person["name"], "is of no rule any more", ASK)
    return str(person["id"])


def _groups(claims: Mapping[str, Any], name: str) -> list[str]:
    found = claims.get(name)
    return [group for group in found[:MOST_GROUPS] if isinstance(group, str)] if isinstance(found, list) else []


def _linked(link: Link, who: tuple[str, str], mail: str | None) -> Row | None:
    """The person for whom the host offered this mail, linked from now on; the offer is used up."""
    query = "select person.* from mail_offer join person on person.id = person_id where mail = %s"
    person = link.execute(query, [mail]).fetchone()
    if person is None:
        return None
    with link.transaction() as linking:
        # While it is offered: the database lets no account stand for whom the host made otherwise.
        _link(link, who, person)
        query = "delete from mail_offer where mail = %s and person_id = %s returning mail"
        if link.execute(query, [mail, person["id"]]).fetchone() is None:
            # Another account used it up in this moment.
            raise psycopg.Rollback(linking)
        return person
    return None


def _made(link: Link, who: tuple[str, str], mail: str | None, rule: Rule | None) -> Row:
    """A person of a rule, whose name is the mail."""
    if rule is None or mail is None:
        raise NotHere("person", mail, "is known to the provider, but is nobody here", ASK)
    query = """insert into person (id, name, role, workspaces, rule, by_rule) values (%s, %s, %s, %s, %s, true)
        on conflict (name) do nothing returning *"""
    values = [f"pe_{secrets.token_hex(8)}", mail, rule.role, rule.bounds, rule.text]
    person = link.execute(query, values).fetchone()
    if person is None:
        raise NotHere("person", mail, "is the name of somebody else here", ASK)
    note(link, person["name"], "person.make", rule=rule.text, role=rule.role)
    _link(link, who, person)
    return person


def _follow(link: Link, person: Row, rule: Rule | None) -> None:
    """Give a person of a rule what the rule says now; without a rule they see no workspace any more."""
    role, bounds, text = (rule.role, rule.bounds, rule.text) if rule is not None else NOTHING
    if (person["role"], person["workspaces"], person["rule"]) != (role, bounds, text):
        query = "update person set role = %s, workspaces = %s, rule = %s, granted_at = now() where id = %s"
        link.execute(query, [role, bounds, text, person["id"]])
        note(link, person["name"], "person.role", rule=text, role=role, before=person["role"])


def _link(link: Link, who: tuple[str, str], person: Row) -> None:
    link.execute("insert into identity (issuer, subject, person_id) values (%s, %s, %s)", [*who, person["id"]])
    note(link, person["name"], "person.identity", issuer=who[0], subject=who[1])


def note(link: Link, name: str, action: str, **detail: Any) -> None:
    """Write a line of the audit about a person."""
    query = "insert into audit_intake (actor, action, target, detail) values ('provider', %s, %s, %s)"
    link.execute(query, [action, name, Jsonb(detail)])
