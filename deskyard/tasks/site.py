"""site.*: the hypervisor of this machine, and what clusters are fit for."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from invoke import Collection, Context, Exit

from deskyard.errors import ConfigError
from deskyard.tasks.front import Changes, Unnoted, command, show

if TYPE_CHECKING:
    from deskyard.site.libvirt.daemon import HypervisorState

EXAMPLE, USER = "9.0", "deskyard@pve"


@command(changes=Changes("site.up"), help={"json": "print JSON"})
def up(_: Context, json: bool = False) -> None:
    """Make sure a hypervisor answers; starts a private one where systemd does not run the machine."""
    from deskyard.host.vm.accelerator import accelerator
    from deskyard.site.files import read_site
    from deskyard.site.libvirt import daemon

    daemon.up(accelerator(read_site("local").accelerator))
    _show(daemon.state(), json)


@command(changes=Changes("site.down"), help={"yes": "shut running desktops down first"})
def down(_: Context, yes: bool = False) -> None:
    """End the private hypervisor; desktops keep their disks. The system's own libvirt is left alone."""
    from deskyard.site.libvirt import daemon

    daemon.down(force=yes)


@command(changes=Unnoted.LOOKS, name="show", help={"json": "print JSON"})
def show_(_: Context, json: bool = False) -> None:
    """Show what runs."""
    from deskyard.site.libvirt import daemon

    _show(daemon.state(), json)


@command(changes=Unnoted.LOOKS, positional=["name"], help={"name": "name of the site", "json": "print JSON"})
def check(_: Context, name: str, json: bool = False) -> None:
    """Examine a site, a cluster or this machine, without changing it; exit code 1 if something has to be mended."""
    from deskyard.site.files import read_site
    from deskyard.site.finding import report
    from deskyard.workspace.examination import examine

    findings = examine(read_site(name))
    show([asdict(finding) for finding in findings], as_json=json, text=report(findings))
    if any(finding.state == "error" for finding in findings):
        raise Exit(code=1)


@command(
    changes=Unnoted.LOOKS,
    positional=["name"],
    help={
        "name": "a site with backend proxmox",
        "release": f"version of Proxmox VE, as pveversion on a node says it, such as {EXAMPLE}",
        "user": f"user of the token (default: {USER})",
        "json": "print the roles as JSON, as the Ansible role hypervisor takes them",
    },
)
def roles(_: Context, name: str, release: str = "", user: str = USER, json: bool = False) -> None:
    """Print the commands that give a token exactly the privileges that are needed; asks no cluster."""
    from deskyard.site.files import read_site
    from deskyard.site.proxmox.doctor import privileges

    cluster = read_site(name).cluster
    if not release:
        reason = "is not given: versions differ in their privileges and refuse those of others, and no cluster is asked"
        raise ConfigError("release", None, reason, f"look with pveversion on a node, then add --release {EXAMPLE}")
    numbers = release.split(".")
    if len(numbers) < 2 or not all(number.isdecimal() for number in numbers):
        raise ConfigError("release", release, "is no version", f"write it as {EXAMPLE}")
    version = (int(numbers[0]), int(numbers[1]))
    lines = [f"pveum user add {user}", *privileges.commands(cluster, version, user)]
    token = f"pveum user token add {user} deskyard --privsep 0   # prints the secret once, for token_file"
    show(privileges.plain(cluster, version), as_json=json, text="\n".join([*lines, token]))


@command(changes=Unnoted.LOOKS, positional=["name"], help={"name": "a site with backend proxmox", "json": "print JSON"})
def images(_: Context, name: str, json: bool = False) -> None:
    """Show what is published at a site: finished templates, and drafts of unfinished ones."""
    from deskyard.image.publish import publish
    from deskyard.site.files import read_site

    rows = publish.listed(read_site(name))
    lines = [
        f"{row['image']:<12}{row['digest']:<20}{row['node']:<16}{row['vmid']:<10}{'draft' if row['draft'] else ''}"
        for row in rows
    ]
    show(rows, as_json=json, text="\n".join([f"{'IMAGE':<12}{'DIGEST':<20}{'NODE':<16}{'ID':<10}", *lines]))


def _show(state: HypervisorState, as_json: bool) -> None:
    kind = f"private, in network namespace {state.namespace}" if state.private else "the system's"
    running = f"libvirt {state.version}, {kind}" if state.running else "nothing answers"
    lines = [f"{state.uri}  {running}", f"  machines: {', '.join(state.domains) or 'none'}"]
    lines.append(f"  networks: {', '.join(state.networks) or 'none'}")
    show(asdict(state), as_json=as_json, text="\n".join(lines))


ns = Collection("site")
for task_ in (up, down, show_, check, images, roles):
    ns.add_task(task_)
