"""Components: translate a Plan into resources, decide nothing."""

from deskyard.plan.image_source import ImageSource
from stacks.components.desktop import Desktop, DesktopArgs
from stacks.components.gateway import Gateway, GatewayArgs
from stacks.components.network import Network, NetworkArgs
from stacks.components.workspace import Workspace, WorkspaceArgs

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
