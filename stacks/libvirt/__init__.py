"""Components: translate a Plan into resources, decide nothing."""

from deskyard.plan.image.source import ImageSource
from stacks.libvirt.desktop import Desktop, DesktopArgs
from stacks.libvirt.gateway import Gateway, GatewayArgs
from stacks.libvirt.network import Network, NetworkArgs
from stacks.libvirt.workspace import Workspace, WorkspaceArgs

__all__ = [
    "Desktop",
    "DesktopArgs",
    "Gateway",
    "GatewayArgs",
    "ImageSource",
    "Network",
    "NetworkArgs",
    "Workspace",
    "WorkspaceArgs",
]
