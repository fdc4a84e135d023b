"""Settings for tests: those of a Plan, as the host sends them."""

import json
from ipaddress import IPv4Network
from typing import Any, Literal

from deskyard.model.site import Site
from deskyard.model.workspace import Desktop, Workspace
from deskyard.plan.workspace import plan_workspace
from deskyard.wire import gateway_settings

Egress = Literal["open", "locked", "none"]


def planned(
    egress: Egress = "open", allow: tuple[str, ...] = (), site: Site | None = None
) -> gateway_settings.Settings:
    """The Plan's settings of a workspace with two desktops."""
    workspace = Workspace(
        name="demo",
        network=IPv4Network("10.80.1.0/24"),
        egress=egress,
        egress_allow=allow,
        desktops=(Desktop(name="d1", host_number=10), Desktop(name="research-2", host_number=11)),
    )
    return plan_workspace(workspace, site or Site(), "kvm").gateway.settings


def document(egress: Egress = "open", allow: tuple[str, ...] = (), site: Site | None = None) -> dict[str, Any]:
    """The same, as the host sends it."""
    sent: dict[str, Any] = json.loads(planned(egress, allow, site).as_json())
    return sent


def parsed(egress: Egress = "open", allow: tuple[str, ...] = (), site: Site | None = None) -> gateway_settings.Settings:
    """The same, as the gateway understands it."""
    return gateway_settings.parse(json.dumps(document(egress, allow, site)))
