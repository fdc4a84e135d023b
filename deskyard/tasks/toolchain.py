"""Tasks of the toolchain: pulumi, packer and the provider."""

from dataclasses import asdict

from invoke import Collection, Context

from deskyard.tasks.front import command, show
from deskyard.toolchain import TOOLS, FoundTool, find
from deskyard.toolchain import get as get_tool


@command(help={"tool": "pulumi or packer; all if left out"})
def get(_: Context, tool: str = "") -> None:
    """Find the programs that Deskyard drives, or get what is missing: release, Go modules, distribution."""
    for name in [tool] if tool else list(TOOLS):
        print(describe(get_tool(name)))


@command(name="show", default=True, help={"json": "print JSON"})
def show_(_: Context, json: bool = False) -> None:
    """Show each program: version, where it comes from, where it is."""
    found = {name: find(name) for name in TOOLS}
    state = {name: asdict(tool) if tool else {"name": name, "missing": True} for name, tool in found.items()}
    lines = [
        describe(tool) if tool else f"{name:8} missing -> ./inv toolchain.get --tool {name}"
        for name, tool in found.items()
    ]
    show(state, as_json=json, text="\n".join(lines))


def describe(tool: FoundTool) -> str:
    """One line for people."""
    return f"{tool.name:8} {tool.version:10} {tool.source:12} {tool.path}"


ns = Collection("toolchain")
ns.add_task(get)
ns.add_task(show_)
