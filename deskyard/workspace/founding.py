"""Declares a workspace that is not there yet as somebody wishes it, once all of it is checked and not before."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import yaml

from deskyard.declaration import declaration, stack_file
from deskyard.declaration.declaration import Declared
from deskyard.engine.backend import backend_of, machines_of
from deskyard.engine.preflight import network_and_port, port_error
from deskyard.errors import ConfigError
from deskyard.host.lock import alone
from deskyard.host.places import tree
from deskyard.host.progress import say
from deskyard.model.site import Site
from deskyard.model.workspace import Workspace
from deskyard.plan.printable import printable
from deskyard.site.files import read_site, stacks_folder

# Where nobody names one, a network is the first /24 of this range that is free; the very first of them is left out.
RANGE = IPv4Network("10.80.0.0/16")
FIRST_PORT, PORTS = 8443, 1000
EGRESS = (
    "  # open: the internet, without private, metadata and host ranges. locked: only the names in",
    "  # deskyard:egress_allow. none: nothing.",
)


@dataclass(frozen=True)
class Wish:
    """A workspace as somebody wishes it; of each desktop its name, and tier and image if they are not the usual."""

    name: str
    desktops: tuple[Mapping[str, Any], ...]
    site: str = "local"
    egress: str = "open"
    network: str | None = None

    def workspace(self, network: object, port: int) -> Workspace:
        """The workspace with this network and port; raises `ConfigError` naming what is wrong."""
        desktops = [{key: value for key, value in each.items() if value is not None} for each in self.desktops]
        values = {"name": self.name, "site": self.site, "network": str(network), "gateway_port": port}
        return Workspace.check({**values, "egress": self.egress, "desktops": desktops}, "workspace")


def declare(wish: Wish, author: str, *, again: bool = False) -> Path:
    """Write the declaration of a new workspace; raises an error before that for what would keep it from coming up.

    With `again` one that says just what is wished is the one of a run that was killed.
    """
    path = declaration.stack_file(wish.name)
    # Nobody else chooses the same network meanwhile.
    with alone("founding", waiting="another workspace is being declared: waiting for its end"):
        if path.exists():
            if again and _is_as_wished(wish):
                return path
            raise stack_file.taken(path)
        declared = declaration.declared(_placed(wish))
        backend_of(declared.site).check(declared)
        _require_nothing_left(declared)
        stack_file.make(path, _text(declared, author), declared.workspace)
    say(f"    declared in {path}, with network {declared.workspace.network}")
    return path


def _is_as_wished(wish: Wish) -> bool:
    there = declaration.read_workspace(wish.name)
    return there == wish.workspace(wish.network or there.network, there.gateway_port)


def _placed(wish: Wish) -> Workspace:
    """The workspace at a place of its own: its network and port are no other's."""
    site = read_site(wish.site)
    others = [network_and_port(name) for name in declaration.stack_names()]
    port = _free_port(site, {port for _, port in others})
    if wish.network is None:
        there = [network for network, _ in others if network is not None]
        return wish.workspace(_free_network([*there, *site.egress_exceptions, *backend_of(site).networks()]), port)
    workspace = wish.workspace(wish.network, port)
    if opened := [each for each in site.egress_exceptions if each.overlaps(workspace.network)]:
        reason = f"overlaps {opened[0]}, which all workspaces of site {site.name} may reach"
        raise ConfigError("workspace: network", wish.network, reason, "choose another /24")
    return workspace


def _free_network(taken: list[IPv4Network]) -> IPv4Network:
    networks = list(RANGE.subnets(new_prefix=24))[1:]
    free = next((each for each in networks if not any(each.overlaps(other) for other in taken)), None)
    if free is None:
        raise ConfigError("workspace: network", None, f"no /24 of {RANGE} is free", "name a private /24 that is")
    return free


def _free_port(site: Site, declared: set[object]) -> int:
    ports = range(FIRST_PORT, FIRST_PORT + PORTS)
    free = (port for port in ports if port not in declared and port_error(site.listen, port) is None)
    port = next(free, None)
    if port is None:
        reason = f"none from {ports[0]} to {ports[-1]} is free on {site.listen}"
        raise ConfigError("workspace: gateway_port", None, reason, "declare it by hand, with another port")
    return port


def _require_nothing_left(declared: Declared) -> None:
    """Raise `ConfigError` if machines are there of a workspace of this name that nobody declares any more."""
    if left := sorted(machines_of(declared.plan).desired()):
        reason = f"is the name of a workspace that is not declared, and whose machines are there: {', '.join(left)}"
        remedy = "choose another name, or bring its file back at the host and destroy it"
        raise ConfigError("name", declared.workspace.name, reason, remedy)


def _text(declared: Declared, author: str) -> str:
    """The declaration with what a person has to know who edits it, as in examples/."""
    workspace, plan = declared.workspace, declared.plan
    schema = os.path.relpath(tree() / "schemas" / "stack.schema.json", stacks_folder())
    lines = [
        f"# yaml-language-server: $schema={schema}",
        f"# Made in Mission Control by {printable(author)}.",
        f"# Edit it as any other, then: ./inv workspace.up {workspace.name}",
        "config:",
    ]
    if workspace.site != Workspace.model_fields["site"].default:
        lines.append(f"  deskyard:site: {_written(workspace.site)}")
    lines += ["  # A private /24 that nothing else on this site uses.", f"  deskyard:network: {workspace.network}"]
    if not plan.gateway.has_own_address:
        lines.append(f"  # {plan.gateway.url} leads to the workspace's gateway.")
        lines.append(f"  deskyard:gateway_port: {workspace.gateway_port}")
    lines += [*EGRESS, f"  deskyard:egress: {workspace.egress}", "  deskyard:desktops:"]
    for desktop in workspace.desktops:
        tier = declared.site.all_tiers()[desktop.tier]
        size = f"{tier.vcpus} vCPU, {tier.memory_mib / 1024:g} GiB, {tier.disk_gib} GiB disk"
        lines.append(f"    - name: {_written(desktop.name)}")
        lines.append(f"      tier: {_written(desktop.tier)} # {size}")
        lines += [f"      image: {_written(desktop.image)}"] if desktop.image is not None else []
    return "".join(f"{line}\n" for line in lines)


def _written(text: str) -> str:
    """A name as YAML has it: some, such as `on`, would be no text without quotes."""
    return str(yaml.safe_dump(text)).splitlines()[0]
