"""The people who may answer tickets, and the public keys of their passkeys, as the host brought them.

Only root writes the list, by `deskyard-gateway deciders`; each change is a line of the audit before it is in force.
"""

import contextlib
import hashlib
import itertools
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from deskyard.errors import GatewayError
from deskyard.gateway.config.lock import alone
from deskyard.gateway.machine import files
from deskyard.gateway.machine.layout import Layout
from deskyard.gateway.session import line as service

MOST_PASSKEYS = 2000
MOST_PERSONS = 2
# Of a change in the audit: bytes for who is new, and for who is gone, both far below what the session service reads at
# once; characters of a passkey's id.
MOST_NAMED, MOST_SHOWN = 12_000, 64
# By number in the registry of COSE: EdDSA with Ed25519, ECDSA with P-256, RSA (PKCS #1); both of these with SHA-256.
ALGORITHMS = (-8, -7, -257)
REMEDY = "Mission Control brings it again: see ./inv control.status, then answer anew"
_ORIGIN = re.compile(r"https?://[a-z0-9.-]+(?::[0-9]+)?")
_NAME = re.compile(r"[^\x00-\x1f\x7f-\x9f]{1,300}")  # Mission Control names people by their mail
_ID = re.compile(r"[A-Za-z0-9_-]{1,1400}")
_KEY = re.compile("-----BEGIN PUBLIC KEY-----")


@dataclass(frozen=True)
class Passkey:
    """A person's passkey: its public key is in PEM."""

    id: str
    person: str
    algorithm: int
    key: str


@dataclass(frozen=True)
class Deciders:
    """Those who answer for this workspace: `persons` of them have to sign the same, in the pages of `origin`."""

    origin: str
    persons: int
    passkeys: tuple[Passkey, ...]

    @property
    def host(self) -> str:
        """The id of the relying party."""
        return self.origin.partition("://")[2].partition(":")[0]

    def passkey(self, id: str) -> Passkey | None:
        """The passkey with this id, if it is of somebody who may answer."""
        return next((passkey for passkey in self.passkeys if passkey.id == id), None)


def parse(text: str) -> Deciders:
    """The list of a document; raises `GatewayError` for what is none."""
    try:
        document = json.loads(text)
        if not isinstance(document, dict) or set(document) != {"origin", "persons", "passkeys"}:
            raise ValueError("has other parts")
        return _checked(document)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        reason = f"is no list of those who may answer: {error}"
        raise GatewayError("deciders", None, reason, "send it as Mission Control does") from error


def _checked(document: Mapping[str, Any]) -> Deciders:
    origin, persons, rows = document["origin"], document["persons"], document["passkeys"]
    if not _ORIGIN.fullmatch(origin):
        raise ValueError("its origin is none")
    if type(persons) is not int or not 1 <= persons <= MOST_PERSONS:
        raise ValueError(f"persons is no number from 1 to {MOST_PERSONS}")
    if not isinstance(rows, list):
        raise ValueError("passkeys is no list")
    if len(rows) > MOST_PASSKEYS:
        raise ValueError(f"it has more than {MOST_PASSKEYS} passkeys")
    passkeys = tuple(Passkey(**row) for row in rows)
    for passkey in passkeys:
        if not _ID.fullmatch(passkey.id) or not _NAME.fullmatch(passkey.person):
            raise ValueError("a passkey's id or person is none")
        if passkey.algorithm not in ALGORITHMS or not _KEY.match(passkey.key):
            raise ValueError(f"the key of {passkey.id} is none that is known here")
    if len({passkey.id for passkey in passkeys}) != len(passkeys):
        raise ValueError("a passkey is there twice")
    return Deciders(origin, persons, passkeys)


def load(layout: Layout) -> Deciders:
    """The list in force; raises `GatewayError` if there is none yet."""
    text = files.read(layout.deciders_file)
    if text is None:
        raise GatewayError("deciders", None, "are not known to this gateway yet", REMEDY)
    return parse(text)


def replace(layout: Layout, text: str) -> dict[str, Any]:
    """Put a list in force, and say who is new and who is gone; raises `GatewayError`, with the old one in force."""
    wanted = parse(text)
    with alone(layout):
        before = files.read(layout.deciders_file)
        if before == text:
            return {"changed": False, "passkeys": len(wanted.passkeys)}
        old = _known(before)
        added, removed = map(_named, _difference(old, wanted))
        loosened = bool(added) or old is None or old.persons > wanted.persons or old.origin != wanted.origin
        facts = {"result": "changed", "persons": wanted.persons, "origin": wanted.origin}
        facts |= {"added": added, "removed": removed, "digest": hashlib.sha256(text.encode()).hexdigest()}
        # Whom it takes the right from loses it, also where the audit cannot be reached.
        with contextlib.nullcontext() if loosened else contextlib.suppress(GatewayError):
            service.ask(layout.admin_socket, {"command": "deciders", "facts": facts})
        group = layout.ask_user if layout.trusts_system else None
        files.write(layout.deciders_file, text, 0o640, group)
    return {"changed": True, "passkeys": len(wanted.passkeys), "added": added, "removed": removed}


def _known(text: str | None) -> Deciders | None:
    """The list of before; None of one that nobody can read."""
    with contextlib.suppress(GatewayError):
        return None if text is None else parse(text)
    return None


def _named(passkeys: Collection[Passkey]) -> list[str]:
    """Persons and passkeys, as many as fit into a line of the audit."""
    shown = sorted(f"{passkey.person} {passkey.id[:MOST_SHOWN]}" for passkey in passkeys)
    fits = sum(length <= MOST_NAMED for length in itertools.accumulate(len(json.dumps(name)) for name in shown))
    return shown if fits == len(shown) else [*shown[:fits], f"and {len(shown) - fits} more"]


def _difference(old: Deciders | None, new: Deciders) -> tuple[set[Passkey], set[Passkey]]:
    """Whose passkeys are new, and whose are gone: both of one whose key was exchanged."""
    before, now = set(old.passkeys) if old is not None else set(), set(new.passkeys)
    return now - before, before - now
