"""The Pulumi program of one workspace: the same for `pulumi up` in stacks/workspace and for the tasks.

The components of a backend are imported where they are used: a workspace has one, and the SDK of Proxmox VE is large.
"""

from typing import TYPE_CHECKING

import pulumi

from deskyard.declaration.declaration import Declared, declared, from_config
from deskyard.declaration.promise import Promise

if TYPE_CHECKING:
    from stacks.libvirt import Workspace
    from stacks.proxmox import ClusterWorkspace


def workspace_program(promise: Promise | None = None) -> None:
    """Read the stack's configuration, plan, and declare everything; `promise` is of the task that makes it."""
    name = pulumi.get_stack()
    declaration = declared(from_config(name, pulumi.Config("deskyard").get), promise)
    workspace = (
        _on_this_machine(name, declaration) if declaration.on_cluster is None else _on_cluster(name, declaration)
    )
    pulumi.export("url", workspace.url)


def _on_this_machine(name: str, declaration: Declared) -> "Workspace":
    from stacks.libvirt import Workspace, WorkspaceArgs

    return Workspace(
        name,
        WorkspaceArgs(
            plan=declaration.plan,
            images=declaration.image_sources(),
            management_key=declaration.management_key(),
            domain_name=declaration.site.domain,
            certificate=declaration.certificate(),
            templates=declaration.templates(),
        ),
    )


def _on_cluster(name: str, declaration: Declared, *, with_settings: bool = True) -> "ClusterWorkspace":
    """For tests: without settings the gateway is created and never configured."""
    from stacks.proxmox import ClusterWorkspace, ClusterWorkspaceArgs

    assert declaration.on_cluster is not None
    return ClusterWorkspace(
        name,
        ClusterWorkspaceArgs(
            plan=declaration.plan,
            on_cluster=declaration.on_cluster,
            management_key=declaration.management_key(),
            domain_name=declaration.site.domain,
            certificate=declaration.certificate(),
            with_settings=with_settings,
        ),
    )
