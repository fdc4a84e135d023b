"""The cluster as a whole: what nodes and storages can hold, the time that tasks take."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from fakepve.server import USER, params

from tests.support.pve.faults import Faults

GIB = 1 << 30
Routes = list[tuple[str, str, Callable[[dict[str, Any], str], Awaitable[Any]]]]


@dataclass(frozen=True)
class Capacity:
    """What a node has."""

    cpus: int = 16
    memory: int = 64 * GIB


class ClusterApi:
    """Part of the peer: replaces constants of fakepve by what follows from its state."""

    vms: list[Any]
    storages: dict[str, dict[str, Any]]
    nodes: dict[str, dict[str, Any]]
    time_scale: float
    faults: Faults
    capacities: dict[str, Capacity]
    tasklog: list[dict[str, Any]]
    shown_last: dict[int, dict[str, Any]]
    allowed: Callable[[str, str, str], bool]
    _verify: Callable[..., dict[str, Any]]
    _task_view: Callable[..., dict[str, Any]]
    _task_owner: Callable[[str, dict[str, Any]], bool]

    def _routes_node_status(self) -> Routes:
        return [("GET", "/nodes/{node}/status", self._node_status)]

    async def _node_status(self, values: dict[str, Any], _: str) -> dict[str, Any]:
        """GET /nodes/{node}/status: memory and processors (PVE/API2/Nodes.pm)."""
        capacity, used = self.capacities[values["node"]], self._memory_in_use(values["node"])
        memory = {"total": capacity.memory, "used": used, "free": capacity.memory - used}
        root = {"total": 64 * GIB, "used": 4 * GIB, "avail": 60 * GIB, "free": 60 * GIB}
        return {
            "memory": {**memory, "available": memory["free"]},
            "cpuinfo": {"cpus": capacity.cpus, "cores": capacity.cpus, "sockets": 1},
            "rootfs": root,
            "uptime": 3600,
            "cpu": 0.02,
            "pveversion": "pve-manager/9.0.10/0000000000000000",
        }

    def _memory_in_use(self, node: str) -> int:
        running = (vm for vm in self.vms if vm.node == node and vm.status == "running")
        return sum(int(vm.config.get("memory", 512)) << 20 for vm in running)

    async def _task_list(self, request: web.Request) -> web.Response:
        """GET /nodes/{node}/tasks: that run or have ended, of a kind; the latest first (PVE/API2/Tasks.pm)."""
        asked = self._verify(request, await params(request))
        node, user = request.match_info["node"], request[USER]
        audit = self.allowed(user, f"/nodes/{node}", "Sys.Audit")
        sources = {"archive": {"stopped"}, "active": {"running"}}.get(asked.get("source", "archive"))
        found = [
            self._task_view(task, True)
            for task in reversed(self.tasklog)
            if task["node"] == node
            and (audit or self._task_owner(user, task))
            and asked.get("typefilter") in (None, task["type"])
            and str(asked.get("vmid") or task["id"]) == task["id"]
            and (sources is None or task["status"] in sources)
        ]
        start = asked.get("start", 0)
        return web.json_response({"data": found[start : start + asked.get("limit", 50)]})

    async def _nodes(self, request: web.Request) -> web.Response:
        """GET /nodes: with each node's own capacity."""
        return self._with_capacities(await super()._nodes(request))  # type: ignore[misc]

    async def _resources(self, request: web.Request) -> web.Response:
        """GET /cluster/resources: with each node's own capacity, and of young machines what is known of them yet."""
        answer = self._with_capacities(await super()._resources(request))  # type: ignore[misc]
        data = json.loads(answer.text or "")["data"]
        return web.json_response({"data": [self._known_yet(row) for row in data]})

    def _known_yet(self, row: dict[str, Any]) -> dict[str, Any]:
        """Locked by a clone: id and node alone. Then tags and pool; the rest comes with a round of pvestatd.

        Until then an id that was used before shows what it had. Observed on Proxmox VE 8.4.21. A round is counted here
        in listings since the machine, or template, was made.
        """
        if row.get("type") != "qemu":
            return row
        vm = next(vm for vm in self.vms if vm.vmid == row["vmid"])
        kind = "template" if vm.template else "machine"
        seen = vars(vm).setdefault("listings", {})
        seen[kind] = seen.get(kind, 0) + 1
        late = seen[kind] <= self.faults.late_listings
        if row.get("lock") in ("clone", "create"):
            return {key: row[key] for key in ("id", "type", "node", "vmid", "lock")} | {"status": "unknown"}
        if late and kind == "template" and seen.get("machine", 0) > self.faults.late_listings:
            return {**row, "template": 0}
        if late:
            now = {key: value for key, value in row.items() if key in ("id", "type", "node", "vmid", "tags", "pool")}
            before = self.shown_last.get(row["vmid"], {"status": "unknown"})
            return {**{key: value for key, value in before.items() if key not in ("tags", "pool", "lock")}, **now}
        self.shown_last[row["vmid"]] = row
        return row

    def _with_capacities(self, answer: web.Response) -> web.Response:
        data = json.loads(answer.text or "")["data"]
        for item in data:
            if item.get("type") == "node" and item["status"] == "online":
                capacity = self.capacities[item["node"]]
                used = self._memory_in_use(item["node"])
                item.update(maxcpu=capacity.cpus, maxmem=capacity.memory, mem=used)
        return web.json_response({"data": data})

    def _storage_resource(self, node: str, name: str) -> dict[str, Any] | None:
        """A storage in /cluster/resources: `disk` and `maxdisk` are what its status says (PVE/API2Tools.pm)."""
        item: dict[str, Any] | None = super()._storage_resource(node, name)  # type: ignore[misc]
        if item is not None:
            total, used, _ = self._space(self.storages[name])  # type: ignore[attr-defined]
            item.update(disk=used, maxdisk=total)
        return item

    async def task(
        self, node: str, ttype: str, tid: object, user: str, body: Callable[[], Awaitable[Any]], **rest: Any
    ) -> str:
        """A worker; slow ones go on behind the answer, as all do on a real node."""
        seconds = self.faults.slow_tasks.get(ttype, 0.0)

        async def work() -> Any:
            await asyncio.sleep(seconds)
            note = await body()
            if ttype in self.faults.lost_disks and (vm := rest.get("vm")):
                for store in self.storages.values():
                    volumes = store.get("volumes", {})
                    for lost in [name for name, volume in volumes.items() if volume.get("vmid") == vm.vmid]:
                        del volumes[lost]
            return note

        before = self.time_scale
        # fakepve does not wait for a task where its time passes at all.
        self.time_scale = before or float(seconds > 0)
        try:
            upid: str = await super().task(node, ttype, tid, user, work, **rest)  # type: ignore[misc]
        finally:
            self.time_scale = before
        return upid
