"""Makes keys and persons for an admin who signed just that: the worker alone may, and makes the secrets itself."""

from typing import Any

from deskyard.control.credentials import giver as givers
from deskyard.control.credentials import target
from deskyard.control.credentials.giver import Giver
from deskyard.control.credentials.target import Invitation, NewKey, PasskeyRemoval, Removal
from deskyard.control.opening import secret
from deskyard.control.people import passkeys, records
from deskyard.control.people.records import Given
from deskyard.control.queue.claim import Claim
from deskyard.control.store.connection import Link, Row
from deskyard.errors import ConfigError


def give(link: Link, held: Claim, actor: str, origin: str) -> dict[str, Any]:
    """Write down what an operation asks for, within the transaction of its caller, and keep its secret for the asker.

    All that was said when it was admitted is looked at again: that was said to the web process.
    """
    wanted = target.parsed(held.kind, held.input)
    if isinstance(wanted, NewKey):
        return _make_key(link, held, actor, wanted)
    if isinstance(wanted, PasskeyRemoval):
        return _remove_passkey(link, actor, wanted)
    found = link.execute(target.PERSON_THERE, [wanted.name]).fetchone()
    if isinstance(wanted, Removal):
        return _remove(link, actor, wanted, found)
    return _invite(link, held, actor, wanted, found, origin)


def _make_key(link: Link, held: Claim, actor: str, wanted: NewKey) -> dict[str, Any]:
    wanted.require()
    wanted.require_of(_giver(link, actor))
    _require_workspaces(link, wanted.workspaces)
    target.require_free(wanted.name, link.execute(target.KEY_THERE, [wanted.name]).fetchone())
    made = records.make_key(link, actor, wanted.name, [*wanted.scopes], _list(wanted.workspaces), wanted.days)
    return {**secret.keep(link, held, {"key": made.text}, wanted.target), "id": made.id}


def _invite(link: Link, held: Claim, actor: str, wanted: Invitation, found: Row | None, origin: str) -> dict[str, Any]:
    wanted.require()
    wanted.require_person(found)
    wanted.require_of(_giver(link, actor), found)
    if wanted.role is None:
        token = records.link_again(link, actor, wanted.name)
    else:
        _require_workspaces(link, wanted.workspaces)
        _, token = records.add(link, actor, wanted.name, Given(wanted.role, _list(wanted.workspaces)))
    given = {"link": records.enrolment_link(origin, token), "seconds": records.LINK_SECONDS}
    return dict(secret.keep(link, held, given, wanted.target))


def _remove(link: Link, actor: str, wanted: Removal, found: Row | None) -> dict[str, Any]:
    wanted.require_person(found, actor)
    assert found is not None
    records.remove(link, actor, wanted.name)
    return {"removed": found["id"]}


def _remove_passkey(link: Link, actor: str, wanted: PasskeyRemoval) -> dict[str, Any]:
    # Two at the same time would each find the other one still there.
    name = actor.removeprefix("person:")
    link.execute("select pg_advisory_xact_lock(hashtextextended(%s, 11))", [name])
    id = passkeys.bytes_of(wanted.id)
    found = link.execute(target.PASSKEY_THERE, [id, name]).fetchone()
    wanted.require(found, found["others"] if found else 0, bool(found and found["has_account"]))
    records.remove_passkey(link, actor, id)
    return {"removed": wanted.id}


def _giver(link: Link, actor: str) -> Giver:
    """Who signed, with what they give as the database has it now."""
    name = actor.removeprefix("person:")
    row = link.execute(givers.GIVER, [name]).fetchone()
    if row is None:
        raise ConfigError("person", name, "is no admin any more", "let an admin ask for it")
    return Giver.of(row, link.execute(givers.RULED).fetchone())


def _require_workspaces(link: Link, workspaces: tuple[str, ...] | None) -> None:
    there = [row["id"] for row in link.execute(target.WORKSPACES_THERE, [_list(workspaces)]).fetchall()]
    target.require_workspaces(workspaces, there)


def _list(workspaces: tuple[str, ...] | None) -> list[str] | None:
    return None if workspaces is None else [*workspaces]
