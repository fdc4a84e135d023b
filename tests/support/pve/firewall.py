"""The firewall of guests: how a single rule is answered."""

from typing import Any


class FirewallApi:
    """Part of the peer."""

    async def _fw_rule_get(self, scope: str, values: dict[str, Any], user: str) -> dict[str, Any]:
        """GET .../rules/{pos}: the position is text, as it stood in the path (PVE/API2/Firewall/Rules.pm)."""
        rule: dict[str, Any] = await super()._fw_rule_get(scope, values, user)  # type: ignore[misc]
        return {**rule, "pos": str(rule["pos"])}
