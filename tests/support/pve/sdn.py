"""Software defined networks: zones, VNets and subnets: as configured, as committed, and as each node runs them.

pve-docs, chapter "Software-Defined Network"; PVE/API2/Network/SDN.pm, .../SDN/{Zones,Vnets,Subnets}.pm, .../Zones/
Content.pm and the zone plugins of pve-network; PVE/API2/Network.pm of pve-manager. Locks (`/cluster/sdn/lock`),
controllers, IPAM, DNS, fabrics and VNet firewalls keep no state.
"""

import asyncio
import copy
from collections.abc import Awaitable, Callable
from ipaddress import ip_network
from typing import Any

from fakepve.model import PveError, TaskError

from tests.support.pve.cluster import Routes
from tests.support.pve.faults import Faults

Values = dict[str, Any]
Objects = dict[str, dict[str, Values]]
LISTED = ("SDN.Audit", "SDN.Allocate")
NOT_OPTIONS = ("zone", "vnet", "subnet", "digest", "delete", "lock-token", "pending", "running")
# Options that a kind of zone must have: sub options of each plugin.
REQUIRED = {"vlan": ("bridge",), "qinq": ("bridge", "tag"), "evpn": ("vrf-vxlan", "controller")}
HIGHEST_TAG = {"vlan": 4096, "vxlan": 16_777_216, "qinq": 4096, "evpn": 16_777_216}


def failed(**fields: str) -> PveError:
    """The 400 of PVE's raise_param_exc."""
    return PveError(400, "Parameter verification failed.", fields)


class SdnApi:
    """Part of the peer: what is configured is in `sdn`, what was committed in `sdn_running`.

    `sdn_on_nodes` holds, for each node that has reloaded, the VNets of which it has a bridge, and `sdn_generated` those
    of which it has the configuration: a node that fails to reload may have the second without the first.
    """

    allowed: Callable[[str, str, str], bool]
    require: Callable[[str, str, str], None]
    need_quorum: Callable[[], None]
    task: Callable[..., Awaitable[str]]
    nodes: dict[str, Any]
    tasks: dict[str, Values]
    faults: Faults
    sdn: Objects
    sdn_running: Objects
    sdn_on_nodes: dict[str, set[str]]
    sdn_reloading: set[str]
    sdn_generated: dict[str, Objects]

    def _routes_sdn(self) -> Routes:
        zones, vnets = "/cluster/sdn/zones", "/cluster/sdn/vnets"
        subnets = vnets + "/{vnet}/subnets"
        return [
            ("PUT", "/cluster/sdn", self._sdn_apply),
            ("GET", "/nodes/{node}/sdn/zones", self._node_zones),
            ("GET", "/nodes/{node}/sdn/zones/{zone}/content", self._zone_content),
            ("GET", zones, self._zones),
            ("POST", zones, self._zone_create),
            ("GET", zones + "/{zone}", self._zone),
            ("PUT", zones + "/{zone}", self._zone_update),
            ("DELETE", zones + "/{zone}", self._zone_delete),
            ("GET", vnets, self._vnets),
            ("POST", vnets, self._vnet_create),
            ("GET", vnets + "/{vnet}", self._vnet),
            ("PUT", vnets + "/{vnet}", self._vnet_update),
            ("DELETE", vnets + "/{vnet}", self._vnet_delete),
            ("GET", subnets, self._subnets),
            ("POST", subnets, self._subnet_create),
            ("GET", subnets + "/{subnet}", self._subnet),
            ("DELETE", subnets + "/{subnet}", self._subnet_delete),
        ]

    def bridges(self, node: str) -> set[str]:
        """Bridges of a node that a VM can be plugged into now: its own, and those of VNets since its last reload."""
        return {"vmbr0", "vmbr1"} | self.sdn_on_nodes.get(node, set())

    async def _sdn_apply(self, _: Values, user: str) -> str:
        """PUT /cluster/sdn: commits what is configured, then a task has each node reload by a task of its own.

        The first task ends OK whatever becomes of the others: it only logs which of them failed.
        """
        self.need_quorum()
        self.sdn_running = copy.deepcopy(self.sdn)
        log: list[str] = []

        async def body() -> None:
            for node in sorted(self.nodes):
                log.append(f"{node}: reloading network config")
                if not await self._reloaded(node):
                    log.append(f"command 'pvesh set /nodes/{node}/network' failed: exit code 255")

        upid = await self.task(sorted(self.nodes)[0], "reloadnetworkall", "", user, body)
        self.tasks[upid]["log"] = log + self.tasks[upid]["log"]
        return upid

    async def _reloaded(self, node: str) -> bool:
        """PUT /nodes/{node}/network, as root and waited for: the configuration is written first, then tried."""
        if not self.nodes[node].get("online", True):
            return False

        async def body() -> None:
            self.sdn_generated[node] = copy.deepcopy(self.sdn_running)
            if self.faults.failing_reloads[node] > 0:
                self.faults.failing_reloads[node] -= 1
                raise TaskError("command 'ifreload -a' failed: exit code 1")
            if node in self.sdn_reloading:
                # ifupdown2/lib/status.py: STATUS_ALREADY_RUNNING.
                raise TaskError("command 'ifreload -a' failed: exit code 89")
            wanted = set(self.sdn_running["vnets"])
            self.sdn_reloading.add(node)
            try:
                await asyncio.sleep(self.faults.slow_reloads)
            finally:
                self.sdn_reloading.remove(node)
            self.sdn_on_nodes[node] = wanted

        upid = await self.task(node, "srvreload", "networking", "root@pam", body)
        return bool(self.tasks[upid].get("exitstatus") == "OK")

    async def _node_zones(self, values: Values, user: str) -> list[Values]:
        """GET /nodes/{node}/sdn/zones: a node whose reload failed has the configuration, and so is `available`."""
        state = "available" if self._generated(values["node"]) else "pending"
        zones = self.sdn_running["zones"]
        return [{"zone": name, "status": state} for name in zones if self._may(user, f"/sdn/zones/{name}")]

    async def _zone_content(self, values: Values, user: str) -> list[Values]:
        """GET /nodes/{node}/sdn/zones/{zone}/content: the committed VNets; `pending` if the node was not reached."""
        self.require(user, f"/sdn/zones/{values['zone']}", "SDN.Audit")
        late = {"status": "pending", "statusmsg": "local sdn network configuration is too old, please reload"}
        state = {"status": "available"} if self._generated(values["node"]) else late
        vnets = self.sdn_running["vnets"].items()
        return [{"vnet": name, **state} for name, vnet in vnets if vnet["zone"] == values["zone"]]

    def _generated(self, node: str) -> bool:
        return self.sdn_generated.get(node) == self.sdn_running

    # What is shown: plain, as run, or with what is yet to be applied.

    def _shown(self, kind: str, values: Values) -> dict[str, Values]:
        if values.get("running"):
            return copy.deepcopy(self.sdn_running[kind])
        if not values.get("pending"):
            return copy.deepcopy(self.sdn[kind])
        names = sorted(self.sdn[kind].keys() | self.sdn_running[kind].keys())
        return {name: pending(self.sdn_running[kind].get(name), self.sdn[kind].get(name)) for name in names}

    def _section(self, kind: str, name: str, values: Values) -> Values:
        shown = self._shown(kind, values)
        if name not in shown:
            raise PveError(500, f"sdn '{name}' does not exist")
        return shown[name]

    def _configured(self, kind: str, name: str) -> Values:
        if name not in self.sdn[kind]:
            raise PveError(500, f"sdn '{name}' does not exist")
        return self.sdn[kind][name]

    def _create(self, kind: str, word: str, name: str, options: Values, check: Callable[[], None]) -> None:
        self.need_quorum()
        fail = f"create sdn {word} object failed: "
        if name in self.sdn[kind]:
            raise PveError(500, f"{fail}sdn {word} object ID '{name}' already defined")
        self.sdn[kind][name] = options
        try:
            check()
        except PveError:
            del self.sdn[kind][name]
            raise

    def _update(self, kind: str, name: str, values: Values, check: Callable[[], None]) -> None:
        self.need_quorum()
        before = copy.deepcopy(self._configured(kind, name))
        changed = self.sdn[kind][name]
        for key in str(values.get("delete") or "").replace(",", " ").split():
            changed.pop(key, None)
        changed.update(options_of(values))
        try:
            check()
        except PveError:
            self.sdn[kind][name] = before
            raise

    # Zones.

    async def _zones(self, values: Values, user: str) -> list[Values]:
        """GET /cluster/sdn/zones: those that the user may see."""
        return [
            {**zone, "zone": name}
            for name, zone in self._shown("zones", values).items()
            if self._may(user, f"/sdn/zones/{name}") and values.get("type") in (None, zone.get("type"))
        ]

    async def _zone(self, values: Values, _: str) -> Values:
        """GET /cluster/sdn/zones/{zone}."""
        return {**self._section("zones", values["zone"], values), "zone": values["zone"]}

    async def _zone_create(self, values: Values, _: str) -> None:
        """POST /cluster/sdn/zones."""
        name = values["zone"]
        self._create("zones", "zone", name, options_of(values), lambda: self._check_zone(name))

    async def _zone_update(self, values: Values, _: str) -> None:
        """PUT /cluster/sdn/zones/{zone}."""
        self._update("zones", values["zone"], values, lambda: self._check_zone(values["zone"]))

    async def _zone_delete(self, values: Values, _: str) -> None:
        """DELETE /cluster/sdn/zones/{zone}: refused while VNets are in it (Zones/Plugin.pm, on_delete_hook)."""
        self.need_quorum()
        name = values["zone"]
        self._configured("zones", name)
        for vnet, options in self.sdn["vnets"].items():
            if options["zone"] == name:
                raise PveError(500, f"delete sdn zone object failed: zone {name} is used by vnet {vnet}")
        del self.sdn["zones"][name]

    def _check_zone(self, name: str) -> None:
        zone = self.sdn["zones"][name]
        for option in REQUIRED.get(zone["type"], ()):
            if option not in zone:
                raise PveError(500, f"create sdn zone object failed: missing value for required option '{option}'")
        if zone["type"] == "vxlan" and ("peers" in zone) == ("fabric" in zone):
            reason = "must have exactly one of peers / fabric defined"
            raise failed(peers=reason, fabric=reason)

    # VNets.

    async def _vnets(self, values: Values, user: str) -> list[Values]:
        """GET /cluster/sdn/vnets: those that the user may see."""
        shown = self._shown("vnets", values).items()
        return [
            {**vnet, "vnet": name} for name, vnet in shown if self._may(user, f"/sdn/zones/{_zone_of(vnet)}/{name}")
        ]

    async def _vnet(self, values: Values, user: str) -> Values:
        """GET /cluster/sdn/vnets/{vnet}."""
        name = values["vnet"]
        vnet = self._section("vnets", name, values)
        if not self._may(user, path := f"/sdn/zones/{_zone_of(vnet)}/{name}"):
            raise PveError(403, f"Permission check failed ({path}, {'|'.join(LISTED)})")
        return {**vnet, "vnet": name}

    async def _vnet_create(self, values: Values, _: str) -> None:
        """POST /cluster/sdn/vnets."""
        name = values["vnet"]
        options = {"type": "vnet", **options_of(values)}
        self._create("vnets", "vnet", name, options, lambda: self._check_vnet(name))

    async def _vnet_update(self, values: Values, user: str) -> None:
        """PUT /cluster/sdn/vnets/{vnet}."""
        self._may_change(user, values["vnet"])
        self._update("vnets", values["vnet"], values, lambda: self._check_vnet(values["vnet"]))

    async def _vnet_delete(self, values: Values, user: str) -> None:
        """DELETE /cluster/sdn/vnets/{vnet}: refused while it has subnets (VnetPlugin.pm, on_delete_hook)."""
        self.need_quorum()
        self._may_change(user, values["vnet"])
        if any(subnet["vnet"] == values["vnet"] for subnet in self.sdn["subnets"].values()):
            raise failed(vnet="Can't delete vnet if subnets exists")
        del self.sdn["vnets"][values["vnet"]]

    def _check_vnet(self, name: str) -> None:
        """Tags: each kind of zone has its rule (Zones/*Plugin.pm, vnet_update_hook)."""
        vnet = self.sdn["vnets"][name]
        zone = self._configured("zones", vnet["zone"])
        tag, kind = vnet.get("tag"), zone["type"]
        if kind == "simple":
            if tag is not None:
                raise failed(tag="vlan tag is not allowed on simple zone")
            return
        if tag is None:
            raise failed(tag=f"missing {kind} tag")
        if int(tag) > HIGHEST_TAG[kind]:
            raise failed(tag=f"{kind} tag max value is {HIGHEST_TAG[kind]}")
        for other, options in self.sdn["vnets"].items():
            same_space = options["zone"] == vnet["zone"] or kind in ("vxlan", "evpn")
            if other != name and same_space and options.get("tag") == tag:
                raise failed(tag=f"{kind} tag {tag} already exist in vnet {other} in zone {options['zone']} ")

    def _may(self, user: str, path: str) -> bool:
        return any(self.allowed(user, path, privilege) for privilege in LISTED)

    def _may_change(self, user: str, vnet: str) -> None:
        zone = self._configured("vnets", vnet)["zone"]
        self.require(user, f"/sdn/zones/{zone}/{vnet}", "SDN.Allocate")

    # Subnets: PVE names them by zone and network.

    async def _subnets(self, values: Values, _: str) -> list[Values]:
        """GET /cluster/sdn/vnets/{vnet}/subnets."""
        shown = self._shown("subnets", values).items()
        return [{**row, "subnet": name} for name, row in shown if values["vnet"] in (row.get("vnet"), _vnet_of(row))]

    async def _subnet(self, values: Values, _: str) -> Values:
        """GET /cluster/sdn/vnets/{vnet}/subnets/{subnet}."""
        return {**self._section("subnets", values["subnet"], values), "subnet": values["subnet"]}

    async def _subnet_create(self, values: Values, user: str) -> None:
        """POST /cluster/sdn/vnets/{vnet}/subnets."""
        self._may_change(user, values["vnet"])
        network, zone = ip_network(values["subnet"]), self.sdn["vnets"][values["vnet"]]["zone"]
        name = f"{zone}-{network.network_address}-{network.prefixlen}"
        options = {**options_of(values), "vnet": values["vnet"], "zone": zone, "cidr": str(network)}
        options.update(network=str(network.network_address), mask=str(network.prefixlen))
        self._create("subnets", "subnet", name, options, lambda: None)

    async def _subnet_delete(self, values: Values, user: str) -> None:
        """DELETE /cluster/sdn/vnets/{vnet}/subnets/{subnet}."""
        self._may_change(user, values["vnet"])
        self._configured("subnets", values["subnet"])
        del self.sdn["subnets"][values["subnet"]]


def options_of(values: Values) -> Values:
    """The parameters that are options of the object."""
    names = set(NOT_OPTIONS) - ({"zone"} if "vnet" in values else set())
    return {key: value for key, value in values.items() if key not in names}


def pending(running: Values | None, config: Values | None) -> Values:
    """What `pending=1` shows: as run, and under `pending` what applying would change (PVE/Network/SDN.pm)."""
    shown = dict(running or {})
    changes: Values = {}
    for key, value in (config or {}).items():
        if key == "type":
            shown[key] = value
        elif shown.get(key) != value:
            changes[key] = value
    if config is not None:
        changes.update({key: "deleted" for key in running or {} if key not in config})
    state = "deleted" if config is None else "new" if running is None else "changed" if changes else None
    if state is not None:
        shown.update(state=state, pending=changes)
    return shown


def _zone_of(vnet: Values) -> str:
    return str(vnet.get("zone") or vnet["pending"]["zone"])


def _vnet_of(subnet: Values) -> str | None:
    found: str | None = subnet.get("pending", {}).get("vnet")
    return found
