"""How a workspace is: the address of its door, its machines, its routes, and what was changed by hand."""

from dataclasses import asdict
from typing import Any

from deskyard.declaration import declaration
from deskyard.declaration.declaration import Declared
from deskyard.engine.backend import machines_of
from deskyard.host.places import places
from deskyard.plan.power import Power
from deskyard.site.libvirt import forward
from deskyard.site.ssh_link import SshLink
from deskyard.workspace import readiness, seating


def status(name: str, *, drift: bool = False) -> dict[str, Any]:
    """How the workspace is: address of the door, machines, routes; with `drift`, what was changed by hand."""
    declared = declaration.read(name)
    plan = declared.plan
    machines = machines_of(plan).states()
    gateway = readiness.ask_of_running(plan, (*plan.desktops, *plan.seats), machines)
    found = state_of(declared, machines, gateway)
    if not drift:
        return found
    # Only who looks for drift waits for the engine.
    from deskyard.engine.stack import WorkspaceStack

    changes = WorkspaceStack(name).changes()
    return {**found, "drift": [{**asdict(change), "of": change.owner} for change in changes]}


def when_up(declared: Declared, gateway: dict[str, Any]) -> dict[str, Any]:
    """The state of a workspace whose desktops answered `gateway` just now: it is asked about seats alone."""
    machines = machines_of(declared.plan).states()
    if seated := readiness.running(declared.plan.seats, machines):
        answers = readiness.ask(declared.plan, seated)["desktops"]
        gateway = {**gateway, "desktops": {**answers, **gateway["desktops"]}}
    return state_of(declared, machines, gateway)


def state_of(declared: Declared, machines: dict[str, dict[str, Any]], gateway: dict[str, Any]) -> dict[str, Any]:
    """The state of a workspace from what its machines and its gateway say."""
    plan, seats = declared.plan, seating.seats_of(declared)
    absent = {"state": "absent", "desired": Power.RUNNING, "restart_needed": False}
    wanted = {domain: machine["desired"] for domain, machine in machines.items()}
    return {
        "workspace": plan.name,
        "site": plan.site,
        "url": plan.gateway.url,
        "ready": readiness.is_ready(gateway, readiness.awake(plan, wanted)),
        # A gateway with an address of its own needs no way through this machine.
        "door_open": plan.gateway.has_own_address or forward.is_open(plan.site, plan.name),
        "certificate_authority": str(places().authority(plan.site)),
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
                "stopped_agent": readiness.stopped_agent(gateway, desktop.name),
            }
            for desktop in plan.desktops
        ],
        "seats": [] if seats is None else seating.rows(declared, seats, gateway["desktops"]),
    }
