"""The streams of E2B's desktop package: who has the key of one is led to the desktop, by a link that opens once.

The package makes the key itself, and gives it to a VNC server by a command on the desktop. A desktop hears another in
its place: with the real one a program there could open the desktop as a person does.
"""

import hashlib
import hmac
import re
import secrets
import string
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from deskyard_sdk import DesktopError
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from deskyard_e2b import starting
from deskyard_e2b.answers import unknown
from deskyard_e2b.keeping import Keeping, Kept
from deskyard_e2b.keyring import Caller, Keyring
from deskyard_e2b.naming import desktop_id, machine_of

# What `stream.get_url()` names at the host of a sandbox.
PAGE = "/vnc.html"
SERVER = "x11vnc"
# What the package gives where it makes no key after all ("None") is none; its own have 16 letters and digits.
STORED = re.compile(rf"^{SERVER} -storepasswd (\S+) ")
KEY = re.compile(r"[A-Za-z0-9]{16,64}")
BEGUN, ENDED = re.compile(rf"^{SERVER} -bg .* -(nopw|usepw)\b"), re.compile(rf"^pkill {SERVER}$")
# So long a key leads to the desktop: who is there stays longer.
KEY_SECONDS = 3600.0
LETTERS = string.ascii_letters + string.digits
# Where the page was asked for stands its key: no other page hears of it, and nothing keeps the answer.
PRIVATE = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff"}
AGAIN = "begin the stream anew: stream.stop(), stream.start(require_auth=True), get_url(auth_key=stream.get_auth_key())"


@dataclass(frozen=True)
class Stream:
    """A stream that goes on: of which sandbox, by whose key of Mission Control, and until when its own key opens it."""

    nonce: bytes
    owner: bytes
    key: bytes = field(repr=False)
    ends: float


@dataclass
class Streams:
    """The streams that go on, in memory alone; of their keys there are hashes."""

    clock: Callable[[], float] = time.monotonic
    # By sandbox and owner: who begins a stream opens the desktop to nobody by a key that another gave.
    _stored: dict[tuple[str, bytes], bytes] = field(default_factory=dict)
    _open: dict[str, Stream] = field(default_factory=dict)

    def heard(self, kept: Kept, owner: bytes, message: bytes) -> bytes:
        """Note which stream a request begins or ends, and give the request as the desktop is to hear it."""
        # Most start something else, and some are large.
        start = starting.read(message) if SERVER.encode() in message else None
        command = start.command if start else ""
        if start and (stored := STORED.match(command)):
            key = stored[1]
            self._stored.pop((kept.id, owner), None)
            if KEY.fullmatch(key):
                self._stored[kept.id, owner] = _hash(key)
            other = "".join(secrets.choice(LETTERS) for _ in key)
            start.process["args"][-1] = command[: stored.start(1)] + other + command[stored.end(1) :]
            return start.written()
        if begun := BEGUN.match(command):
            self.end(kept.id)
            key_hash = self._stored.pop((kept.id, owner), None)
            if begun[1] == "usepw" and key_hash:
                self._open[kept.id] = Stream(kept.nonce, owner, key_hash, self.clock() + KEY_SECONDS)
        elif ENDED.match(command):
            self.end(kept.id)
        return message

    def end(self, sandbox: str) -> None:
        """A stream goes on no more: its key opens nothing."""
        self._open.pop(sandbox, None)

    def forget(self, sandbox: str) -> None:
        """Forget a sandbox that is gone, with the keys that were stored there and opened nothing yet."""
        self.end(sandbox)
        for place in [place for place in self._stored if place[0] == sandbox]:
            del self._stored[place]

    def owner_of(self, kept: Kept, key: str) -> bytes | None:
        """Whose key of Mission Control opens the desktop for who has this key of its stream; None for a wrong one."""
        stream = self._open.get(kept.id)
        if stream is None or stream.nonce != kept.nonce or stream.ends <= self.clock():
            self.end(kept.id)
            return None
        return stream.owner if hmac.compare_digest(stream.key, _hash(key)) else None


@dataclass(frozen=True)
class StreamPage:
    """Answers a browser that asks for a stream; what admits it is the key in the address."""

    keeping: Keeping
    keyring: Keyring
    streams: Streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send, sandbox: str) -> None:
        """Answer a request."""
        try:
            answer = await self._answer(Request(scope), sandbox)
        except DesktopError as error:
            text = f"The desktop is not shown: {error.reason}.\n{error.remedy}\n"
            answer = PlainTextResponse(text, error.status or 502)
        answer.headers.update(PRIVATE)
        await answer(scope, receive, send)

    async def _answer(self, request: Request, sandbox: str) -> Response:
        if request.method != "GET":
            raise DesktopError("method", request.method, "a page is read", "open it in a browser", 405)
        kept = self.keeping.find(sandbox)
        owner = self.streams.owner_of(kept, request.query_params.get("password", "")) if kept else None
        caller = self.keyring.known(owner) if owner else None
        if kept is None or kept.killed or caller is None:
            reason = "the address has no key of a stream that goes on, and without one everybody would see it"
            raise DesktopError("password", "", reason, AGAIN, 401)
        try:
            link = await self._link(caller, kept, request.query_params.get("view_only") == "true")
        except DesktopError as error:
            if error.status == 401:
                self.keyring.forget(caller.owner)
            raise
        # The ticket stands behind the `#`, which a browser keeps to itself.
        return Response(status_code=302, headers={"Location": link})

    async def _link(self, caller: Caller, kept: Kept, is_view: bool) -> str:
        desktop, machine = desktop_id(kept.id) or "", machine_of(kept.id)
        link = await caller.mission.link(desktop, "view" if is_view else "drive")
        # Behind it: a machine that is there still was there all the time, since none comes again.
        if machine is not None and (await caller.mission.desktop(desktop)).get("machine") != machine:
            raise unknown(kept.id)
        return link


def _hash(key: str) -> bytes:
    return hashlib.sha256(b"deskyard e2b, stream\0" + key.encode()).digest()
