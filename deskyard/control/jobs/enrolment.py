"""Keeps a new passkey: the worker alone may write one, for whoever an unused link was made at the host."""

from deskyard.control.jobs.claim import Claim
from deskyard.control.people.passkeys import Passkeys
from deskyard.control.store.connection import Link
from deskyard.errors import ConfigError


def enrol(link: Link, held: Claim, passkeys: Passkeys) -> dict[str, str]:
    """Check link and passkey, and write it down; the link counts no more."""
    given = held.input
    with link.transaction():
        query = """update enrolment set used_at = now() where token_hash = %s and used_at is null
            and expires_at > %s returning person_id"""
        row = link.execute(query, [bytes.fromhex(given["token_hash"]), held.created_at]).fetchone()
        if row is None:
            raise ConfigError("token", None, "was used, or is over", "let ./inv control.person make a new link")
        id, public_key = passkeys.registered(given["credential"], bytes.fromhex(given["challenge"]))
        link.execute(
            "insert into passkey (id, person_id, name, public_key) values (%s, %s, %s, %s)",
            [id, row["person_id"], given["name"], public_key],
        )
    return {"person": row["person_id"]}
