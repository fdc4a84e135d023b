"""The line that is signed to open a desktop, or to give keys to one, and that the worker checks. Pure."""

from collections.abc import Mapping
from typing import Any

from deskyard.control.opening import seal

SESSION = "desktop.session"


def session_target(desktop: str | None, values: Mapping[str, Any]) -> str:
    """The desktop that is opened, how, and the key that its link is sealed to, if it is."""
    how = "+".join([str(values.get("mode")), *sorted(values.get("scopes") or [])])
    sealed = f" for key {seal.fingerprint(values['seal_to'])}" if values.get("seal_to") else ""
    return f"{desktop} {how}{sealed}"


def create_target(desktop: str | None, values: Mapping[str, Any]) -> str:
    """A new desktop, and the keys of its workspace that it gets."""
    return f"{desktop} {','.join(sorted(values['keys']))}"
