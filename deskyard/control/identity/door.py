"""The web process's way to the process that signs people in: one question on its socket, and no way past it."""

import asyncio
import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from deskyard.control.api.problem import Problem
from deskyard.control.api.session import Confirmed

# Longer than the three questions to a provider take at worst.
SECONDS = 35.0
MOST_LINE = 16_384


@dataclass(frozen=True)
class Door:
    """The declared provider: what people know it by, and the socket of the process that asks it."""

    name: str
    socket: str

    async def begin(self, browser: str) -> str:
        """Where a browser goes to sign in; `browser` is the hash of what only it has."""
        return str((await self._ask({"begin": {"browser": browser}}))["url"])

    async def finish(self, **back: str | None) -> tuple[str, Confirmed]:
        """The id of the person who came back, and for how long that counts."""
        found = await self._ask({"finish": back})
        return str(found["person"]), Confirmed(float(found["seconds"]), found["standing"])

    async def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        try:
            async with asyncio.timeout(SECONDS):
                reader, writer = await asyncio.open_unix_connection(self.socket, limit=MOST_LINE)
                try:
                    writer.write(json.dumps(question).encode() + b"\n")
                    answer = json.loads(await reader.readline())
                finally:
                    writer.close()
        except (OSError, ValueError, TimeoutError) as error:
            remedy = "sign in with your passkey, or see ./inv control.status"
            reason = "cannot be asked now"
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "provider", None, reason, remedy) from error
        if "problem" in answer:
            said = answer["problem"]
            value = said["value"] or None
            raise Problem(HTTPStatus(answer["status"]), said["field"], value, said["reason"], said["remedy"])
        return dict(answer)
