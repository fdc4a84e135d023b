"""The states of a cluster's machines as a look shows them that all workspaces share."""

from collections.abc import Iterator

import pytest

from deskyard.errors import SiteError
from deskyard.model.site import Site
from deskyard.plan.power import Power
from deskyard.plan.proxmox.view import Owner
from deskyard.site.files import read_site
from deskyard.site.proxmox import listing
from deskyard.site.proxmox.life import sight
from deskyard.site.proxmox.moves import ClusterMoves
from tests.proxmox.rack import SITE
from tests.proxmox.test_power import NAME, Desk, backed_up, desk

__all__ = ["desk"]
WORKSPACES = 50


@pytest.fixture(autouse=True)
def look_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each look is a new one, until a test wants otherwise."""
    monkeypatch.setattr(sight, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(sight, "PER_LOOK", 0.0)
    yield
    sight._looks.clear()


def owners(desk: Desk) -> dict[str, Owner]:
    return {desk.domain: Owner(SITE, NAME, "dev1"), "nobody": Owner(SITE, NAME, "nobody")}


@pytest.mark.parametrize("late", [0, 10], ids=["grown", "young"])
def test_a_machine_is_seen_as_it_says_itself(desk: Desk, late: int) -> None:
    desk.rack.peer.fake.faults.late_listings = late
    site = read_site(SITE)

    def seen() -> tuple[str, Power]:
        found = sight.states(site, owners(desk))
        own = desk.machines.states()[desk.domain]
        assert found == {desk.domain: {name: own[name] for name in ("state", "desired")}}
        return own["state"], own["desired"]

    assert seen() == ("running", Power.RUNNING)
    desk.machines.pause(desk.domain, to_disk=False)
    assert seen() == ("paused", Power.RUNNING)
    desk.machines.start(desk.domain)
    desk.vm.qmpstatus = "io-error"
    assert seen() == ("io-error", Power.RUNNING)
    desk.vm.qmpstatus = "running"
    desk.machines.want(desk.domain, Power.OFF)
    assert seen() == ("running", Power.OFF)
    desk.machines.pause(desk.domain, to_disk=True)
    assert seen() == ("saved", Power.OFF)
    desk.machines.start(desk.domain)
    desk.machines.shut_down(desk.domain, force=True)
    assert seen() == ("stopped", Power.OFF)
    with backed_up(desk):
        assert seen() == ("stopped", Power.OFF)


def test_fifty_workspaces_cost_no_more_calls_than_a_single_one(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sight, "FRESH_SECONDS", 600.0)
    site, calls = read_site(SITE), desk.rack.peer.fake.calls
    calls.clear()
    for _ in range(WORKSPACES):
        ClusterMoves(lambda: sight.states(site, owners(desk)))
    paths = [call.path for call in calls]
    assert len(paths) == len(set(paths)) and {path.partition("/pve")[0] for path in paths} == {
        "/cluster/resources",
        "/nodes",
    }


def test_a_machine_whose_node_does_not_answer_is_not_said_to_be_off(desk: Desk) -> None:
    desk.rack.peer.fake.set_node_offline(desk.vm.node)
    with pytest.raises(SiteError, match="does not say how") as refused:
        sight.states(read_site(SITE), owners(desk))
    assert (refused.value.field, refused.value.value) == ("node", desk.vm.node)
    # Others of the cluster are seen.
    assert sight.states(read_site(SITE), {"nobody": Owner(SITE, NAME, "nobody")}) == {}


def test_a_cluster_that_does_not_answer_is_asked_once_for_all(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sight, "FRESH_SECONDS", 600.0)
    asked: list[Site] = []

    def silent(*_: object, **__: object) -> list[dict[str, object]]:
        asked.append(site)
        raise SiteError("cluster", "rack", "does not answer", "wait")

    site = read_site(SITE)
    monkeypatch.setattr(listing, "resources", silent)
    for _ in range(3):
        with pytest.raises(SiteError, match="does not answer"):
            sight.states(site, owners(desk))
    assert len(asked) == 1
