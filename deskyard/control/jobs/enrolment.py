"""Keeps a new passkey: the worker alone may write one, for whoever an unused link was made at the host."""

from deskyard.control.people.enrolment import kept
from deskyard.control.people.passkeys import Passkeys
from deskyard.control.queue.claim import Claim
from deskyard.control.store.connection import Link
from deskyard.errors import ConfigError


def enrol(link: Link, held: Claim, passkeys: Passkeys) -> dict[str, str]:
    """Check link and passkey, and write it down; the link counts no more."""
    given = held.input
    id, public_key = passkeys.registered(given["credential"], bytes.fromhex(given["challenge"]))
    # Who reads the database knows what is kept, and no link by it.
    token = kept(bytes.fromhex(given["link"]))
    with link.transaction():
        query = """update enrolment set used_at = now() where token_hash = %s and used_at is null
            and expires_at > %s returning person_id"""
        row = link.execute(query, [token, held.created_at]).fetchone()
        if row is not None:
            query = "insert into passkey (id, person_id, name, public_key) values (%s, %s, %s, %s)"
            link.execute(query, [id, row["person_id"], given["name"], public_key])
        else:
            # A worker that ended before it said so has done it: the same passkey, by the same link.
            query = """select p.person_id from passkey p join enrolment e on e.person_id = p.person_id
                where p.id = %s and p.public_key = %s and e.token_hash = %s"""
            row = link.execute(query, [id, public_key, token]).fetchone()
    if row is None:
        raise ConfigError("token", None, "was used, or is over", "ask an admin for a new link, or ./inv control.person")
    return {"person": row["person_id"]}
