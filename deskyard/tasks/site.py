"""site.*: the hypervisor of this machine."""

from dataclasses import asdict

from invoke import Collection, Context

from deskyard.run import declaration, hypervisor
from deskyard.run.accelerator import accelerator
from deskyard.run.hypervisor import HypervisorState
from deskyard.tasks.front import command, show


@command(help={"json": "print JSON"})
def up(_: Context, json: bool = False) -> None:
    """Make sure a hypervisor answers; starts a private one where systemd does not run the machine."""
    hypervisor.up(accelerator(declaration.read_site("local").accelerator))
    _show(hypervisor.state(), json)


@command(help={"yes": "shut running desktops down first"})
def down(_: Context, yes: bool = False) -> None:
    """End the private hypervisor; desktops keep their disks. The system's own libvirt is left alone."""
    hypervisor.down(force=yes)


@command(name="show", help={"json": "print JSON"})
def show_(_: Context, json: bool = False) -> None:
    """Show what runs."""
    _show(hypervisor.state(), json)


def _show(state: HypervisorState, as_json: bool) -> None:
    kind = f"private, in network namespace {state.namespace}" if state.private else "the system's"
    running = f"libvirt {state.version}, {kind}" if state.running else "nothing answers"
    lines = [f"{state.uri}  {running}", f"  machines: {', '.join(state.domains) or 'none'}"]
    lines.append(f"  networks: {', '.join(state.networks) or 'none'}")
    show(asdict(state), as_json=as_json, text="\n".join(lines))


ns = Collection("site")
for one in (up, down, show_):
    ns.add_task(one)
