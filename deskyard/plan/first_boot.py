"""The data of a machine's first boot (cloud-init, NoCloud). Holds no secret."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deskyard.plan.account import MANAGER
from deskyard.plan.names import short_id
from deskyard.plan.workspace import DesktopPlan, GatewayPlan


@dataclass(frozen=True)
class FirstBoot:
    """The three documents of a NoCloud seed."""

    meta_data: dict[str, Any]
    user_data: dict[str, Any]
    network_config: dict[str, Any]


def desktop_first_boot(desktop: DesktopPlan, management_key: str) -> FirstBoot:
    """A desktop asks the gateway for its address; its NIC is called `workspace`."""
    network = {"workspace": {**_nic(desktop.mac, "workspace"), "dhcp4": True}}
    # The instance stays the same whatever changes here: a desktop is set up once and then belongs to its user.
    seed = _first_boot(desktop.machine.domain, desktop.machine.hostname, management_key, network)
    # Its host keys are on its volume of /home, and outlive the system that reads this.
    seed.user_data["ssh_deletekeys"] = False
    return seed


def gateway_first_boot(gateway: GatewayPlan, management_key: str) -> FirstBoot:
    """A gateway has fixed addresses on its NICs `uplink` and `workspace`."""
    settings = gateway.settings
    uplink = {
        **_nic(gateway.uplink_mac, "uplink"),
        "dhcp4": False,
        "addresses": [f"{settings.uplink_address}/{settings.uplink_prefix}"],
        "routes": [{"to": "0.0.0.0/0", "via": settings.host_address}],
        "nameservers": {"addresses": list(settings.resolvers)},
    }
    workspace = {
        **_nic(gateway.workspace_mac, "workspace"),
        "dhcp4": False,
        "addresses": [f"{settings.workspace_address}/{settings.workspace_prefix}"],
    }
    # Other addresses make another instance: cloud-init then sets the network up anew.
    addresses = short_id(settings.uplink_address, settings.workspace_address, settings.host_address)
    instance = f"{gateway.machine.domain}-{addresses}"
    return _first_boot(instance, gateway.machine.hostname, management_key, {"uplink": uplink, "workspace": workspace})


def _nic(mac: str, name: str) -> dict[str, Any]:
    return {"match": {"macaddress": mac}, "set-name": name, "dhcp6": False, "accept-ra": False}


def _first_boot(instance: str, hostname: str, management_key: str, network: dict[str, Any]) -> FirstBoot:
    manager = {
        "name": MANAGER,
        "gecos": "Deskyard management",
        "shell": "/bin/bash",
        "lock_passwd": True,
        "sudo": "ALL=(ALL) NOPASSWD:ALL",
        "ssh_authorized_keys": [management_key],
    }
    user_data = {
        "hostname": hostname,
        "manage_etc_hosts": True,
        "users": [manager],
        "ssh_pwauth": False,
        "ssh_deletekeys": True,
        "ssh_genkeytypes": ["ed25519"],
        "package_update": False,
    }
    return FirstBoot(
        meta_data={"instance-id": instance, "local-hostname": hostname},
        user_data=user_data,
        network_config={"version": 2, "ethernets": network},
    )


@dataclass(frozen=True)
class NamedNic:
    """A NIC of a gateway by the name that all its rules use."""

    name: str
    mac: str
    address: str
    router: str | None = None
    resolvers: tuple[str, ...] = ()


def interface_files(nics: Sequence[NamedNic]) -> str:
    """A script that names NICs and keeps cloud-init from naming them otherwise; in force after a restart.

    For hypervisors whose own first boot cannot name NICs. It can run any number of times.
    """
    files = {"/etc/cloud/cloud.cfg.d/99-deskyard-network.cfg": "network: {config: disabled}\n"}
    for nic in nics:
        match = f"[Match]\nMACAddress={nic.mac}\n"
        lines = [match, "[Network]", f"Address={nic.address}", "LinkLocalAddressing=no", "IPv6AcceptRA=no"]
        lines += [f"Gateway={nic.router}"] if nic.router else []
        lines += [f"DNS={resolver}" for resolver in nic.resolvers]
        files[f"/etc/systemd/network/10-deskyard-{nic.name}.link"] = f"{match}\n[Link]\nName={nic.name}\n"
        files[f"/etc/systemd/network/10-deskyard-{nic.name}.network"] = "\n".join(lines) + "\n"
    writes = [f"printf %s {shlex.quote(text)} > {path}" for path, text in files.items()]
    # What cloud-init wrote; beside it the image has folders, 10-cloud-init-NAME.network.d.
    written = [f"/etc/systemd/network/10-cloud-init-*.{kind}" for kind in ("network", "link")]
    return "\n".join(["set -e", *writes, f"rm -f {' '.join(written)}", "sync"]) + "\n"
