"""Brings gateways the list of who may answer their tickets, and the public keys by which they verify who did.

The worker brings it with the site's key, as often as it changes: web and link can not. A gateway that lost it, as one
that was made anew, is brought it again when it comes back, or at the next answer.
"""

import functools
import itertools
import json
import logging
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import psycopg
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from webauthn.helpers import decode_credential_public_key
from webauthn.helpers.decoded_public_key_to_cryptography import decoded_public_key_to_cryptography

from deskyard.control.approvals.asking import asks
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
# And that a signature does not count, as of too few people, or for another site: by its list, which may be of before.
GATEWAY_REFUSES = "signature"
# A removed passkey is gone from every gateway that answers some seconds after this.
LOOK_SECONDS = 5.0
AGAIN_SECONDS = 30.0
OLD_SECONDS = 600.0
# Its program may take long to start there: an emulated gateway that has more to do took more than ten.
TELL_SECONDS = 90.0
AT_ONCE = 4
# What a gateway takes (`deskyard.gateway.egress.ask.deciders`), which a test holds this to: by one row that it does not
# take, or one too many, it would refuse the list for everybody.
ALGORITHMS = (-8, -7, -257)
MOST_PASSKEYS, MOST_BYTES, MOST_ID = 2000, 2 * 1024 * 1024 - 1024, 1400
NAME = re.compile(r"[^\x00-\x1f\x7f-\x9f]{1,300}")
# Between two rows of a list.
ROW_BYTES = 2
PEOPLE = """select person.name, role, workspaces, passkey.id, public_key from passkey
    join person on person.id = person_id where disabled_at is null order by person.name, passkey.id"""
RULES = "select workspace_id, persons, roles, people, keys, operations from approval_rule"
ASKING = "select id from workspace where gone_at is null and egress = 'locked' and state = any(%s)"
log = logging.getLogger(__name__)
Document = dict[str, Any]
Tell = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]


def documents(link: Link, workspaces: Iterable[str], origin: str) -> dict[str, Document]:
    """The list of each workspace: those whose passkey may answer there, by their role and by its rule."""
    people = link.execute(PEOPLE.encode()).fetchall()
    rules = {row["workspace_id"]: Rule.of(row["workspace_id"], row) for row in link.execute(RULES.encode()).fetchall()}
    return {name: _document(name, people, rules.get(name), origin) for name in workspaces}


def _document(workspace: str, people: list[Row], rule: Rule | None, origin: str) -> Document:
    those = [row for row in people if _may(workspace, row, rule)]
    found = [_passkey(row["name"], bytes(row["id"]), bytes(row["public_key"])) for row in those]
    passkeys = [passkey for passkey in found if passkey is not None]
    lengths = itertools.accumulate(len(json.dumps(passkey)) + ROW_BYTES for passkey in passkeys)
    fits = min(sum(length <= MOST_BYTES for length in lengths), MOST_PASSKEYS)
    if fits < len(passkeys):
        _warn(
            f"{workspace} has more passkeys than a gateway knows: {len(passkeys) - fits} of them answer nothing there"
        )
    return {"origin": origin, "persons": rule.persons if rule else 1, "passkeys": passkeys[:fits]}


def _may(workspace: str, row: Row, rule: Rule | None) -> bool:
    """Whether a person may answer; who asked for what is not known ahead, and so the worker's to refuse."""
    if DECIDE not in ROLES[row["role"]] or not (row["workspaces"] is None or workspace in row["workspaces"]):
        return False
    return rule is None or rule.refusal(f"person:{row['name']}", row["role"], (), "once") is None


@functools.lru_cache(4096)
def _passkey(person: str, id: bytes, cose: bytes) -> Mapping[str, Any] | None:
    """A passkey as gateways read it, who know no CBOR; None for what they would refuse with all of the list."""
    try:
        decoded = decode_credential_public_key(cose)
        key = decoded_public_key_to_cryptography(decoded)
        text = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
        algorithm, name = int(decoded.alg), written(id)
    except Exception as error:
        # Whatever its parser says of it: it lets nobody in, and keeps nobody else's from being brought.
        _warn(f"a passkey of {person!r} is not brought to gateways: {error}")
        return None
    if algorithm not in ALGORITHMS or not NAME.fullmatch(person) or not 0 < len(name) <= MOST_ID:
        _warn(f"a passkey of {person!r} is not brought to gateways: they take no such name, id or algorithm")
        return None
    return {"person": person, "id": name, "algorithm": algorithm, "key": text}


@functools.lru_cache(4096)
def _warn(text: str) -> None:
    """Say it once: lists are made every few seconds."""
    log.warning("%s", text)


def _tell(workspace: str, document: Mapping[str, Any]) -> Mapping[str, Any]:
    from deskyard.access import egress

    return egress.bring_deciders(workspace, document, TELL_SECONDS)


class Bringer:
    """Remembers what each gateway was told since it runs, and tells it what is new.

    `changes` counts by workspace how often that was another list than its gateway had.
    """

    def __init__(self, tell: Tell = _tell, asks: Callable[[str], bool] = asks) -> None:
        self._tell, self._asks = tell, asks
        self.changes: Counter[str] = Counter()
        # Of what the threads share.
        self._lock = threading.Lock()
        self._brought: dict[str, str] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._ways: dict[str, tuple[Lend, str]] = {}
        self._pauses: dict[str, Deadline] = {}
        self._few = threading.Semaphore(AT_ONCE)
        self._threads = Threads(self._bring)
        self._next = Deadline(0)

    def look(self, link: Link, lend: Lend, origin: str) -> None:
        """Begin to tell gateways what they do not know yet; nobody waits for its end."""
        if not self._next.is_over:
            return
        self._next = Deadline(LOOK_SECONDS)
        running = [row["id"] for row in link.execute(ASKING, [list(RUNNING)]).fetchall()]
        with self._lock:
            # One that went away may be another when it is back.
            self._brought = {name: text for name, text in self._brought.items() if name in running}
            brought = dict(self._brought)
        for name, document in documents(link, running, origin).items():
            if brought.get(name) != _text(document) and self._pauses.get(name, Deadline(0)).is_over:
                self._ways[name] = (lend, origin)
                self._threads.begin([name])

    def bring(self, lend: Lend, workspace: str, origin: str) -> None:
        """Tell a gateway at once, whatever it was told; raises `DeskyardError` if it cannot be."""
        with self._lock:
            alone = self._locks[workspace]
        with alone:
            with lend() as link:
                document = documents(link, [workspace], origin)[workspace]
            answer = self._tell(workspace, document)
            with self._lock:
                self.changes[workspace] += answer["changed"]
                self._brought[workspace] = _text(document)

    def _bring(self, workspace: str) -> None:
        from deskyard.access.gateway_program import TooOld

        lend, origin = self._ways[workspace]
        pause = AGAIN_SECONDS
        try:
            if self._asks(workspace):
                # A change of one person is one of every list: hosts start no program for each at the same time.
                with self._few:
                    self.bring(lend, workspace, origin)
                return
        except TooOld as error:
            # It verifies nothing, and believes the site's key, until it has another image.
            log.info("%s: its gateway %s", workspace, error.reason)
            pause = OLD_SECONDS
        except (DeskyardError, psycopg.Error) as error:
            # A gateway that is away comes back; one that refuses the list needs a person.
            refuses = getattr(error, "field", None) == GATEWAY_LACKS
            level = logging.WARNING if refuses else logging.INFO
            log.log(level, "%s is not told who answers yet: %s", workspace, str(error).splitlines()[0])
        self._pauses[workspace] = Deadline(pause)


def _text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, sort_keys=True)
