"""The machines of a workspace on a cluster: how they are, and what they showed before they failed."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deskyard.errors import SiteError
from deskyard.model.site import Site
from deskyard.plan.proxmox.view import ClusterView, Owner, SeenMachine, read_view
from deskyard.plan.workspace import WorkspacePlan
from deskyard.site.proxmox import listing, sdn, templates
from deskyard.site.proxmox.agent import ClusterAgent
from deskyard.site.proxmox.client import Client, connect
from deskyard.site.proxmox.each import ask_each
from deskyard.site.proxmox.machine import is_running, vm_path
from deskyard.site.proxmox.wiring import wired


def look(
    client: Client, digests: Mapping[str, Sequence[str]], site: str = "", workspace: str | None = None
) -> ClusterView:
    """The cluster as it shows itself now, with what tells the network of a workspace if one is named.

    `digests` are those that a template of an image may have, the best first.
    """
    rows, vnets = listing.resources(client), sdn.vnets(client)
    published = templates.published(rows, client.cluster)
    found = {}
    for image, wanted in digests.items():
        by_digest = (templates.by_node(published, image, digest) for digest in wanted)
        found[image] = next((nodes for nodes in by_digest if nodes), {})
    view = read_view(rows, vnets, found)
    return view if workspace is None else wired(client, view, site, workspace)


def runs(site: Site, workspace: str, machine: str) -> bool:
    """Whether a machine of a workspace runs, asked by names alone."""
    client = connect(site)
    view = read_view(client.get("cluster/resources", type="vm"), (), {})
    found = view.machine_of(Owner(site.name, workspace, machine))
    return found is not None and is_running(client, found.node, found.vm_id)


class ClusterMachines:
    """What status and readiness ask of the machines of one workspace."""

    def __init__(self, plan: WorkspacePlan, site: Site) -> None:
        self._plan, self._client = plan, connect(site)
        view = read_view(self._client.get("cluster/resources", type="vm"), (), {})
        named = {name: machine.domain for name, machine in plan.machines().items()}
        mine = {name: view.machine_of(Owner(plan.site, plan.name, name)) for name in named}
        self._found = {named[name]: machine for name, machine in mine.items() if machine is not None}
        self._domains = list(named.values())

    def states(self) -> dict[str, dict[str, Any]]:
        """State and size of each machine that is there."""
        return {domain: state for (domain, _), state in ask_each(self._found.items(), lambda one: self._state(one[1]))}

    def stopped(self) -> list[str]:
        """Machines of the workspace that do not run."""
        asked = ask_each(self._found.items(), lambda one: self._runs(one[1]))
        running = {domain for (domain, _), runs in asked if runs}
        return [domain for domain in self._domains if domain not in running]

    def host_key(self, domain: str) -> str:
        """The SSH host key of a machine, told by its agent."""
        machine = self._found.get(domain)
        if machine is None:
            raise SiteError("machine", domain, "is not in the cluster", "run ./inv workspace.up")
        return ClusterAgent(self._client, machine.node, machine.vm_id).host_key()

    def keep_evidence(self, folder: Path) -> None:
        """Save what the API tells: configuration, state and the last tasks. Console and screen need a node's shell."""
        for domain, machine in self._found.items():
            path = vm_path(machine.node, machine.vm_id)
            answers = {}
            for name, place, params in (
                ("config", f"{path}/config", {}),
                ("status", f"{path}/status/current", {}),
                ("tasks", f"nodes/{machine.node}/tasks", {"vmid": machine.vm_id, "limit": 20}),
            ):
                try:
                    answers[name] = self._client.get(place, **params)
                except SiteError as error:
                    answers[name] = str(error)
            (folder / f"{domain}.json").write_text(json.dumps(answers, indent=2, sort_keys=True) + "\n")

    def _runs(self, machine: SeenMachine) -> bool:
        return is_running(self._client, machine.node, machine.vm_id)

    def _state(self, machine: SeenMachine) -> dict[str, Any]:
        running = self._runs(machine)
        # Each option as it is, and as it will be after the next start.
        rows = self._client.get(f"{vm_path(machine.node, machine.vm_id)}/pending")
        options = {row.get("key"): row.get("pending", row.get("value")) for row in rows}
        waits = any(row.get("key") in ("cores", "memory") and "pending" in row for row in rows)
        return {
            "state": "running" if running else "stopped",
            "restart_needed": running and waits,
            "vcpus": int(options.get("cores") or 1) * int(options.get("sockets") or 1),
            "memory_mib": int(str(options.get("memory") or 0)),
            "node": machine.node,
            "vm_id": machine.vm_id,
        }
