"""A turn of a conversation, written down while the agent speaks."""

import secrets
import time
from collections.abc import Mapping
from typing import Any

from psycopg.types.json import Jsonb

from deskyard.control.jobs.claim import Claim
from deskyard.control.store.connection import Link

PAUSE_SECONDS = 0.2


class Turn:
    """The message that is delivered, and the answer as it grows."""

    def __init__(self, held: Claim) -> None:
        self._held = held
        self._answer = f"ms_{secrets.token_hex(8)}"
        self._text, self._kept = "", ""
        self._next = 0.0

    def begin(self, link: Link) -> str:
        """The text to deliver. What an attempt before heard of an answer stays, as interrupted."""
        given = self._held.input
        link.execute(
            "update message set state = 'interrupted' where operation_id = %s and state = 'streaming'", [self._held.id]
        )
        query = "update message set state = 'sent', problem = null where id = %s returning text"
        row = link.execute(query, [given["message"]]).fetchone()
        return str(row["text"]) if row else ""

    def hear(self, link: Link, part: str) -> None:
        """More of the answer; it is written at a bounded pace."""
        self._text += part
        if time.monotonic() >= self._next:
            self._keep(link, "streaming")
            self._next = time.monotonic() + PAUSE_SECONDS

    def end(self, link: Link, state: str, problem: Mapping[str, str] | None = None) -> None:
        """The turn is over: `done`, `failed` or `interrupted`."""
        if self._text:
            self._keep(link, state)
        link.execute(
            "update message set state = %s, problem = %s where id = %s",
            [state, Jsonb(problem) if problem else None, self._held.input["message"]],
        )
        link.execute("update conversation set last_at = now() where id = %s", [self._held.input["conversation"]])

    def _keep(self, link: Link, state: str) -> None:
        values: list[Any] = [self._answer, self._held.input["conversation"], f"agent:{self._held.desktop}"]
        link.execute(
            """insert into message (id, conversation_id, role, author, text, state, operation_id)
            values (%s, %s, 'agent', %s, %s, %s, %s)
            on conflict (id) do update set text = excluded.text, state = excluded.state""",
            [*values, self._text, state, self._held.id],
        )
