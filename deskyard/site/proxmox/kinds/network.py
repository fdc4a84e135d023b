"""Puts the workspace's VNet into force on all nodes, and notices when it is not.

The provider's own applier runs once, believes a task that ends OK although a node did not reload, and never looks
again: a VNet that a node lacks, or that was deleted by hand and made anew, would wait for ever.
"""

from typing import Any, ClassVar

from deskyard.site.proxmox import sdn
from deskyard.site.proxmox.kinds.inputs import AppliedNetworkInputs
from deskyard.site.resource.kind import Kind
from deskyard.site.resource.values import Values


class AppliedNetworkKind(Kind[AppliedNetworkInputs]):
    """`deskyard:proxmox:AppliedNetwork`: the SDN configuration is in force for this VNet."""

    replaces: ClassVar[frozenset[str]] = frozenset({"site", "vnet"})
    desired: ClassVar[Values] = {"applied": True}
    computed: ClassVar[tuple[str, ...]] = ("applied",)

    def create(self, link: Any, inputs: AppliedNetworkInputs) -> tuple[str, Values]:
        """Apply what is pending; all that others have left pending comes into force too."""
        sdn.apply(link(inputs["site"]))
        return str(inputs["vnet"]), {"applied": True}

    def read(self, link: Any, identity: str, state: Values) -> Values | None:
        """Whether the VNet is there with nothing pending, on every node."""
        client = link(state["site"])
        mine = next((row for row in sdn.vnets(client) if row.get("vnet") == identity), None)
        settled = mine is not None and not mine.get("state") and not mine.get("pending")
        applied = mine is not None and settled and sdn.in_force(client, str(mine.get("zone")), identity)
        return {**state, "applied": applied}

    def update(self, link: Any, identity: str, state: Values, inputs: AppliedNetworkInputs) -> Values:
        """Apply again."""
        sdn.apply(link(inputs["site"]))
        return {"applied": True}

    def delete(self, link: Any, identity: str, state: Values) -> None:
        """Nothing: what is removed is applied when it is removed."""
