"""The way to a gateway that libvirt runs."""

from typing import Any, ClassVar

from deskyard.site.libvirt import agent
from deskyard.site.libvirt.link import gone_is_fine
from deskyard.site.resource.cancellation import CANCELLATION
from deskyard.site.resource.gateway_settings import Channel, GatewaySettingsKind
from deskyard.site.resource.values import Values


class AgentChannel:
    """libvirt's channel to the agent. The seed has done all at the first boot."""

    def __init__(self, machine: Any) -> None:
        self._machine = machine

    def wait(self, seconds: float) -> None:
        """Wait until the agent answers."""
        agent.wait(self._machine, seconds, CANCELLATION.pause)

    def prepare(self) -> None:
        """Nothing is left to do."""

    def host_key(self) -> str:
        """The SSH host key."""
        return agent.host_key(self._machine)


class LibvirtGatewaySettingsKind(GatewaySettingsKind):
    """`deskyard:libvirt:GatewaySettings`."""

    replaces: ClassVar[frozenset[str]] = GatewaySettingsKind.replaces | {"domain"}

    def channel(self, link: Any, inputs: Values) -> Channel:
        """The way to the gateway's agent."""
        return AgentChannel(link.lookupByName(inputs["domain"]))

    def has_machine(self, link: Any, state: Values) -> bool:
        """True if libvirt knows the gateway's machine."""
        found = None
        with gone_is_fine():
            found = link.lookupByName(state["domain"])
        return found is not None
