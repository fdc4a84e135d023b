"""The hosts of a Molecule scenario: a small Plan's gateway and first desktop, a hypervisor, or a desktop alone.

Started by ansible/molecule/shared/create.yml and destroy.yml: python -m deskyard.lab.hosts create FOLDER
"""

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from deskyard.gateway.machine import tls
from deskyard.lab import desk
from deskyard.lab.desk import DESK
from deskyard.lab.nspawn import Host, Nic, Yard
from deskyard.lab.tree import HYPERVISOR, bundle, gateway_roles, host_tree
from deskyard.model.site import Site
from deskyard.model.workspace import Desktop, Workspace
from deskyard.plan.egress import denied_networks
from deskyard.plan.names import mac_address
from deskyard.plan.workspace import DesktopPlan, WorkspacePlan, plan_workspace
from deskyard.wire.gateway_settings import Settings

# What a desktop may and may not reach beyond the gateway; the machine outside plays them all. No address for
# documentation: dnsmasq takes those for rebinding.
PUBLIC, METADATA, PRIVATE = "93.184.216.34", "169.254.169.254", "10.99.0.1"
OUTSIDE_NAME = "outside.test"
# A hypervisor, who manages it, and what its site opens to workspaces.
ADMINISTRATOR, HYPERVISOR_ADDRESS, OPENED = "192.0.2.1", "192.0.2.2", "10.98.7.0/24"
OUTSIDE_PORTS = (22, 80, 443, 8006)

# Answers "hello" on every port, and questions for a name.
OUTSIDE = """
import socket, sys, threading
public, name, ports = sys.argv[1], sys.argv[2].encode(), map(int, sys.argv[3:])
def tcp(port):
    listener = socket.create_server(("", port))
    while True:
        line, _ = listener.accept(); line.sendall(b"hello"); line.close()
def dns():
    line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); line.bind(("", 53))
    asked = b"".join(bytes([len(part)]) + part for part in name.split(b"."))
    while True:
        data, sender = line.recvfrom(512)
        at = data.index(0, 12) + 5
        known = data[12:].lower().startswith(asked) and data[at - 4 : at - 2] == bytes([0, 1])
        record = bytes.fromhex("c00c000100010000003c0004") + socket.inet_aton(public) if known else b""
        line.sendto(data[:2] + bytes([0x81, 0x80, 0, 1, 0, known, 0, 0, 0, 0]) + data[12:at] + record, sender)
for port in ports:
    threading.Thread(target=tcp, args=(port,)).start()
dns()
"""


def plan(egress: str, allow: Sequence[str], desktops: int) -> WorkspacePlan:
    """A small workspace; every address that the hosts and their tests use is its."""
    workspace = Workspace.model_validate(
        {
            "name": "molecule",
            "network": IPv4Network("10.80.9.0/24"),
            "egress": egress,
            "egress_allow": tuple(allow),
            "desktops": tuple(Desktop(name=f"d{n}", host_number=9 + n) for n in range(1, desktops + 1)),
        }
    )
    return plan_workspace(workspace, Site(name="local", backend="libvirt"), "kvm")


def create(folder: Path, platforms: list[dict[str, Any]]) -> None:
    """Boot the hosts, and leave beside them what converge.yml gives them."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)  # Molecule made it
    named = {platform["name"]: platform for platform in platforms}
    if DESK in named:
        desk.create(folder, named[DESK])
    elif HYPERVISOR in named:
        hypervisor = named[HYPERVISOR]
        _create_hypervisor(folder, hypervisor.get("variables", {}), hypervisor.get("files", {}))
    else:
        _create_gateway(folder, platforms)


def _create_hypervisor(folder: Path, variables: dict[str, Any], files: dict[str, str]) -> None:
    """A host with an administrator on one side, and a gateway on the other that the machine outside plays.

    `files` are what a real one has before the role comes.
    """
    site = Site.check({"name": "local", "egress_exceptions": [OPENED]}, "molecule")
    planned = plan("open", (), 1)
    values = {
        "hypervisor_denied_networks": denied_networks(site),
        "hypervisor_egress_exceptions": [OPENED],
        **variables,
    }
    (folder / "variables.json").write_text(json.dumps(values))
    prefix = planned.uplink.cidr.partition("/")[2]
    uplink = [f"Address={planned.uplink.host_address}/{prefix}"]
    management = [f"Address={HYPERVISOR_ADDRESS}/24", f"Gateway={ADMINISTRATOR}"]
    host = Host(
        HYPERVISOR,
        (
            Nic("eth0", mac_address("molecule", "management"), "management", _network("eth0", management)),
            # In place of the bridge that libvirt would make.
            Nic(
                planned.uplink.bridge,
                mac_address("molecule", "uplink"),
                "uplink",
                _network(planned.uplink.bridge, uplink),
            ),
        ),
    )
    machine = {
        "lo": [f"{address}/32" for address in (PUBLIC, METADATA, PRIVATE)],
        "management": [f"{ADMINISTRATOR}/24"],
        "uplink": [f"{planned.gateway.uplink_address}/{prefix}"],
    }
    outside = ["python3", "-c", OUTSIDE, PUBLIC, OUTSIDE_NAME, *map(str, OUTSIDE_PORTS)]
    Yard(folder).create(host_tree(), machine, [host], shlex.join(outside))
    for path, text in files.items():
        file = folder / HYPERVISOR / "root" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def _create_gateway(folder: Path, platforms: list[dict[str, Any]]) -> None:
    wanted = next(platform for platform in platforms if platform["name"] == "gateway")
    planned = plan(wanted.get("egress", "open"), wanted.get("allow", ()), wanted.get("desktops", 2))
    settings = planned.gateway.settings
    (folder / "settings.json").write_text(json.dumps(asdict(settings)))
    key = tls.ensure_key(folder / "tls.key")
    (folder / "certificate.pem").write_text(tls.self_signed(key, settings.hostname) + key)
    roles = gateway_roles()
    values = {"gateway_roles": roles, "gateway_bundle_dir": str(bundle()), **{f"{role}_start": True for role in roles}}
    (folder / "roles.json").write_text(json.dumps(values))
    outside = ["python3", "-c", OUTSIDE, PUBLIC, OUTSIDE_NAME, *map(str, OUTSIDE_PORTS)]
    machine = {
        "lo": [f"{address}/32" for address in (PUBLIC, METADATA, PRIVATE)],
        "uplink": [f"{settings.host_address}/{settings.uplink_prefix}"],
        "workspace": [],
    }
    Yard(folder).create(host_tree(), machine, [_gateway(settings), _desktop(planned.desktops[0])], shlex.join(outside))


def _gateway(settings: Settings) -> Host:
    uplink = [f"Address={settings.uplink_address}/{settings.uplink_prefix}", f"Gateway={settings.host_address}"]
    workspace = [f"Address={settings.workspace_address}/{settings.workspace_prefix}"]
    return Host(
        "gateway",
        (
            Nic("uplink", settings.uplink_mac, "uplink", _network("uplink", uplink)),
            Nic("workspace", settings.workspace_mac, "workspace", _network("workspace", workspace)),
        ),
    )


def _desktop(desktop: DesktopPlan) -> Host:
    lines = ["DHCP=ipv4", "[DHCPv4]", "ClientIdentifier=mac"]
    return Host("desktop", (Nic("eth0", desktop.mac, "workspace", _network("eth0", lines)),))


def _network(nic: str, lines: list[str]) -> str:
    return "\n".join(["[Match]", f"Name={nic}", "[Network]", *lines, ""])


def main(argv: list[str]) -> None:
    """`create FOLDER` (platforms as JSON on standard input) or `destroy FOLDER`."""
    command, folder = argv[0], Path(argv[1])
    if command == "create":
        create(folder, json.loads(sys.stdin.read()))
    else:
        Yard(folder).destroy()


if __name__ == "__main__":
    main(sys.argv[1:])
