"""What can be done with a workspace: preview, up, status, destroy."""

import contextlib
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any
from xml.etree import ElementTree

import libvirt

from deskyard.errors import ConfigError, SiteError
from deskyard.plan.workspace import WorkspacePlan
from deskyard.run import certificate_authority, declaration, forward, hypervisor, preflight, readiness
from deskyard.run.accelerator import accelerator
from deskyard.run.declaration import Declared
from deskyard.run.forward import Forward
from deskyard.run.places import places
from deskyard.run.progress import Timings, say, step
from deskyard.run.pulumi_stack import Change, WorkspaceStack
from deskyard.run.ssh_link import SshLink


def preview(name: str) -> dict[str, Any]:
    """What `up` would change: counts by operation, and each step."""
    declared = _checked(name)
    steps = WorkspaceStack(name).preview()
    counts = Counter(change.operation for change in steps)
    return {
        "workspace": declared.workspace.name,
        "changes": dict(counts),
        "steps": [asdict(change) for change in steps if change.changes_something],
    }


def up(
    name: str,
    timings: Timings | None = None,
    remove: Sequence[str] = (),
    on_route: Callable[[str, str], None] | None = None,
) -> dict[str, Any]:
    """Bring a workspace to what is declared, and wait until every route of every desktop answers.

    `on_route` is told each desktop and route when it first answers.

    Desktops that were taken out of the declaration are only removed, disk and all, if `remove` names them.
    """
    with step("check", timings):
        declared = _checked(name)
        stack = WorkspaceStack(name)
        _release(declared, stack, remove)
        steps = [change for change in stack.preview() if change.changes_something]
        _guard_data(name, steps, remove)
    if steps:
        with step("machines", timings):
            stack.up()
    with step("routes", timings):
        _connect(declared)
        gateway = readiness.wait(declared.plan, on_route=on_route)
    return _state(declared.plan, _machine_states(declared.plan), gateway)


def status(name: str) -> dict[str, Any]:
    """How the workspace is: address of the door, machines, routes."""
    plan = declaration.read(name).plan
    machines = _machine_states(plan) if hypervisor.answers() else {}
    gateway: dict[str, Any] = {
        "ready": False,
        "gateway_ready": False,
        "error": "its machine does not run",
        "desktops": {},
    }
    if machines.get(plan.gateway.machine.domain, {}).get("state") == "running":
        gateway = readiness.ask(plan)
    return _state(plan, machines, gateway)


def _state(plan: WorkspacePlan, machines: dict[str, dict[str, Any]], gateway: dict[str, Any]) -> dict[str, Any]:
    absent = {"state": "absent", "restart_needed": False}
    return {
        "workspace": plan.name,
        "site": plan.site,
        "url": plan.gateway.url,
        "ready": bool(gateway.get("ready")),
        "door_open": forward.is_open(plan.site, plan.name),
        "certificate_authority": str(certificate_authority.certificate_file(plan.site)),
        "ssh_config": str(SshLink(plan.site, plan.name).config),
        "gateway": {
            **machines.get(plan.gateway.machine.domain, absent),
            "ready": bool(gateway.get("gateway_ready")),
            "error": gateway.get("error"),
            "services": gateway.get("services", {}),
        },
        "desktops": [
            {
                "name": desktop.name,
                "tier": desktop.tier,
                "address": desktop.address,
                **machines.get(desktop.machine.domain, absent),
                "routes": gateway["desktops"].get(desktop.name, {}),
            }
            for desktop in plan.desktops
        ],
    }


def destroy(name: str) -> None:
    """Remove a workspace with all its desktops and their data. The declaration stays."""
    stack = WorkspaceStack(name)
    workspace = declaration.read_workspace(name)
    site = declaration.read_site(workspace.site)
    if stack.exists():
        stack.check_passphrase()
        hypervisor.up(accelerator(site.accelerator))
        forward.close(site.name, name)
        _pull_plugs(name)
        stack.destroy()
    else:
        say(f"    workspace {name} has no machines")
    shutil.rmtree(places().workspace(site.name, name), ignore_errors=True)


def _checked(name: str) -> Declared:
    declared = declaration.read(name)
    preflight.check(declared)
    hypervisor.up(declared.plan.accelerator)
    preflight.check_with_hypervisor(declared)
    return declared


def _guard_data(name: str, steps: Sequence[Change], remove: Sequence[str]) -> None:
    """Stop a run that would take a desktop's disk away, unless that desktop was named."""
    prefix = f"{name}-desktop-"
    lost = sorted({change.name.removeprefix(prefix).removesuffix("-disk") for change in steps if change.loses_data})
    unnamed = [desktop for desktop in lost if desktop not in remove]
    if unnamed:
        reason = f"this run would delete the disk of: {', '.join(unnamed)}"
        remedy = f"declare it again, or name it: ./inv workspace.up {name} --remove {unnamed[0]}"
        raise ConfigError("desktops", None, reason, remedy)


def _release(declared: Declared, stack: WorkspaceStack, remove: Sequence[str]) -> None:
    """Lift the protection of the disks that the user named."""
    if not remove:
        return
    declared_names = {desktop.name for desktop in declared.workspace.desktops}
    known = stack.desktops_with_disks()
    for desktop in remove:
        if desktop in declared_names:
            raise ConfigError("--remove", desktop, "is still declared", "take it out of the declaration first")
        if desktop not in known:
            raise ConfigError("--remove", desktop, "is no desktop of this workspace", "check the name")
    for desktop in remove:
        stack.unprotect(desktop)


def _connect(declared: Declared) -> None:
    plan = declared.plan
    desktops = [(desktop.name, desktop.address) for desktop in plan.desktops]
    SshLink(plan.site, plan.name).write_config(plan.gateway.uplink_address, desktops)
    Forward(plan.site, plan.name, plan.gateway.listen, plan.gateway.port, plan.gateway.uplink_address).open()


def _machine_states(plan: WorkspacePlan) -> dict[str, dict[str, Any]]:
    names = [plan.gateway.machine.domain, *(desktop.machine.domain for desktop in plan.desktops)]
    states: dict[str, dict[str, Any]] = {}
    with hypervisor.connection() as link:
        for domain in link.listAllDomains():
            if domain.name() in names:
                states[domain.name()] = _machine_state(domain)
    return states


def _machine_state(domain: Any) -> dict[str, Any]:
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


def _pull_plugs(name: str) -> None:
    """Stop the machines at once: their disks go too, so there is nothing to shut down for."""
    with hypervisor.connection() as link:
        for domain in link.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE):
            if domain.name().startswith(f"deskyard-{name}."):
                with contextlib.suppress(libvirt.libvirtError):
                    domain.destroy()


def require_running(plan: WorkspacePlan) -> None:
    """Raise `SiteError` unless the gateway runs."""
    if not hypervisor.answers() or plan.gateway.machine.domain in readiness.stopped_machines(plan):
        raise SiteError("workspace", plan.name, "is not up", f"run ./inv workspace.up {plan.name}")
