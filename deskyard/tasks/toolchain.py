"""Tasks of the toolchain: pulumi, packer, restic, and the plugin of Proxmox VE."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from invoke import Collection, Context

from deskyard.errors import ConfigError
from deskyard.tasks.front import Changes, Unnoted, command, show

if TYPE_CHECKING:
    from deskyard.host.toolchain import FoundTool


@command(
    changes=Changes("toolchain.get", shown=("tool", "sha256")),
    help={
        "tool": "pulumi, packer, restic (backups) or proxmoxve (sites of that backend); pulumi and packer if left out",
        "sha256": "checksum of the official release you trust, where none is pinned (proxmoxve)",
    },
)
def get(_: Context, tool: str = "", sha256: str = "") -> None:
    """Find the programs that Deskyard drives, or get what is missing: release, Go modules, distribution."""
    from deskyard.host.toolchain import BASIC
    from deskyard.host.toolchain import get as get_tool

    if sha256 and not tool:
        raise ConfigError("sha256", sha256, "is given for no tool", "add --tool proxmoxve")
    for name in [tool] if tool else BASIC:
        print(describe(get_tool(name, sha256 or None)))


@command(changes=Unnoted.LOOKS, name="show", default=True, help={"json": "print JSON"})
def show_(_: Context, json: bool = False) -> None:
    """Show each program: version, where it comes from, where it is."""
    from deskyard.host.toolchain import TOOLS, find

    found = {name: find(name) for name in TOOLS}
    state = {name: asdict(tool) if tool else {"name": name, "missing": True} for name, tool in found.items()}
    lines = [
        describe(tool) if tool else f"{name:9} missing -> ./inv toolchain.get --tool {name}"
        for name, tool in found.items()
    ]
    show(state, as_json=json, text="\n".join(lines))


def describe(tool: FoundTool) -> str:
    """Describe it in a line for people."""
    return f"{tool.name:9} {tool.version:10} {tool.source:12} {tool.path}"


ns = Collection("toolchain")
ns.add_task(get)
ns.add_task(show_)
