"""The machines of a workspace on this machine's hypervisor: their states, and evidence of their failures."""

import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import libvirt

from deskyard.errors import SiteError
from deskyard.plan.workspace import WorkspacePlan
from deskyard.site.libvirt import agent, daemon

CONSOLE_LOGS = Path("/var/log/libvirt/qemu")


def active_domains() -> set[str]:
    """The names of all machines that run."""
    with daemon.connection() as link:
        return {domain.name() for domain in link.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE)}


class LibvirtMachines:
    """Machines of this machine's hypervisor."""

    def __init__(self, plan: WorkspacePlan) -> None:
        self._names = [machine.domain for machine in plan.machines().values()]

    def states(self) -> dict[str, dict[str, Any]]:
        """State and size of each machine that is there."""
        if not daemon.answers():
            return {}
        with daemon.connection() as link:
            return {one.name(): _state(one) for one in link.listAllDomains() if one.name() in self._names}

    def stopped(self) -> list[str]:
        """Machines of the workspace that do not run."""
        running = active_domains()
        return [name for name in self._names if name not in running]

    def host_key(self, domain: str) -> str:
        """The SSH host key of a machine, told by its agent."""
        with daemon.connection() as link:
            try:
                return agent.host_key(link.lookupByName(domain))
            except libvirt.libvirtError as error:
                raise SiteError("machine", domain, str(error), "run ./inv workspace.up") from error

    def keep_evidence(self, folder: Path) -> None:
        """Save console logs and screenshots."""
        with daemon.connection() as link:
            for domain in self._names:
                _copy_console(domain, folder)
                try:
                    _screenshot(link, domain, folder)
                except (libvirt.libvirtError, OSError) as error:
                    (folder / f"{domain}.screenshot-error.txt").write_text(f"{error}\n")


def _state(domain: Any) -> dict[str, Any]:
    active = bool(domain.isActive())
    later = _hardware(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
    now = _hardware(domain.XMLDesc(0)) if active else later
    return {"state": "running" if active else "stopped", "restart_needed": now != later, **later}


def _hardware(xml: str) -> dict[str, int]:
    root = ElementTree.fromstring(xml)
    return {
        "vcpus": int(root.findtext("vcpu") or 0),
        "memory_mib": int(root.findtext("memory") or 0) // 1024,
    }


def _copy_console(domain: str, folder: Path) -> None:
    source = CONSOLE_LOGS / f"{domain}-console.log"
    try:
        shutil.copyfile(source, folder / source.name)
    except OSError as error:
        (folder / source.name).write_text(f"{source}: {error.strerror}\n")


def _screenshot(link: Any, domain: str, folder: Path) -> None:
    stream = link.newStream()
    kind = link.lookupByName(domain).screenshot(stream, 0)
    suffix = {"image/png": "png", "image/x-portable-pixmap": "ppm"}.get(kind, "image")
    with (folder / f"{domain}.{suffix}").open("wb") as file:
        while chunk := stream.recv(1 << 18):
            file.write(chunk)
    stream.finish()
