"""The answer to a ticket, in the one line that a person signs and the worker checks."""

from collections.abc import Mapping
from typing import Any

ANSWERS = {
    "once": "for one connection",
    "15m": "for 15 minutes",
    "always": "until somebody takes it back",
    "refuse": "never mind: refuse it",
}
SECONDS = {"15m": 900}
KIND = "approval.decide"


def target(approval: Mapping[str, Any], answer: str) -> str:
    """It names all that is decided, so that a signature for it opens nothing else."""
    return f"{approval['id']} {approval['desktop_id']} {approval['name']}:{approval['port']} {answer}"
