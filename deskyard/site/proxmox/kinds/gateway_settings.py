"""The way to a gateway that a cluster runs."""

from typing import Any, ClassVar

from deskyard.errors import SiteError
from deskyard.host.deadline import Deadline
from deskyard.plan.first_boot import NamedNic, interface_files
from deskyard.plan.power import Power
from deskyard.site.proxmox.agent import ClusterAgent
from deskyard.site.proxmox.life.power import MachinePower
from deskyard.site.proxmox.machine import node_of
from deskyard.site.resource.cancellation import CANCELLATION
from deskyard.site.resource.gateway_settings import BOOT_SECONDS, Channel, GatewaySettingsKind
from deskyard.site.resource.values import Values

# Succeeds if both NICs have their names.
NAMES_IN_FORCE = "for name in uplink workspace; do test -e /sys/class/net/$name || exit 1; done"


class ClusterChannel:
    """The agent by way of the API."""

    def __init__(self, agent: ClusterAgent, nics: list[NamedNic]) -> None:
        self._agent, self._nics = agent, nics

    def wait(self, seconds: float) -> None:
        """Wait until the agent answers."""
        self._agent.wait(seconds, CANCELLATION.pause)

    def prepare(self) -> None:
        """Give the NICs their names: cloud-init's data of Proxmox VE calls them eth0 and eth1, at every start anew."""
        if self._agent.execute(["/bin/sh", "-c", NAMES_IN_FORCE])[0] == 0:
            return
        code, output = self._agent.execute(["/bin/sh"], stdin=interface_files(self._nics))
        if code != 0:
            raise SiteError("gateway", self._agent.name, f"its NICs could not be named: {output}", "see its console")
        self._agent.restart()
        self._wait_for_names()

    def host_key(self) -> str:
        """The SSH host key."""
        return self._agent.host_key()

    def _wait_for_names(self) -> None:
        deadline = Deadline(BOOT_SECONDS)
        while True:
            try:
                if self._agent.execute(["/bin/sh", "-c", NAMES_IN_FORCE])[0] == 0:
                    return
            except SiteError:
                # It is on its way down or up.
                if deadline.is_over:
                    raise
            if deadline.is_over:
                reason = "its NICs have not got their names"
                raise SiteError("gateway", self._agent.name, reason, "see its console, then run the command again")
            CANCELLATION.pause(2)


class ClusterGatewaySettingsKind(GatewaySettingsKind):
    """`deskyard:proxmox:GatewaySettings`."""

    replaces: ClassVar[frozenset[str]] = GatewaySettingsKind.replaces | {"vm_id"}

    def channel(self, link: Any, inputs: Values) -> Channel:
        """The way to the gateway's agent."""
        client, vm_id = link(inputs["site"]), int(inputs["vm_id"])
        node = node_of(client, vm_id)
        if node is None:
            raise SiteError("gateway", vm_id, "is not in the cluster", "run the same command again")
        desired = MachinePower(client, node, vm_id).desired()
        if desired is not Power.RUNNING:
            remedy = f"run ./inv workspace.start {inputs['workspace']}, then the same command again"
            raise SiteError(
                "gateway", inputs["workspace"], f"is wanted {desired}, so that it takes no settings", remedy
            )
        settings = inputs["settings"]
        nics = [
            NamedNic(
                "uplink",
                settings["uplink_mac"],
                f"{settings['uplink_address']}/{settings['uplink_prefix']}",
                settings["host_address"],
                tuple(settings["resolvers"]),
            ),
            NamedNic(
                "workspace",
                settings["workspace_mac"],
                f"{settings['workspace_address']}/{settings['workspace_prefix']}",
            ),
        ]
        return ClusterChannel(ClusterAgent(client, node, vm_id), nics)

    def has_machine(self, link: Any, state: Values) -> bool:
        """True if the cluster has the gateway's machine."""
        return node_of(link(state["site"]), int(state["vm_id"])) is not None
