"""Judges values of the settings; what is wrong is named by its field."""

import re
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from deskyard.errors import GatewayError

REMEDY = "send the settings of the workspace's Plan unchanged"


def require(good: bool, field: str, value: object, reason: str) -> None:
    """Raise `GatewayError` for a field that is not good."""
    if not good:
        raise GatewayError(field, value, reason, REMEDY)


def keys(document: Any, where: str, wanted: set[str]) -> dict[str, Any]:
    """An object with exactly these keys."""
    require(isinstance(document, dict), where, None, "must be an object")
    missing, unknown = sorted(wanted - set(document)), sorted(set(document) - wanted)
    require(not missing, where, None, f"lacks {', '.join(missing)}")
    require(not unknown, where, None, f"has unknown keys: {', '.join(unknown)}")
    return dict(document)


def matches(pattern: re.Pattern[str], value: Any) -> bool:
    """Whether this is text of that form."""
    return isinstance(value, str) and pattern.match(value) is not None


def is_address(value: Any) -> bool:
    """Whether this is an IPv4 address as the Plan writes it."""
    try:
        return isinstance(value, str) and str(IPv4Address(value)) == value
    except ValueError:
        return False


def is_network(value: Any) -> bool:
    """Whether this is an IPv4 network as the Plan writes it."""
    try:
        return isinstance(value, str) and str(IPv4Network(value)) == value
    except ValueError:
        return False
