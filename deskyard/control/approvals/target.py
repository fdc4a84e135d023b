"""The answer to a ticket, in the one line that a person signs and the worker checks."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

REFUSE = "refuse"
ANSWERS = {
    "once": "for one connection",
    "15m": "for 15 minutes",
    "always": "until somebody takes it back",
    REFUSE: "never mind: refuse it",
}
SECONDS = {"15m": 900}
KIND = "approval.decide"
PROVED = " proof:"


def target(approval: Mapping[str, Any], answer: str) -> str:
    """It names all that is decided, so that a signature for it opens nothing else."""
    return f"{approval['id']} {approval['desktop_id']} {approval['name']}:{approval['port']} {answer}"


def proof_hash(proof: Mapping[str, Any] | None) -> str:
    """The hash of what proves an answer, as it is kept with the operation: intent, and signature or a key's word."""
    return hashlib.sha256(json.dumps(proof, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def proved(actor: str, proof: str) -> str:
    """Who answered, with the hash of the proof, as a gateway's chain is to have it."""
    return f"{actor}{PROVED}{proof}"


def answered_by(text: str | None) -> str | None:
    """Who answered, of what a gateway says; at the host's shell there is no proof."""
    return text and text.partition(PROVED)[0]
