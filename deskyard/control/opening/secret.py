"""Keeps what an operation gives out until whoever asked reads it, once."""

from typing import Any

from psycopg.types.json import Jsonb

from deskyard.control.opening import seal
from deskyard.control.queue.claim import Claim
from deskyard.control.store.connection import Link

SECONDS = 60


def keep(link: Link, held: Claim, secret: Any, target: str) -> dict[str, str]:
    """Keep it for its asker, sealed to the key that they sent if they did; the result that everybody sees."""
    if key := held.input.get("seal_to"):
        secret = {"sealed": seal.sealed(secret, key, target)}
    query = """insert into operation_secret (operation_id, actor, value, expires_at)
        values (%s, %s, %s, now() + make_interval(secs => %s)) on conflict (operation_id) do nothing"""
    link.execute(query, [held.id, held.actor, Jsonb(secret), SECONDS])
    return {"shown": "once, to whoever asked"}
