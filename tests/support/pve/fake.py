"""fakepve with the gaps closed that our work would fall into; each part says which behaviour of PVE it stands for."""

from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from fakepve import FakePve, shapes
from fakepve.server import API, USER, params

from tests.support.pve.access import AccessApi
from tests.support.pve.backup_server import BackupServerApi
from tests.support.pve.backups import BackupApi
from tests.support.pve.calls import Calls, redacted
from tests.support.pve.cluster import GIB, Capacity, ClusterApi
from tests.support.pve.disks import DiskApi
from tests.support.pve.faults import Faults
from tests.support.pve.firewall import FirewallApi
from tests.support.pve.guests import Guest, GuestApi
from tests.support.pve.moved_disks import MovedDiskApi
from tests.support.pve.power import PowerApi
from tests.support.pve.sdn import SdnApi
from tests.support.pve.snapshots import SnapshotApi

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
# Paths with these take slashes; a slash at their end is theirs.
OPEN_ENDED = ("{tail}", "{volume}", "{cidr}", "{poolid}")


class Fake(  # type: ignore[misc]
    BackupApi,
    BackupServerApi,
    SnapshotApi,
    SdnApi,
    AccessApi,
    PowerApi,
    GuestApi,
    MovedDiskApi,
    DiskApi,
    FirewallApi,
    ClusterApi,
    FakePve,  # type: ignore[misc]
):
    """A cluster of nodes pve1 to pveN with the storages `local`, `local-lvm` and, on all nodes, `shared`."""

    def __init__(self, nodes: int = 1, capacity: Capacity | None = None) -> None:
        super().__init__(user="root@pam", password="secret", host="127.0.0.1", port=0)
        self.nodes = {f"pve{number}": {"online": True} for number in range(1, nodes + 1)}
        self.capacities = dict.fromkeys(self.nodes, capacity or Capacity())
        self.storages = {
            "local": storage_of("dir", "iso,vztmpl,import,backup", path="/var/lib/vz"),
            "local-lvm": storage_of("lvmthin", "images,rootdir", vgname="pve", thinpool="data"),
            "shared": storage_of("nfs", "images,iso,import", path="/mnt/pve/shared", shared=1, server="192.0.2.9"),
        }
        # A body may come as slowly as a busy machine sends it.
        self.body_timeout = 0
        self.calls = Calls()
        self.faults = Faults()
        self.answerer: Guest | None = None
        self.clocks, self.halted, self.clock_answers, self.save_error = {}, {}, [], ""
        self.ha_wishes = {}
        self.sdn = {"zones": {}, "vnets": {}, "subnets": {}}
        self.sdn_running = {"zones": {}, "vnets": {}, "subnets": {}}
        self.shown_last = {}
        self.came_back, self.rollback_refusal = {}, ""
        self.backup_faults, self.backup_bytes, self.archives = set(), 3 << 20, {}
        self.sdn_on_nodes, self.sdn_generated, self.sdn_reloading = {}, {}, set()
        # Not None: what anybody but root may do is checked.
        self.acl = {}
        self.accounts = {"root@pam": {}}
        self.tokens = {}
        self.groups = {}
        self.roles = {name: set(held) for name, held in shapes.ROLES.items()}

    def _build_app(self) -> web.Application:
        """Paths with a slash at their end are the same ones (PVE::RESTHandler, find_handler, takes empty parts off)."""
        app: web.Application = super()._build_app()
        for resource in list(app.router.resources()):
            if not any(word in resource.canonical for word in OPEN_ENDED):
                for route in resource:
                    app.router.add_route(route.method, resource.canonical + "/", route.handler)
        app.middlewares.insert(0, self._watch)
        return app

    @web.middleware
    async def _watch(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Note each call, and let go wrong what is to go wrong with it."""
        call = self.calls.begin(request.method, request.path.removeprefix(API))
        call.parameters = redacted(call.path, dict(await params(request)))
        await self.faults.silence(call)
        if self.faults.on_call is not None:
            self.faults.on_call(call)
        # Taken out, so that none is left for a call that gets this number later.
        cut = self.faults.cuts.pop(call.number, None)
        if cut == "before":
            return self._hang_up(request)
        answer = await self._refused(request, call.writes) or await handler(request)
        call.status, call.user = answer.status, request.get(USER)
        if cut == "after":
            return self._hang_up(request)
        return answer

    async def _refused(self, request: web.Request, writes: bool) -> web.Response | None:
        """Without quorum /etc/pve can only be read (pve-docs, pmxcfs; PVE::Cluster::check_cfs_quorum)."""
        if not writes or self.quorate or request.path.endswith("/access/ticket"):
            return None
        message = "cluster not ready - no quorum?"
        return web.json_response({"data": None, "message": message + "\n"}, status=500, reason=message)

    @staticmethod
    def _hang_up(request: web.Request) -> web.Response:
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError("cut by a fault")

    def token(self, userid: str = "deskyard@pve", name: str = "test", *, privsep: bool = False) -> str:
        """A token with its secret, as clients give it, for a user that is made if need be; it may do nothing yet."""
        self.accounts.setdefault(userid, {})
        full = f"{userid}!{name}"
        self.tokens[full] = {"privsep": int(privsep), "expire": 0}
        self.apitokens[full] = f"00000000-0000-4000-8000-{len(self.tokens):012}"
        return f"{full}={self.apitokens[full]}"

    def left(self) -> dict[str, Any]:
        """All that was made on the cluster and is still there."""
        volumes = {f"{sid}:{name}" for sid, store in self.storages.items() for name in store["volumes"]}
        guests = {str(vmid) for vmid, conf in self._fw()["guests"].items() if any(conf.values())}
        found = {
            "machines": {vm.vmid for vm in self.vms},
            "volumes": volumes,
            "pools": set(self.pools),
            "networks": set().union(*(kind.keys() for at in (self.sdn, self.sdn_running) for kind in at.values())),
            "firewalls": guests,
            "running tasks": {task["upid"] for task in self.tasklog if task["status"] == "running"},
        }
        return {kind: names for kind, names in found.items() if names}


def storage_of(kind: str, content: str, **options: Any) -> dict[str, Any]:
    space = {"total": 200 * GIB, "avail": 200 * GIB}
    return {"type": kind, "active": 1, "content": content, "files": set(), "volumes": {}, **space, **options}
