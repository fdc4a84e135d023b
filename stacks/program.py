"""The Pulumi program of one workspace: the same for `pulumi up` in stacks/workspace and for the tasks."""

import pulumi

from deskyard.run.declaration import declared, from_config
from stacks.components import Workspace, WorkspaceArgs


def workspace_program() -> None:
    """Read the stack's configuration, plan, and declare everything."""
    name = pulumi.get_stack()
    declaration = declared(from_config(name, pulumi.Config("deskyard").get))
    workspace = Workspace(
        name,
        WorkspaceArgs(
            plan=declaration.plan,
            images=declaration.image_sources(),
            management_key=declaration.management_key(),
            domain_name=declaration.site.domain,
            certificate=declaration.certificate(),
        ),
    )
    pulumi.export("url", workspace.url)
