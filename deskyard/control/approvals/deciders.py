"""Brings gateways the list of who may answer their tickets, and the public keys by which they verify who did.

The worker brings it with the site's key, as often as it changes: web and link can not. A gateway that lost it, as one
that was made anew, is brought it again when it comes back, or at the next answer.
"""

import functools
import json
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import psycopg
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from webauthn.helpers import decode_credential_public_key
from webauthn.helpers.decoded_public_key_to_cryptography import decoded_public_key_to_cryptography

from deskyard.control.approvals.follow import RUNNING
from deskyard.control.approvals.rules import Rule
from deskyard.control.ground.threads import Threads
from deskyard.control.people.passkeys import written
from deskyard.control.people.scopes import DECIDE, ROLES
from deskyard.control.store.connection import Link, Row
from deskyard.control.store.pool import Lend
from deskyard.errors import DeskyardError
from deskyard.host.deadline import Deadline

# Of the error by which a gateway says that it does not know who may answer, or not this passkey.
GATEWAY_LACKS = "deciders"
# A removed passkey is gone from every gateway that answers some seconds after this.
LOOK_SECONDS = 5.0
AGAIN_SECONDS = 30.0
PEOPLE = """select person.name, role, workspaces, passkey.id, public_key from passkey
    join person on person.id = person_id where disabled_at is null order by person.name, passkey.id"""
RULES = "select workspace_id, persons, roles, people, keys, operations from approval_rule"
ASKING = "select id from workspace where gone_at is null and egress = 'locked' and state = any(%s)"
log = logging.getLogger(__name__)
Document = dict[str, Any]
Tell = Callable[[str, Mapping[str, Any]], object]


def documents(link: Link, workspaces: Iterable[str], origin: str) -> dict[str, Document]:
    """The list of each workspace: those whose passkey may answer there, by their role and by its rule."""
    people = link.execute(PEOPLE.encode()).fetchall()
    rules = {row["workspace_id"]: Rule.of(row["workspace_id"], row) for row in link.execute(RULES.encode()).fetchall()}
    return {name: _document(name, people, rules.get(name), origin) for name in workspaces}


def _document(workspace: str, people: list[Row], rule: Rule | None, origin: str) -> Document:
    passkeys = [
        {"person": row["name"], "id": written(bytes(row["id"])), **key}
        for row in people
        if _may(workspace, row, rule) and (key := _key(bytes(row["public_key"]))) is not None
    ]
    return {"origin": origin, "persons": rule.persons if rule else 1, "passkeys": passkeys}


def _may(workspace: str, row: Row, rule: Rule | None) -> bool:
    """Whether a person may answer; who asked for what is not known ahead, and so the worker's to refuse."""
    if DECIDE not in ROLES[row["role"]] or not (row["workspaces"] is None or workspace in row["workspaces"]):
        return False
    return rule is None or rule.refusal(f"person:{row['name']}", row["role"], (), "once") is None


@functools.lru_cache(4096)
def _key(cose: bytes) -> Mapping[str, Any] | None:
    """A passkey's public key as gateways read it, who know no CBOR; None for what is none."""
    try:
        decoded = decode_credential_public_key(cose)
        key = decoded_public_key_to_cryptography(decoded)
        text = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    except Exception as error:
        # Whatever its parser says of it: it lets nobody in, and keeps nobody else's from being brought.
        log.warning("a passkey is not brought to gateways: %s", error)
        return None
    return {"algorithm": int(decoded.alg), "key": text}


def _tell(workspace: str, document: Mapping[str, Any]) -> object:
    from deskyard.access import egress
    from deskyard.access.gateway_program import TooOld

    try:
        return egress.bring_deciders(workspace, document)
    except TooOld as error:
        # It verifies nothing: it believes the site's key.
        log.info("%s", error.reason)
        return None


class Bringer:
    """Remembers what each gateway was told since it runs, and tells it what is new."""

    def __init__(self, tell: Tell = _tell) -> None:
        self._tell = tell
        self._brought: dict[str, str] = {}
        self._wanted: dict[str, tuple[Lend, str]] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._pauses: dict[str, Deadline] = {}
        self._threads = Threads(self._bring)
        self._next = Deadline(0)

    def look(self, link: Link, lend: Lend, origin: str) -> None:
        """Begin to tell gateways what they do not know yet; nobody waits for its end."""
        if not self._next.is_over:
            return
        self._next = Deadline(LOOK_SECONDS)
        running = [row["id"] for row in link.execute(ASKING, [list(RUNNING)]).fetchall()]
        # One that went away may be another when it is back.
        self._brought = {name: text for name, text in self._brought.items() if name in running}
        for name, document in documents(link, running, origin).items():
            if self._brought.get(name) != _text(document) and self._pauses.get(name, Deadline(0)).is_over:
                self._wanted[name] = (lend, origin)
                self._threads.begin([name])

    def bring(self, lend: Lend, workspace: str, origin: str) -> None:
        """Tell a gateway at once, whatever it was told; raises `DeskyardError` if it cannot be."""
        with self._locks[workspace]:
            with lend() as link:
                document = documents(link, [workspace], origin)[workspace]
            self._tell(workspace, document)
            self._brought[workspace] = _text(document)

    def _bring(self, workspace: str) -> None:
        lend, origin = self._wanted[workspace]
        try:
            self.bring(lend, workspace, origin)
        except (DeskyardError, psycopg.Error) as error:
            log.info("%s is not told who answers yet: %s", workspace, str(error).splitlines()[0])
            self._pauses[workspace] = Deadline(AGAIN_SECONDS)


def _text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, sort_keys=True)
