"""The states of a cluster's machines as a look shows them that all workspaces share.

Each for itself would make two calls for each of its machines every few seconds: of fifty workspaces, more than the
three workers of pveproxy answer.
"""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deskyard.errors import DeskyardError, SiteError
from deskyard.model.site import Site
from deskyard.plan.proxmox.power_tag import power_of
from deskyard.plan.proxmox.view import ClusterView, Owner, SeenMachine, read_view, tags_of
from deskyard.site.proxmox import listing
from deskyard.site.proxmox.client import connect
from deskyard.site.proxmox.life.power import state_of

# A look serves whoever asks for so long; where looks take long, for so many times as long.
FRESH_SECONDS, PER_LOOK = 2.0, 3.0


@dataclass
class _Look:
    """The newest look at a cluster, or why there was none; who asks meanwhile waits for it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    until: float = 0.0
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    view: ClusterView | None = None
    error: DeskyardError | None = None

    def renew(self, site: Site) -> None:
        """Look, unless somebody has just done so."""
        began = time.monotonic()
        if began < self.until:
            return
        try:
            rows = listing.resources(connect(site), full=True)
        except DeskyardError as error:
            self.error = error
        else:
            self.rows = {int(row["vmid"]): row for row in rows if row.get("type") == "qemu"}
            self.view, self.error = read_view(rows, (), {}), None
        now = time.monotonic()
        self.until = now + max(FRESH_SECONDS, PER_LOOK * (now - began))


_looks: dict[str, _Look] = {}


def states(site: Site, owners: Mapping[str, Owner]) -> dict[str, dict[str, Any]]:
    """State, and what it is wanted to be, of each of these machines that is there, by its name; some seconds old.

    Raises `SiteError` if the cluster, or a node that has any of them, does not answer.
    """
    look = _looks.setdefault(str(site.cluster.endpoint), _Look())
    with look.lock:
        look.renew(site)
        if look.error is not None:
            raise look.error
        view, rows = look.view, look.rows
    assert view is not None
    found = {name: view.machine_of(owner) for name, owner in owners.items()}
    return {name: _state(machine, rows[machine.vm_id]) for name, machine in found.items() if machine is not None}


def _state(machine: SeenMachine, row: Mapping[str, Any]) -> dict[str, Any]:
    if "qmpstatus" not in row and row.get("lock") not in listing.BEING_MADE:
        reason = f"does not say how {machine.name or machine.vm_id} is"
        raise SiteError("node", machine.node, reason, "see whether it is up, and in the cluster's quorum")
    return {"state": state_of(row), "desired": power_of(tags_of(row))}
