"""A seat beside desktops that the real engine made: its machine is as theirs, and the engine leaves it alone."""

import re

import pytest

from deskyard.access import access
from deskyard.engine.backend import backend_of
from deskyard.engine.stack import WorkspaceStack
from deskyard.image.store import store
from deskyard.plan.pool.seat import Claim
from deskyard.site.files import read_site
from deskyard.workspace import status, workspace
from deskyard.workspace.seats import Seats
from tests.proxmox.bench import DESKTOPS, NAME, Bench
from tests.proxmox.rack import DIGESTS, SITE, changed
from tests.proxmox.seats_on_peer import Court

# What differs between any two machines, and what only one that is kept, or one at a seat, has.
OWN = re.compile(r"digest|smbios1|vmgenid|meta|name|description|tags|ipconfig0|net0|scsi[01]|ide2|protection|onboot")


def test_machine_at_a_seat_is_as_the_engine_makes_them_no_drift_and_gone_with_the_workspace(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.up()
    rack = bench.rack
    monkeypatch.setattr(store, "digests", lambda name: [DIGESTS[name]])
    monkeypatch.setattr(access, "revoke", lambda *_, **__: None)
    rack.declare(NAME, desktops=[*({"name": name} for name in DESKTOPS), {"name": "s1", "lifetime": "task"}])
    lab = Court(rack)
    lab.make("s1", claim=Claim("me", 4e9))
    mine, theirs = lab.config("s1"), rack.root.ask("GET", f"{rack.node_path(NAME, 'dev1')}/config")
    assert {key: value for key, value in mine.items() if not OWN.fullmatch(key)} == {
        key: value for key, value in theirs.items() if not OWN.fullmatch(key) and key != "ide3"
    }
    # The provider writes the model and the address apart, which is the same to Proxmox VE.
    options = [dict(part.split("=") for part in config["net0"].split(",")) for config in (mine, theirs)]
    assert [(nic["bridge"], nic["firewall"], nic.get("rate")) for nic in options] == [
        (options[1]["bridge"], "1", None)
    ] * 2
    # It also writes what is so if nothing is said.
    assert set(mine["scsi0"].split(",")[1:]) <= set(theirs["scsi0"].split(",")[1:])
    assert mine["scsi1"].partition(",")[2] == theirs["scsi1"].partition(",")[2] != ""
    ours, planned = rack.peer.fake._fw()["guests"][lab.vm("s1").vmid], lab.declared
    assert ours["options"] == rack.peer.fake._fw()["guests"][rack.machines(NAME)["dev1"].vmid]["options"]
    assert backend_of(planned.site).underlay(planned).findings() == []
    # Neither the engine nor what clears up after it takes it for its own.
    assert changed(WorkspaceStack(NAME).preview()) == []
    (row,) = status.status(NAME)["seats"]
    assert (row["name"], row["state"], row["by"]) == ("s1", "claimed", "me")
    rack.root.ask("PUT", f"/nodes/{lab.vm('s1').node}/qemu/{lab.vm('s1').vmid}/firewall/options", policy_out="ACCEPT")
    assert backend_of(planned.site).underlay(planned).findings() == [
        "cluster: s1.task: option policy_out DROP: is ACCEPT"
    ]
    workspace.destroy(NAME)
    bench.gone()
    assert Seats(SITE, NAME, backend_of(read_site(SITE)).disposables(NAME)).ledger.machines() == {}  # type: ignore[arg-type]
