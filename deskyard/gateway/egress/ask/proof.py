"""Whether people signed an answer: each by a passkey that is on the list, and just this answer to this ticket.

It is what a browser signs by the words of WebAuthn level 3. The form of what is signed is Mission Control's
(`deskyard.control.people.intent`), which a test holds this to.
"""

import base64
import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deskyard.errors import GatewayError
from deskyard.gateway.egress.ask.deciders import REMEDY, Deciders, Passkey
from deskyard.gateway.egress.ask.tickets import ALWAYS, FOR, ONCE, REFUSE, Ticket

KIND, PERSON = "approval.decide", "person:"
# The word that is signed -> what it has the gateway do. A refusal opens nothing and needs no signature.
ANSWERS: dict[str, tuple[str, int | None]] = {"once": (ONCE, None), "15m": (FOR, 900), "always": (ALWAYS, None)}
# With what another person signed an answer counts for a day after its end; a clock may be that much behind.
LATE_SECONDS, EARLY_SECONDS = 86_400, 900
PRESENT, VERIFIED = 0x01, 0x04
# Of an intent.
PARTS = ("kind", "target", "nonce", "expires_at")
AGAIN = "sign this very answer, with a passkey of Mission Control"
SLOW = "sign this answer anew; if that is of another time, too, look at the gateway's clock: timedatectl"
MOST_PROOFS = 8


@dataclass(frozen=True)
class Signature:
    """A person's signature that was found true: `challenge` stands for what was signed, once."""

    person: str
    credential: str
    challenge: str
    proof: str


def require_no_person(verdict: str, actor: str) -> None:
    """Raise `GatewayError` for an answer that opens in the name of a person, who signs it."""
    if verdict != REFUSE and actor.startswith(PERSON):
        raise _refused("is not there")


def actor(signatures: Sequence[Signature]) -> str:
    """Who answered, with the hash of what proves it, as the answer shows it."""
    return f"{PERSON}{signatures[-1].person} proof:{signatures[-1].proof}"


def target(workspace: str, ticket: Ticket, answer: str) -> str:
    """The line that is signed: all that is decided."""
    return f"{workspace}.{ticket.id} {workspace}.{ticket.desktop} {ticket.name}:{ticket.port} {answer}"


def require(
    deciders: Deciders, workspace: str, ticket: Ticket, answer: str, proofs: Any, now: float
) -> list[Signature]:
    """The signatures of enough people, the one who answers last of all; raises `GatewayError` for fewer."""
    if answer not in ANSWERS:
        raise GatewayError("answer", answer, "is none that opens", f"choose one of: {', '.join(ANSWERS)}")
    if not isinstance(proofs, list) or not 0 < len(proofs) <= MOST_PROOFS:
        raise _refused("is not there")
    aim = target(workspace, ticket, answer)
    found = [*_others(deciders, aim, ticket, proofs[:-1], now), _signature(deciders, aim, ticket, proofs[-1], now)]
    if len({signature.person for signature in found}) < deciders.persons:
        raise _refused(f"is of too few: {deciders.persons} people have to sign the same")
    return found


def _others(deciders: Deciders, aim: str, ticket: Ticket, proofs: Sequence[Any], now: float) -> Iterator[Signature]:
    """The signatures of those who answered before; some of them may have lost the right since."""
    for proof in proofs:
        with contextlib.suppress(GatewayError):
            yield _signature(deciders, aim, ticket, proof, now)


def _signature(deciders: Deciders, aim: str, ticket: Ticket, proof: Any, now: float) -> Signature:
    try:
        intent, credential = {part: proof["intent"][part] for part in PARTS}, proof["credential"]
        passkey = deciders.passkey(_written(_bytes(credential["id"])))
        if passkey is None:
            raise GatewayError("deciders", None, "do not have this passkey, by this gateway's list", REMEDY)
        _require_intent(intent, aim, now)
        challenge = _challenge(intent)
        _require_assertion(deciders, passkey, credential["response"], challenge)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise _refused("is none that can be read") from error
    if challenge.hex() in ticket.signed:
        raise _refused("was used before")
    return Signature(passkey.person, passkey.id, challenge.hex(), _hash(proof))


def _require_intent(intent: Mapping[str, Any], aim: str, now: float) -> None:
    if type(intent["expires_at"]) is not int:
        raise ValueError("no moment")
    if (intent["kind"], intent["target"]) != (KIND, aim):
        raise _refused("is for something else")
    if not -LATE_SECONDS <= intent["expires_at"] - now <= EARLY_SECONDS:
        raise _refused("is too old, or of another time, by this gateway's clock", SLOW)


def _challenge(intent: Mapping[str, Any]) -> bytes:
    canonical = json.dumps(intent, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.sha256(b"deskyard intent\0" + canonical).digest()


def _require_assertion(deciders: Deciders, passkey: Passkey, response: Mapping[str, str], challenge: bytes) -> None:
    client, data = _bytes(response["clientDataJSON"]), _bytes(response["authenticatorData"])
    said = json.loads(client)
    if said["type"] != "webauthn.get" or _bytes(said["challenge"]) != challenge or said.get("crossOrigin") is True:
        raise _refused("is over something else")
    if said["origin"] != deciders.origin or data[:32] != hashlib.sha256(deciders.host.encode()).digest():
        raise _refused("is for another site")
    if len(data) < 37 or data[32] & PRESENT == 0 or data[32] & VERIFIED == 0:
        raise _refused("was made without a look who it is")
    if not _is_signed(passkey, _bytes(response["signature"]), data + hashlib.sha256(client).digest()):
        raise _refused("is not by this passkey")


def _is_signed(passkey: Passkey, signature: bytes, text: bytes) -> bool:
    # It takes a while, and most gateways ask nobody.
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        match passkey.algorithm, load_pem_public_key(passkey.key.encode()):
            case -8, ed25519.Ed25519PublicKey() as edwards:
                edwards.verify(signature, text)
            case -7, ec.EllipticCurvePublicKey() as elliptic:
                elliptic.verify(signature, text, ec.ECDSA(hashes.SHA256()))
            case -257, rsa.RSAPublicKey() as prime:
                prime.verify(signature, text, padding.PKCS1v15(), hashes.SHA256())
            case _:
                return False
    except (InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def _written(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def _hash(proof: Mapping[str, Any]) -> str:
    """The hash by which Mission Control's own record of a proof is found again."""
    return hashlib.sha256(json.dumps(proof, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def shown(signatures: Sequence[Signature]) -> list[dict[str, str]]:
    """The signatures, for the audit."""
    return [
        {"person": each.person, "credential": each.credential, "challenge": each.challenge, "proof": each.proof}
        for each in signatures
    ]


def _refused(reason: str, remedy: str = AGAIN) -> GatewayError:
    return GatewayError("signature", None, reason, remedy)
