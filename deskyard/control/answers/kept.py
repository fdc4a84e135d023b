"""Keeps the answer to a request beside what it changed, in the same transaction, so that it is done once.

An answer may hold a secret that is shown once. It is sealed by what its caller alone can show: the secret of a key, or
the token of a session, of which the database has no more than hashes.
"""

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, TypeVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from fastapi import Depends

from deskyard.control.api import rows
from deskyard.control.api.admission import Once, Repeat, before
from deskyard.control.api.caller import Caller, Connection, Link
from deskyard.control.api.forms.base import Form
from deskyard.control.api.problem import Problem

# Of a caller so many answers are kept, of so many bytes each at most; the worker forgets those of a day ago.
MOST, MOST_BYTES = 5000, 16 << 10
KEY = "Idempotency-Key"
NONCE_BYTES = 12
F = TypeVar("F", bound=Form)


@dataclass(frozen=True)
class Answering:
    """A request that is answered at once, and may have been sent before."""

    link: Link
    once: Repeat

    async def given(self, who: Caller, form: type[F], make: Callable[[], Awaitable[F]]) -> F:
        """The answer: what `make` does and says, or what was said when the same request was sent before."""
        if self.once.key is None or who.secret is None:
            return await make()
        found = await before(self.link, who, self.once)
        if found is not None:
            return form.model_validate_json(_opened(who.secret, self.once, bytes(found["answer"])))
        await self._require_room(who)
        answer = await make()
        sealed = _sealed(who.secret, self.once, answer.model_dump_json(by_alias=True).encode())
        query = "insert into idempotency (actor, key, request_hash, answer) values (%s, %s, %s, %s)"
        await self.link.execute(query, [who.actor, self.once.key, self.once.request_hash, sealed])
        return answer

    async def _require_room(self, who: Caller) -> None:
        query = """select count(*) as kept from (
            select from idempotency where actor = %s and answer is not null limit %s) as answers"""
        found = await rows.row(self.link, query, [who.actor, MOST])
        if found is not None and found["kept"] >= MOST:
            reason = f"is one too many: {MOST} answers to {who.actor} are kept, each for a day"
            raise Problem(HTTPStatus.TOO_MANY_REQUESTS, KEY, self.once.key, reason, "send it without, or tomorrow")


def answering(link: Connection, once: Once) -> Answering:
    """The request, with what an answer to it needs."""
    return Answering(link, once)


Answered = Annotated[Answering, Depends(answering)]


def _cipher(secret: str, once: Repeat) -> AESGCM:
    about = b"deskyard, an answer\0" + f"{once.key}\0".encode() + once.request_hash
    return AESGCM(HKDF(SHA256(), 32, None, about).derive(secret.encode()))


def _sealed(secret: str, once: Repeat, text: bytes) -> bytes:
    if len(text) > MOST_BYTES:
        reason = f"has an answer that is too long to be kept ({len(text)} bytes)"
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, KEY, once.key, reason, "send it without the header")
    nonce = os.urandom(NONCE_BYTES)
    return nonce + _cipher(secret, once).encrypt(nonce, text, None)


def _opened(secret: str, once: Repeat, sealed: bytes) -> bytes:
    try:
        return _cipher(secret, once).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], None)
    except InvalidTag as error:
        reason = "was used in another session of yours: that request was done, and its answer was for that session"
        remedy = "look at what there is before you repeat it"
        raise Problem(HTTPStatus.CONFLICT, KEY, once.key, reason, remedy) from error
