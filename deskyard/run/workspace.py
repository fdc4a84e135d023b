"""What can be done with a workspace: preview, up, status, destroy."""

import contextlib
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

import libvirt

from deskyard.engine.change import Change
from deskyard.errors import ConfigError, SiteError
from deskyard.model.site import Site
from deskyard.plan.workspace import WorkspacePlan
from deskyard.proxmox import retry
from deskyard.run import (
    certificate_authority,
    customise_delivery,
    declaration,
    forward,
    hypervisor,
    key_delivery,
    leftovers,
    network_guard,
    preflight,
    readiness,
)
from deskyard.run.accelerator import accelerator
from deskyard.run.customise_delivery import How
from deskyard.run.declaration import Declared
from deskyard.run.forward import Forward
from deskyard.run.machines import machines_of
from deskyard.run.places import places
from deskyard.run.progress import Timings, say, step
from deskyard.run.pulumi_stack import WorkspaceStack
from deskyard.run.ssh_link import SshLink

T = TypeVar("T")
TRIES, PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 4, 5.0, 20.0


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
    """Bring a workspace to what is declared, wait until every route of every desktop answers, deliver keys, customise.

    `on_route` is told each desktop and route when it first answers.

    Desktops that were taken out of the declaration are only removed, disk and all, if `remove` names them.
    """
    with step("check", timings):
        declared = _checked(name)
        stack = WorkspaceStack(name)
        if declared.on_cluster is not None:
            leftovers.clear(declared.site, name, stack.on_cluster())
        _release(declared, stack, remove)
        steps = _again(declared.site, stack, stack.changes)
        _guard_data(name, steps, remove)
        network_guard.check(declared, stack, steps)
        keys = key_delivery.wanted(declared, stack)
        customised = customise_delivery.wanted(declared)
    if steps:
        with step("machines", timings):
            _again(declared.site, stack, stack.up)
        if declared.on_cluster is not None:
            # Somebody may have been faster with an id, and so with an address.
            declared = declaration.read(name)
    with step("routes", timings):
        _connect(declared)
        gateway = readiness.wait(declared.plan, on_route=on_route)
    if keys is not None:
        with step("keys", timings):
            key_delivery.deliver(declared.plan, keys)
    if customised:
        with step("customise", timings):
            customise_delivery.apply(declared.plan, customised, How())
    return _state(declared.plan, machines_of(declared.plan).states(), gateway)


def status(name: str, *, drift: bool = False) -> dict[str, Any]:
    """How the workspace is: address of the door, machines, routes; with `drift`, what was changed by hand."""
    plan = declaration.read(name).plan
    machines = machines_of(plan).states()
    gateway = readiness.silent("its machine does not run")
    if machines.get(plan.gateway.machine.domain, {}).get("state") == "running":
        gateway = readiness.ask(plan)
    found = _state(plan, machines, gateway)
    if not drift:
        return found
    changes = WorkspaceStack(name).changes()
    return {**found, "drift": [{**asdict(change), "of": change.owner} for change in changes]}


def _state(plan: WorkspacePlan, machines: dict[str, dict[str, Any]], gateway: dict[str, Any]) -> dict[str, Any]:
    absent = {"state": "absent", "restart_needed": False}
    return {
        "workspace": plan.name,
        "site": plan.site,
        "url": plan.gateway.url,
        "ready": bool(gateway.get("ready")),
        # A gateway with an address of its own needs no way through this machine.
        "door_open": plan.gateway.has_own_address or forward.is_open(plan.site, plan.name),
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
        if site.backend == "libvirt":
            hypervisor.up(accelerator(site.accelerator))
            forward.close(site.name, name)
            _pull_plugs(name)
        else:
            leftovers.clear(site, name, stack.on_cluster())
        _again(site, stack, stack.destroy)
    else:
        say(f"    workspace {name} has no machines")
    shutil.rmtree(places().workspace(site.name, name), ignore_errors=True)


def _checked(name: str) -> Declared:
    declared = declaration.read(name)
    if declared.on_cluster is not None:
        preflight.check_on_cluster(declared)
        return declared
    preflight.check(declared)
    hypervisor.up(declared.plan.accelerator)
    preflight.check_with_hypervisor(declared)
    return declared


def _guard_data(name: str, steps: Sequence[Change], remove: Sequence[str]) -> None:
    """Stop a run that would take a desktop's disk away, unless that desktop was named."""
    lost = sorted({change.desktop for change in steps if change.loses_data and change.desktop is not None})
    unnamed = [desktop for desktop in lost if desktop not in remove]
    if unnamed:
        reason = f"this run would delete the disk of: {', '.join(unnamed)}"
        remedy = f"declare it again, or name it: ./inv workspace.up {name} --remove {unnamed[0]}"
        raise ConfigError("desktops", None, reason, remedy)


def _again(site: Site, stack: WorkspaceStack, work: Callable[[], T]) -> T:
    """Do it; on a cluster again after what passes: a lock that was not had, a node that was away, an id just taken.

    Each time the cluster is looked at and planned on anew, and what the last try left is cleared.
    """
    pauses = retry.pauses(PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, TRIES if site.backend == "proxmox" else 1)
    again = False
    while True:
        try:
            if again:
                leftovers.clear(site, stack.name, stack.on_cluster())
            return work()
        except SiteError as error:
            pause = next(pauses, None)
            if pause is None or not retry.passes(error.reason):
                raise
            say(f"    trying again in some seconds: {error.reason.strip().splitlines()[-1][:200]}")
        # Clients that failed in the same moment, for the same lock, do not come again in the same moment.
        time.sleep(pause * random.uniform(1, 1.5))
        again = True


def _release(declared: Declared, stack: WorkspaceStack, remove: Sequence[str]) -> None:
    """Lift the protection of the disks that the user named; one that an interrupted run has removed is no mistake."""
    if not remove:
        return
    declared_names = {desktop.name for desktop in declared.workspace.desktops}
    known = stack.desktops_with_disks()
    for desktop in remove:
        if desktop in declared_names:
            raise ConfigError("--remove", desktop, "is still declared", "take it out of the declaration first")
    for desktop in remove:
        if desktop in known:
            stack.unprotect(desktop)
        else:
            say(f"    --remove {desktop}: there is no such desktop (any more)")


def _connect(declared: Declared) -> None:
    plan = declared.plan
    desktops = [(desktop.name, desktop.address) for desktop in plan.desktops]
    SshLink(plan.site, plan.name).write_config(plan.gateway.uplink_address, desktops)
    if declared.on_cluster is not None:
        return
    Forward(plan.site, plan.name, plan.gateway.listen, plan.gateway.port, plan.gateway.uplink_address).open()


def _pull_plugs(name: str) -> None:
    """Stop the machines at once: their disks go too, so there is nothing to shut down for."""
    with hypervisor.connection() as link:
        for domain in link.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE):
            if domain.name().startswith(f"deskyard-{name}."):
                with contextlib.suppress(libvirt.libvirtError):
                    domain.destroy()


def require_running(plan: WorkspacePlan, desktop: str | None = None) -> None:
    """Raise `SiteError` unless the gateway runs, and with it the desktop if one is named."""
    dead = declaration.read_site(plan.site).backend == "libvirt" and not hypervisor.answers()
    stopped = [] if dead else readiness.stopped_machines(plan)
    if dead or plan.gateway.machine.domain in stopped:
        raise SiteError("workspace", plan.name, "is not up", f"run ./inv workspace.up {plan.name}")
    if desktop is not None and plan.desktop(desktop).machine.domain in stopped:
        raise SiteError("desktop", f"{plan.name}/{desktop}", "does not run", f"run ./inv workspace.up {plan.name}")
