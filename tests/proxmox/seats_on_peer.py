"""A workspace of seats on a peer, without an engine: its pool and its network are there, and no machine."""

from dataclasses import dataclass
from typing import Any

import pytest

from deskyard.access import access
from deskyard.declaration.declaration import Declared
from deskyard.engine.backend import backend_of
from deskyard.image.store import store
from deskyard.life.pool import making
from deskyard.site.files import read_site
from deskyard.site.proxmox.life.disposables import ClusterDisposables
from deskyard.workspace import readiness
from deskyard.workspace.seats import Seats
from tests.proxmox.rack import DIGESTS, SITE, Rack

NAME = "lab"


def desktops(seats: int, **changes: Any) -> list[dict[str, Any]]:
    """One that is kept, and so many seats."""
    return [{"name": "dev1"}, *({"name": f"s{n}", "lifetime": "task", **changes} for n in range(1, seats + 1))]


@dataclass
class Court:
    """The workspace, and what is made and claimed there."""

    rack: Rack

    @property
    def declared(self) -> Declared:
        """As it is planned now."""
        return self.rack.plan(NAME)

    def seats(self, host: str = "") -> Seats:
        """Its seats, as an operator's machine has them."""
        disposables = backend_of(read_site(SITE)).disposables(NAME)
        assert isinstance(disposables, ClusterDisposables)
        disposables.record().host = host or disposables.record().host
        return Seats(SITE, NAME, disposables)

    def make(self, name: str, **given: Any) -> None:
        """Make the machine of a seat, which waits."""
        declared = self.declared
        making.make(given.pop("seats", None) or self.seats(), declared, declared.plan.seat(name), routes=True, **given)

    def vm(self, name: str) -> Any:
        """What the peer holds of the machine at a seat; None without one."""
        found = [vm for vm in self.rack.peer.fake.vms if vm.config.get("name") == f"{name}.task.{NAME}"]
        assert len(found) <= 1
        return next(iter(found), None)

    def config(self, name: str) -> dict[str, Any]:
        """Its configuration as the API has it."""
        vm = self.vm(name)
        found: dict[str, Any] = self.rack.root.ask("GET", f"/nodes/{vm.node}/qemu/{vm.vmid}/config")
        return found


def court(rack: Rack, monkeypatch: pytest.MonkeyPatch, seats: int, **changes: Any) -> Court:
    """The workspace with its pool and its network; sessions end without a gateway, and all routes answer."""
    # To work an image's name out again each time would take longer than all calls of the cluster.
    monkeypatch.setattr(store, "digests", lambda name: [DIGESTS[name]])
    monkeypatch.setattr(access, "revoke", lambda *_, **__: None)
    monkeypatch.setattr(readiness, "wait", lambda *_, **__: {})
    rack.declare(NAME, desktops=desktops(seats), pool={"size": seats}, **changes)
    planned = rack.plan(NAME).on_cluster
    assert planned is not None
    rack.root.ask("POST", "/pools", poolid=planned.pool)
    vnet = planned.vnet
    rack.root.ask("POST", "/cluster/sdn/vnets", vnet=vnet.name, zone=vnet.zone, tag=vnet.tag, alias=vnet.alias)
    rack.root.finish("PUT", "/cluster/sdn")
    return Court(rack)
