"""A turn of a conversation, written down while the agent speaks."""

import math
import secrets
from collections.abc import Mapping
from typing import Any

from psycopg.types.json import Jsonb

from deskyard.control.questions.asked import Questions
from deskyard.control.queue.claim import Claim
from deskyard.control.queue.parts import TOKENS, Tools, storable, tokens
from deskyard.control.store.connection import Link
from deskyard.errors import ConfigError
from deskyard.host.deadline import Deadline

PAUSE_SECONDS = 0.2
INTERRUPT = "update message set state = 'interrupted' where operation_id = %s and state = 'streaming'"


class Turn:
    """The message that is delivered, and the answer as it grows."""

    def __init__(self, held: Claim) -> None:
        self._held = held
        self._answer = f"ms_{secrets.token_hex(8)}"
        self._text, self._tools, self._questions = "", Tools(), Questions()
        self._claimed: dict[str, int] | None = None
        self._has_news, self._next = False, Deadline(0)

    def begin(self, link: Link) -> dict[str, str]:
        """The text to deliver, and who said it. What an attempt before heard of an answer stays, as interrupted."""
        given = self._held.input
        # Whoever deletes what is old leaves it from here on; what went before is not asked of an agent as nothing.
        query = "update conversation set last_at = now() where id = %s returning id"
        if link.execute(query, [given["conversation"]]).fetchone() is None:
            remedy = "begin a new conversation"
            raise ConfigError("conversation", given["conversation"], "is deleted, as retention has it", remedy)
        link.execute(INTERRUPT, [self._held.id])
        # The same message, delivered anew, ends with the claim of its whole turn: that counts once.
        link.execute(
            """update message m set claimed_input = null, claimed_output = null, claimed_cached = null
            from operation o where m.conversation_id = %s and m.claimed_input is not null
                and o.id = m.operation_id and o.input ->> 'message' = %s""",
            [given["conversation"], given["message"]],
        )
        query = "update message set state = 'sent', problem = null where id = %s returning text, author as said_by"
        return link.execute(query, [given["message"]]).fetchone() or {"text": "", "said_by": ""}

    def hear(self, said: Mapping[str, Any]) -> bool:
        """More of the answer: text, what is new of a tool, or tokens; false if it is none of these."""
        if "part" in said:
            self._text += storable(str(said["part"]))
        elif "tool" in said:
            self._tools.hear(said["tool"])
        elif "usage" in said:
            self._claimed = tokens(said["usage"])
        elif "question" in said:
            self._questions.hear(said["question"])
        elif "heard" in said:
            self._questions.heard(said["heard"])
        else:
            return False
        self._has_news = True
        return True

    @property
    def left(self) -> float:
        """Seconds until something has to be written, or an answer looked for; without an end if there is nothing."""
        news = self._next.left if self._has_news else math.inf
        return min(news, self._questions.look.left) if self._questions.open is not None else news

    def answers(self, link: Link) -> list[dict[str, Any]]:
        """The answers to the agent's questions that are due by now."""
        said = self._questions.refusals()
        card = self._questions.open
        if card is not None and self._questions.look.is_over:
            query = "select option, actor, at from question_answer where message_id = %s and question = %s"
            row = link.execute(query, [self._answer, card["id"]]).fetchone()
            if (settled := self._questions.settle(row)) is not None:
                said.append(settled)
                self._has_news = True
        return said

    def keep_up(self, link: Link) -> None:
        """Write what was heard, at a bounded pace."""
        if self.left == 0:
            self._keep(link, "streaming")
            self._next = Deadline(PAUSE_SECONDS)

    def end(self, link: Link, state: str, problem: Mapping[str, str] | None = None) -> None:
        """The turn is over: `done`, `failed` or `interrupted`."""
        if self._text or self._tools.cards or self._questions.cards or self._claimed:
            self._keep(link, state)
        self._close(link, state, problem)

    def break_off(self, link: Link, problem: Mapping[str, str]) -> None:
        """The turn failed by a mistake of ours: what was kept of the answer stays, and no more is written of it."""
        link.execute(INTERRUPT, [self._held.id])
        self._close(link, "failed", problem)

    def _close(self, link: Link, state: str, problem: Mapping[str, str] | None) -> None:
        link.execute(
            "update message set state = %s, problem = %s where id = %s",
            [state, Jsonb(problem) if problem else None, self._held.input["message"]],
        )
        link.execute("update conversation set last_at = now() where id = %s", [self._held.input["conversation"]])

    def _keep(self, link: Link, state: str) -> None:
        self._has_news = False
        values: list[Any] = [self._answer, self._held.input["conversation"], f"agent:{self._held.desktop}"]
        values += [self._text, state, self._held.id, Jsonb(self._tools.cards), self._tools.more]
        values += [self._claimed[name] if self._claimed else None for name in TOKENS]
        values.append(Jsonb(self._questions.cards))
        link.execute(
            """insert into message (id, conversation_id, role, author, text, state, operation_id, tools, more_tools,
                claimed_input, claimed_output, claimed_cached, questions)
            values (%s, %s, 'agent', %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
            on conflict (id) do update set text = excluded.text, state = excluded.state, tools = excluded.tools,
                more_tools = excluded.more_tools, claimed_input = excluded.claimed_input,
                claimed_output = excluded.claimed_output, claimed_cached = excluded.claimed_cached,
                questions = excluded.questions""",
            values,
        )
