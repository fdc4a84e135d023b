"""The machines of a workspace on a cluster: how they are, and what they showed before they failed."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deskyard.errors import SiteError
from deskyard.model.site import Site
from deskyard.plan.cluster import ClusterView, read_view
from deskyard.plan.workspace import WorkspacePlan
from deskyard.proxmox import sdn, templates
from deskyard.proxmox.client import Client, connect
from deskyard.proxmox.machine import vm_path
from deskyard.run.cluster_agent import ClusterAgent


def look(client: Client, digests: Mapping[str, Sequence[str]]) -> ClusterView:
    """The cluster as it shows itself now; `digests` are those that a template of an image may have, the best first."""
    rows, vnets = client.get("cluster/resources"), sdn.vnets(client)
    published = templates.published(rows, client.cluster)
    found = {}
    for image, wanted in digests.items():
        by_digest = (templates.by_node(published, image, digest) for digest in wanted)
        found[image] = next((nodes for nodes in by_digest if nodes), {})
    return read_view(rows, vnets, found)


class ClusterMachines:
    """What status and readiness ask of the machines of one workspace."""

    def __init__(self, plan: WorkspacePlan, site: Site) -> None:
        self._plan, self._client = plan, connect(site)
        view = read_view(self._client.get("cluster/resources", type="vm"), (), {})
        mine = {one.name.partition(".")[0]: one for one in view.machines_of(plan.site, plan.name)}
        named = {name: machine.domain for name, machine in plan.machines().items()}
        self._found = {named[name]: machine for name, machine in mine.items() if name in named}
        self._domains = list(named.values())

    def states(self) -> dict[str, dict[str, Any]]:
        """State and size of each machine that is there."""
        return {domain: self._state(domain) for domain in self._found}

    def stopped(self) -> list[str]:
        """Machines of the workspace that do not run."""
        return [domain for domain in self._domains if domain not in self._found or not self._found[domain].running]

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
            told = {}
            for name, place, params in (
                ("config", f"{path}/config", {}),
                ("status", f"{path}/status/current", {}),
                ("tasks", f"nodes/{machine.node}/tasks", {"vmid": machine.vm_id, "limit": 20}),
            ):
                try:
                    told[name] = self._client.get(place, **params)
                except SiteError as error:
                    told[name] = str(error)
            (folder / f"{domain}.json").write_text(json.dumps(told, indent=2, sort_keys=True) + "\n")

    def _state(self, domain: str) -> dict[str, Any]:
        machine = self._found[domain]
        path = vm_path(machine.node, machine.vm_id)
        config = self._client.get(f"{path}/config")
        pending = self._client.get(f"{path}/pending")
        waits = any(row.get("key") in ("cores", "memory") and "pending" in row for row in pending)
        return {
            "state": "running" if machine.running else "stopped",
            "restart_needed": machine.running and waits,
            "vcpus": int(config.get("cores") or 1) * int(config.get("sockets") or 1),
            "memory_mib": int(str(config.get("memory") or 0)),
            "node": machine.node,
            "vm_id": machine.vm_id,
        }
