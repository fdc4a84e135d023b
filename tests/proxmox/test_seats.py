"""Machines at seats of a cluster, without an engine: guarded before they start, given once, gone with all their data.

The witnesses of what decides a claim are in docs/disposable.md: qemu-server compares `digest` under the lock of the
machine's configuration, and the peer refuses a write with an older one as it does.
"""

import copy
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from typing import Any

import pytest

from deskyard.engine import leftovers
from deskyard.engine.backend import backend_of
from deskyard.engine.leftovers import StateIds
from deskyard.errors import ConfigError, SiteError
from deskyard.host import jump
from deskyard.life.pool import pool
from deskyard.plan.pool.seat import Claim, Entry, Event, State
from deskyard.plan.proxmox import seat_words
from deskyard.site.files import read_site
from deskyard.site.proxmox.client import ApiError, connect
from deskyard.workspace.seats import Seats
from tests.proxmox.rack import SITE, Rack, watched
from tests.proxmox.seats_on_peer import NAME, Court, court, desktops
from tests.proxmox.site_on_peer import USER
from tests.support.claimers import FOREVER, die, race
from tests.support.pve import Peer
from tests.support.pve.memory import Memory

DESKTOPS, CLAIMERS, KILLED = 8, 32, 12
MINE = Claim("me", FOREVER)
NOBODY = StateIds(frozenset(), frozenset(), frozenset(), frozenset(), frozenset())
# Where a claimer dies: before it looks, when it has read, before its write is sent, and before it hears of it.
MOMENTS = ("before", "read", "unsent", "unheard")


@pytest.fixture(scope="module")
def kept_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Court, Memory]]:
    """Two seats at which nothing is, for all tests; nobody here needs the engine or its plugin."""
    folder = tmp_path_factory.mktemp("seats")
    with Peer(folder, nodes=2) as peer, peer.client() as root, pytest.MonkeyPatch.context() as monkeypatch:
        lab = court(Rack(peer, root, folder, monkeypatch), monkeypatch, 2)
        yield lab, Memory(peer)


@pytest.fixture
def lab(kept_lab: tuple[Court, Memory]) -> Iterator[Court]:
    """Two seats at which nothing is."""
    yield kept_lab[0]
    kept_lab[0].rack.peer.fake.faults.cuts, kept_lab[0].rack.peer.fake.faults.on_call = {}, None
    kept_lab[1].put_back()


def states(seats: Seats) -> dict[str, State]:
    return {name: seated.state for name, seated in seats.ledger.machines().items()}


def test_machine_at_a_seat_is_guarded_before_its_first_start_and_waits(lab: Court) -> None:
    with watched(lab.rack.peer) as calls:
        lab.make("s1")
    paths = [call.path for call in calls if call.writes]
    start = next(n for n, path in enumerate(paths) if path.endswith("/status/start"))
    assert max(n for n, path in enumerate(paths) if "/firewall/" in path) < start
    vm, planned = lab.vm("s1"), lab.declared.on_cluster
    assert planned is not None
    assert (vm.status, vm.vmid, vm.node) == ("running", planned.seats["s1"].vm_id, planned.seats["s1"].node)
    assert {"serial=home", "size=10G", "backup=1"} <= set(lab.config("s1")["scsi1"].split(","))
    words = seat_words.read(lab.config("s1"), "s1")
    assert words is not None and (words.state, words.by) == (State.WAITING, "")
    assert "deskyard-seat.waiting" in lab.config("s1")["tags"] and not int(lab.config("s1")["onboot"])
    assert states(lab.seats()) == {"s1": State.WAITING}


@pytest.mark.parametrize(("storage", "form"), [("shared", "qcow2"), ("local-lvm", "raw")], ids=["files", "volumes"])
def test_its_volume_of_home_has_the_form_that_those_of_other_desktops_have(
    lab: Court, request: pytest.FixtureRequest, storage: str, form: str
) -> None:
    request.addfinalizer(lab.rack.site)
    lab.rack.site(storages={"disks": storage})
    granted = lab.rack.peer.fake.acl[USER]
    # The template stays where it was.
    lab.rack._grant()
    lab.rack.peer.fake.acl[USER] += granted
    lab.make("s1")
    volume = lab.config("s1")["scsi1"].partition(",")[0]
    assert volume.startswith(f"{storage}:")
    assert (lab.rack.peer.fake._qm_volume(volume) or {})["format"] == form


def test_machine_that_is_not_as_planned_is_never_started(lab: Court, monkeypatch: pytest.MonkeyPatch) -> None:
    fw = type(lab.rack.peer.fake)._fw

    def meddled(fake: Any) -> Any:
        found = fw(fake)
        for config in found["guests"].values():
            config["options"].pop("policy_out", None)
        return found

    monkeypatch.setattr(type(lab.rack.peer.fake), "_fw", meddled)
    with watched(lab.rack.peer) as calls, pytest.raises(SiteError, match="policy_out DROP: is ACCEPT"):
        lab.make("s1")
    assert not any(call.path.endswith("/status/start") for call in calls)
    assert lab.vm("s1") is None


def test_a_node_that_is_off_is_not_asked_for_its_machines(lab: Court) -> None:
    lab.make("s1")
    fake, here = lab.rack.peer.fake, lab.vm("s1").node
    off = next(node for node in fake.nodes if node != here)
    disposables = backend_of(read_site(SITE)).disposables(NAME)
    assert disposables is not None
    fake.set_node_offline(off)
    try:
        with watched(lab.rack.peer) as calls:
            found = disposables.marks()
    finally:
        fake.set_node_offline(off, offline=False)
    assert "s1" in found
    asked = {call.path for call in calls if call.path.startswith("/nodes/")}
    assert f"/nodes/{here}/qemu" in asked and not [path for path in asked if path.startswith(f"/nodes/{off}/")]


def test_a_disk_that_is_left_of_a_released_machine_is_named(lab: Court) -> None:
    lab.make("s1")
    volume = lab.config("s1")["scsi1"].partition(",")[0]
    stuck = lab.rack.peer.fake.faults.stuck_storages
    stuck.add(volume.partition(":")[0])
    try:
        with pytest.raises(SiteError, match=rf"stays, though its machine is removed(.|\n)*pvesm free .*{volume}"):
            lab.seats().remove("s1")
    finally:
        stuck.clear()
    assert lab.vm("s1") is None


def test_released_machine_leaves_nothing(lab: Court) -> None:
    before = lab.rack.peer.fake.left()
    lab.make("s1")
    assert lab.rack.peer.fake.left() != before
    lab.seats().remove("s1")
    assert (lab.rack.peer.fake.left(), states(lab.seats())) == (before, {})


@pytest.mark.parametrize("sample", [2, pytest.param(None, marks=pytest.mark.deep)])
def test_failure_at_any_call_leaves_nothing_or_what_the_next_sweep_removes(
    lab: Court, random_seed: int, sample: int | None
) -> None:
    before, fake = lab.rack.peer.fake.left(), lab.rack.peer.fake
    with watched(lab.rack.peer) as calls:
        lab.make("s1")
    writes = [call.number for call in calls if call.writes]
    lab.seats().remove("s1")
    for number in random.Random(random_seed).sample(range(len(writes)), sample or len(writes)):
        fake.calls.clear()
        fake.faults.cuts = {writes[number]: "after"}
        try:
            lab.make("s1")
        except SiteError:
            fake.faults.cuts = {}
            lab.seats().sweep(lab.declared)
            assert fake.left() == before
        else:
            # A call that may be made twice was.
            lab.seats().remove("s1")
        fake.faults.cuts = {}


def test_record_is_in_the_cluster_and_another_operators_machine_goes_by_it(
    lab: Court,
) -> None:
    lab.make("s1")
    there = lab.seats("elsewhere")
    taken = there.take(lab.declared, ["s1"], Claim("you", FOREVER, run=True))
    assert taken is not None and taken.claim == Claim("you", FOREVER, run=True)
    assert lab.seats().take(lab.declared, ["s1"], MINE) is None
    # Its task may still run there: only its time ends it here.
    lab.seats().sweep(lab.declared)
    assert states(lab.seats()) == {"s1": State.CLAIMED}
    there.sweep(lab.declared)
    assert states(lab.seats()) == {}


def test_what_another_operators_machine_makes_is_left_alone_for_an_hour(
    lab: Court, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there, seat = lab.seats("elsewhere"), lab.declared.plan.seat("s1")
    begun = there.begin(lab.declared, seat, None)
    there.disposables.make(lab.declared.plan, seat, None, None, None)  # type: ignore[arg-type]
    with pytest.raises(SiteError, match="is taken"):
        lab.make("s1")
    lab.seats().sweep(lab.declared)
    assert states(lab.seats()) == {"s1": State.MAKING}
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 3700)
    lab.seats().sweep(lab.declared)
    # That hour is one of this machine's clock alone.
    assert states(lab.seats()) == {"s1": State.MAKING}
    assert "seat s1 stays: the clock jumped 1.0 h ahead" in capsys.readouterr().err
    jump.believe()
    lab.seats().sweep(lab.declared)
    assert states(lab.seats()) == {}
    # Whoever made it is told.
    with pytest.raises(SiteError, match="another task has changed it"):
        there.ready(begun)


def test_two_that_make_a_machine_at_one_seat_under_two_ids_start_none(lab: Court) -> None:
    planned = lab.declared.on_cluster
    assert planned is not None
    vm, fake = planned.seats["s1"], lab.rack.peer.fake

    def twin(call: Any) -> None:
        if call.path.endswith(f"/qemu/{vm.vm_id}/config") and call.method == "POST":
            fake.faults.on_call = None
            other = copy.deepcopy(next(machine for machine in fake.vms if machine.vmid == vm.template))
            other.vmid, other.template = 20_500, False
            other.config = {"name": vm.owner.vm_name, "tags": vm.owner.tag}
            fake.vms.append(other)
            fake.pools[vm.owner.pool].add(20_500)

    fake.faults.on_call = twin
    with watched(lab.rack.peer) as calls, pytest.raises(SiteError, match="another task makes a machine there"):
        lab.make("s1")
    assert not any(call.path.endswith("/status/start") for call in calls)


def test_claim_is_one_write_with_the_digest_of_what_was_read(lab: Court) -> None:
    lab.make("s1")
    digest = lab.config("s1")["digest"]
    with watched(lab.rack.peer) as calls:
        assert lab.seats().take(lab.declared, ["s1"], MINE) is not None
    (write,) = [call for call in calls if call.writes]
    assert write.parameters["digest"] == digest
    assert {"description", "tags", "digest"} == set(write.parameters)
    with pytest.raises(ApiError, match="checksum mismatch"):
        client = connect(read_site(SITE))
        client.put(write.path, description="late", digest=digest)


def test_claim_goes_on_over_a_change_that_is_no_claim(lab: Court) -> None:
    lab.make("s1")
    fake = lab.rack.peer.fake

    def meddle(call: Any) -> None:
        if call.method == "PUT":
            fake.faults.on_call = None
            lab.vm("s1").config["tags"] += ";seen"

    fake.faults.on_call = meddle
    assert lab.seats().take(lab.declared, ["s1"], MINE) is not None
    assert "seen" in lab.config("s1")["tags"] and "deskyard-seat.claimed" in lab.config("s1")["tags"]


@pytest.mark.parametrize("cut", ["before", "after"])
def test_claim_whose_answer_never_came_is_made_once(lab: Court, cut: str) -> None:
    lab.make("s1")
    fake = lab.rack.peer.fake

    def cut_it(call: Any) -> None:
        if call.method == "PUT":
            fake.faults.on_call = None
            fake.faults.cuts = {call.number: "before" if cut == "before" else "after"}

    fake.faults.on_call = cut_it
    taken = lab.seats().take(lab.declared, ["s1"], MINE)
    assert taken is not None
    assert lab.seats().ledger.machines()["s1"].claim == MINE
    assert lab.seats().take(lab.declared, ["s1"], Claim("late", FOREVER)) is None


def test_claimed_machine_stays_somebodys_when_its_description_was_edited(lab: Court) -> None:
    lab.make("s1")
    assert lab.seats().take(lab.declared, ["s1"], MINE) is not None
    lab.vm("s1").config["description"] = "mine, do not touch"
    lab.seats().sweep(lab.declared)
    assert states(lab.seats()) == {"s1": State.CLAIMED}
    lab.seats().remove("s1")
    assert lab.vm("s1") is None


def test_up_leaves_machines_at_seats_alone_and_what_is_kept_is_none(lab: Court) -> None:
    lab.make("s1")
    assert lab.vm("s1") is not None
    site = read_site(SITE)
    with suppress(SiteError):
        leftovers.clear(site, NAME, NOBODY)
    assert lab.vm("s1") is not None and lab.vm("s1").status == "running"


def test_seat_without_a_place_is_named_and_the_others_go_on(lab: Court) -> None:
    for number, node in enumerate(lab.rack.peer.fake.nodes):
        lab.rack.root.finish("POST", f"/nodes/{node}/qemu", vmid=900 + number, name="big", memory=str(60 * 1024))
    planned = lab.declared.on_cluster
    assert planned is not None
    with pytest.raises(SiteError, match=r"MiB of memory for s1\.task"):
        lab.make(next(iter(planned.no_room)))
    assert lab.vm("s1") is None


@pytest.fixture
def full(lab: Court) -> Iterator[Court]:
    """Eight desktops that wait."""
    lab.rack.declare(NAME, desktops=desktops(DESKTOPS), pool={"size": DESKTOPS})
    for number in range(1, DESKTOPS + 1):
        _quickly(lab, f"s{number}")
    yield lab
    lab.rack.declare(NAME, desktops=desktops(2), pool={"size": 2})


def _quickly(lab: Court, name: str) -> None:
    """What a claim needs of a machine: that it runs, and its words."""
    planned, seats = lab.declared, lab.seats()
    assert planned.on_cluster is not None
    vm = planned.on_cluster.seats[name]
    begun = seats.begin(planned, planned.plan.seat(name), None)
    words = seat_words.written(seats.disposables.record().begun[name], vm.tags)  # type: ignore[union-attr]
    made = {"vmid": vm.vm_id, "name": vm.owner.vm_name, "pool": vm.owner.pool, **words}
    assert lab.rack.root.finish("POST", f"/nodes/{vm.node}/qemu", **made) == "OK"
    assert lab.rack.root.finish("POST", f"/nodes/{vm.node}/qemu/{vm.vm_id}/status/start") == "OK"
    assert seats.ledger.note(Entry(Event.READY, name, begun.machine, time.time()))


def doomed(seats: Seats, moment: str) -> None:
    """Let this process die when its claim comes to a moment."""
    record = seats.ledger
    client = record._client  # type: ignore[attr-defined]
    put, machines = client.put, record.machines
    match moment:
        case "before":
            die()
        case "read":
            record.machines = lambda: (machines(), die())[0]  # type: ignore[method-assign,func-returns-value]
        case "unsent":
            client.put = lambda *_, **__: die()
        case "unheard":
            client.put = lambda *path, **given: (put(*path, **given), die())[0]  # type: ignore[func-returns-value]


def test_of_32_claimers_without_a_common_lock_and_with_kills_8_get_a_desktop_each_and_none_is_given_twice(
    full: Court, random_seed: int
) -> None:
    dice = random.Random(random_seed)
    kills = dict(zip(dice.sample(range(CLAIMERS), KILLED), dice.choices(MOMENTS, k=KILLED), strict=True))
    # Each as on another operator's machine: no lock of this one stands between them.
    hosts = [full.seats(f"host{number}") for number in range(CLAIMERS)]
    for seats in hosts:
        seats.ledger.alone = nullcontext  # type: ignore[method-assign]
    said, ends = race(hosts, full.declared, CLAIMERS, kills, doomed)
    got = [answer["machine"] for answer in said if answer["machine"]]
    there = full.seats().ledger.machines()
    claimed = {seated.number: seated for seated in there.values() if seated.state is State.CLAIMED}
    assert len(got) == len(set(got)) and len(claimed) == DESKTOPS
    lost = [seated for seated in claimed.values() if seated.number not in got]
    assert {seated.claim.by for seated in lost if seated.claim} <= {f"c{number}" for number in kills}
    assert Counter(seated.claim.by for seated in claimed.values() if seated.claim).most_common(1)[0][1] == 1
    for answer in said:
        if answer["machine"]:
            assert claimed[answer["machine"]].claim == Claim(f"c{answer['claimer']}", FOREVER)
    assert all(os.WTERMSIG(end) == signal.SIGKILL for end in ends if os.WIFSIGNALED(end))
    assert full.seats().take(full.declared, list(there), Claim("late", FOREVER)) is None


def test_seats_of_a_cluster_are_listed_claimed_and_drained_by_the_tasks(lab: Court) -> None:
    lab.make("s1")
    lab.make("s2")
    found = pool.claim(NAME, None, None, 600)
    rows = {row["name"]: row["state"] for row in pool.listed(NAME)["seats"]}
    assert sorted(rows.values()) == [State.CLAIMED, State.WAITING]
    assert pool.drain(NAME)["removed"] == sorted(set(rows) - {found["name"]})
    pool.release(found["target"])
    assert states(lab.seats()) == {}
    with pytest.raises(ConfigError, match="no disposable desktop"):
        pool.release(found["target"])
