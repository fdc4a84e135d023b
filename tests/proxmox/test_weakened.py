"""The tests of faults fail on builds from which the guard was taken: only then do they show that it guards."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deskyard.errors import SiteError
from deskyard.image.publish import retention
from tests.proxmox import (
    test_at_once,
    test_faults,
    test_interruption,
    test_network_owner,
    test_publish,
    test_reload,
    test_whole_machines,
    test_workspace,
)
from tests.proxmox.bench import DESKTOPS, NAME, Bench
from tests.proxmox.guarded import cut_off, unguarded
from tests.proxmox.killing import Point
from tests.proxmox.rack import Rack
from tests.proxmox.test_interruption import OPERATIONS
from tests.proxmox.weakened import without
from tests.support.pve import Client, Peer
from tests.support.pve.calls import Call
from tests.support.pve.disks import DiskApi

pytestmark = pytest.mark.sampled


@pytest.fixture
def lacking(bench: Bench) -> Iterator[Callable[..., None]]:
    """Takes pieces away from the build that runs on the bench."""

    def take(*names: str) -> None:
        bench.lacking = names

    yield take
    bench.lacking = ()


def cloned(point: Point, call: Call) -> bool:
    """The first machine is made, and nobody hears of it."""
    return point.done and call.path.endswith("/clone")


@pytest.mark.deep
@pytest.mark.parametrize("piece", ["clearing", "lifting of stale locks"])
def test_53_what_was_killed_would_not_go_on(bench: Bench, lacking: Callable[..., None], piece: str) -> None:
    bench.up()
    lacking(piece)
    with pytest.raises(AssertionError):
        test_interruption.survives(bench, OPERATIONS["create"], cloned)


@pytest.mark.deep
def test_54_the_machine_of_somebody_else_would_be_taken_for_our_own(rack: Rack) -> None:
    """The run ends there: the token may change no machine of another pool."""
    with without("one try of a clone"), pytest.raises((AssertionError, SiteError), match="Permission check failed"):
        test_at_once.test_an_id_that_somebody_takes_meanwhile_is_not_taken_over(rack)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("case", "piece"),
    [
        (test_faults.test_a_storage_that_is_locked_and_slow_tasks_pass_by_themselves, "another try"),
        (test_faults.test_a_storage_that_fills_up_is_named_at_once, "telling apart what passes"),
        (test_faults.test_a_lock_that_somebody_left_is_named_and_not_waited_for, "telling apart what passes"),
        (test_faults.test_a_lock_of_somebody_who_is_just_done_costs_another_try, "another try"),
        (test_faults.test_a_firewall_that_cannot_be_set_lets_no_machine_start, "order of firewall and start"),
        (test_faults.test_a_node_that_goes_while_its_machine_is_made_costs_another_try, "look at nodes"),
        (test_faults.test_a_cluster_whose_firewall_is_off_is_refused, "look at the firewall's switch"),
        (test_faults.test_more_than_its_tier_is_taken_back, "look before a change"),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_a_fault_would_do_harm(
    bench: Bench, lacking: Callable[..., None], case: Callable[[Bench], None], piece: str
) -> None:
    bench.up()
    lacking(piece)
    with pytest.raises(AssertionError):
        case(bench)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("case", "pieces"),
    [
        (
            test_whole_machines.test_machines_whose_first_configuration_was_refused_are_made_again_with_their_first_boot,
            ["look at the first boot"],
        ),
        (
            test_network_owner.test_a_nic_whose_old_bridge_the_token_may_not_use_is_named_before_anything_is_touched,
            ["guard of networks"],
        ),
    ],
    ids=lambda case: "" if callable(case) else case[0],
)
def test_a_cluster_that_is_not_as_its_api_says_would_do_harm(
    bench: Bench, lacking: Callable[..., None], case: Callable[[Bench], None], pieces: list[str]
) -> None:
    bench.up()
    lacking(*pieces)
    with without(*pieces), pytest.raises((AssertionError, SiteError, pytest.fail.Exception)):
        case(bench)


@pytest.mark.parametrize("piece", ["verdict of the nodes' reloads", "look at the nodes' reloads"])
def test_a_network_that_a_node_lacks_would_be_taken_for_one_in_force(
    peer: Peer, root: Client, tmp_path: Path, piece: str
) -> None:
    with without(piece), pytest.raises((AssertionError, pytest.fail.Exception)):
        test_reload.test_applying_fails_with_the_node_whose_reload_failed(peer, root, tmp_path)


@pytest.mark.deep
def test_68_a_network_would_be_replaced_below_its_machines(bench: Bench, lacking: Callable[..., None]) -> None:
    """Without the look at the machines and the guard: an administrator's alias cuts all machines off."""
    bench.up()
    name = test_network_owner.vnet_of(bench)
    test_network_owner.alias(bench, name, "the lab of Ann")
    lacking("look at the machines of a network", "guard of networks")
    bench.start("up").wait()
    assert name not in bench.rack.peer.fake.bridges("pve1")


def test_56_a_template_that_clones_need_would_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both guards are taken: our look at who uses it, and the cluster's own refusal."""
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(retention, "_in_use", lambda *_: set())
    monkeypatch.delattr(DiskApi, "_qm_destroy")
    with Peer(tmp_path, nodes=2) as peer, pytest.raises(AssertionError):
        test_publish.test_image_with_linked_clones_stays(peer, tmp_path)


@pytest.mark.deep
def test_12_neighbours_on_two_nodes_would_reach_each_other(bench: Bench, lacking: Callable[..., None]) -> None:
    bench.empty()
    bench.rack.declare(NAME, *DESKTOPS)
    lacking("rule about neighbours")
    bench.run("up")
    assert any("dev1.lab sends to 10.80" in flow for flow in unguarded(bench.rack.peer.fake))


@pytest.mark.deep
def test_a_desktop_on_its_gateways_node_would_have_no_gateway(bench: Bench, lacking: Callable[..., None]) -> None:
    bench.empty()
    bench.rack.declare(NAME, *DESKTOPS)
    lacking("open ports")
    bench.run("up")
    assert cut_off(bench.rack.peer.fake)


@pytest.mark.deep
def test_60_what_is_changed_by_hand_would_not_be_seen(rack: Rack) -> None:
    with without("look before a change"), pytest.raises(AssertionError):
        test_workspace.test_what_is_changed_by_hand_is_reported_and_mended(Bench(rack))


@pytest.mark.deep
def test_a_desktop_that_is_not_named_would_lose_its_disk(rack: Rack) -> None:
    """Either guard holds alone (see the test); without both it is gone."""
    bench = Bench(rack)
    bench.lacking = ("guard of data", "protection in the state")
    with without(*bench.lacking), pytest.raises((AssertionError, pytest.fail.Exception)):
        test_workspace.test_a_desktop_that_is_not_named_is_never_removed(bench)
