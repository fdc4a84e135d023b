"""What opens a desktop, or gives keys to one, in the line that is signed and that the worker checks. Pure."""

from collections.abc import Mapping
from typing import Any

from deskyard.control.opening import seal

SESSION = "desktop.session"


def session_target(desktop: str | None, values: Mapping[str, Any]) -> str:
    """Which desktop is opened how, and the key that its link is sealed to, if it is."""
    how = "+".join([str(values.get("mode")), *sorted(values.get("scopes") or [])])
    sealed = f" for key {seal.fingerprint(values['seal_to'])}" if values.get("seal_to") else ""
    return f"{desktop} {how}{sealed}"


def create_target(desktop: str | None, values: Mapping[str, Any]) -> str:
    """Which new desktop gets which keys of its workspace."""
    return f"{desktop} {','.join(sorted(values['keys']))}"
