"""The components on a Proxmox VE cluster, and what Pulumi's provider for it lacks: `deskyard:proxmox:*`."""

from stacks.proxmox.workspace import ClusterWorkspace, ClusterWorkspaceArgs

__all__ = ["ClusterWorkspace", "ClusterWorkspaceArgs"]
