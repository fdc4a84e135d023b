"""The answer to an operation that waits for another person, in the line that is signed and that the worker checks."""

from collections.abc import Mapping
from typing import Any

from deskyard.control.machines.target import UPGRADE, upgrade_target
from deskyard.control.people.intent import CREATE, DESTROY, END
from deskyard.control.upkeep.signed import ALLOW, RESTORE

KIND = "operation.decide"
ALLOWED, REFUSED = "allow", "refuse"
# Those of which the worker knows by a signature who asks: a new desktop is one where it gets keys.
OPERATIONS = (CREATE, DESTROY, END, UPGRADE, RESTORE, ALLOW)
# A workspace goes with its desktops: a rule for the end of each is one for the end of all.
AS = {END: DESTROY}
# How long an operation waits for others before it fails.
WAITS = "24 hours"
OWN = "asked for it: another person has to answer"


def asked(desktop: str | None, kind: str, values: Mapping[str, Any], signed: str) -> str:
    """The line of an operation that others allow: what was signed; of an upgrade of many desktops, that of its own."""
    return upgrade_target({str(desktop): str(values.get("image"))}) if kind == UPGRADE else signed


def target(operation: Mapping[str, Any], answer: str) -> str:
    """It names the operation, what was asked by it and who did, so that a signature for it lets nothing else pass."""
    asked = f"{operation['kind']} {operation['asked']} by {operation['asker']}"
    return f"{answer} {operation['id']} {asked}"
