"""Seats in the Plan: as the gateway knows them, apart from what is kept; and who has what."""

from typing import Any

import pytest

from deskyard.errors import ConfigError
from deskyard.model.quotas import Quotas
from deskyard.plan import quota
from deskyard.plan.clash import shared
from deskyard.plan.names import domain, seat_domain, seat_of
from deskyard.plan.pool import seat
from deskyard.plan.pool.seat import Claim, Entry, Event, Seated, State
from deskyard.plan.proxmox import seat_words
from deskyard.plan.proxmox.firewall import desktop_firewall
from deskyard.plan.proxmox.view import Owner, SeenMachine, pool_of
from deskyard.plan.workspace import WorkspacePlan
from tests.support.paper_cluster import PaperCluster, rack
from tests.support.paper_cluster import workspace as on_cluster
from tests.unit.plan.test_workspace import planned

CLAIM = Claim("me", 5000.0)


def with_seats(**keys: Any) -> WorkspacePlan:
    return planned({"name": "kept"}, {"name": "s1", "lifetime": "task"}, {"name": "s2", "lifetime": "task"}, **keys)


def test_gateway_knows_a_seat_as_it_knows_a_desktop_and_the_engine_makes_no_machine_of_it() -> None:
    plan = with_seats()
    assert [desktop.name for desktop in plan.gateway.settings.desktops] == ["kept", "s1", "s2"]
    assert set(plan.machines()) == {"gateway", "kept"}
    addresses = {desktop.address for desktop in plan.gateway.settings.desktops}
    assert len(addresses) == 3
    as_kept = planned(*({"name": name} for name in ("kept", "s1", "s2")))
    assert plan.gateway.settings == as_kept.gateway.settings
    for name in ("s1", "s2"):
        ours, theirs = plan.seat(name), as_kept.desktop(name)
        assert (ours.address, ours.mac, ours.isolated, ours.routes) == (
            theirs.address,
            theirs.mac,
            theirs.isolated,
            theirs.routes,
        )


def test_machine_at_a_seat_has_no_name_that_one_that_is_kept_can_have() -> None:
    name = with_seats().seat("s1").machine.domain
    assert name == seat_domain("demo", "s1") != domain("demo", "s1")
    assert seat_of("demo", name) == "s1"
    for other in (domain("demo", "s1"), domain("demo", "gateway"), seat_domain("demo2", "s1"), f"{name}.home"):
        assert seat_of("demo", other) is None


def test_what_is_done_with_desktops_that_are_kept_is_refused_for_a_seat() -> None:
    plan = with_seats()
    with pytest.raises(ConfigError, match="has lifetime: task"):
        plan.desktop("s1")
    assert plan.reached("s1") == plan.seat("s1")
    with pytest.raises(ConfigError, match="choose one of: s1, s2"):
        plan.seat("kept")
    with pytest.raises(ConfigError, match="workspace demo declares none"):
        planned({"name": "kept"}).seat("kept")


def test_quotas_count_the_machines_that_may_be_made() -> None:
    asked = quota.totals([with_seats()])
    assert asked["desktops"] == 3
    with pytest.raises(ConfigError, match="would be 3"):
        quota.require("site", Quotas(desktops=2), asked, "demo")


def test_addresses_of_seats_are_looked_at_for_clashes() -> None:
    plan = with_seats()
    assert plan.seat("s1").address in shared(plan, plan)["address"]
    assert plan.seat("s1").machine.domain in shared(plan, plan)["machine"]


def with_a_seat(**changes: Any) -> Any:
    """A workspace on a cluster of one desktop that is kept, and one seat."""
    desktops = [{"name": "desk"}, {"name": "s1", "lifetime": "task"}]
    return on_cluster("demo", desktops=desktops, **changes)


def test_seat_on_a_cluster_has_its_place_and_its_firewall_and_no_engine_makes_a_machine_of_it() -> None:
    plan, made = PaperCluster().plan(with_a_seat())
    seat = made.seats["s1"]
    assert [vm.owner.machine for vm in made.machines()] == ["gateway", "desk"]
    assert seat.owner.vm_name.partition(".")[0] == "s1" != seat.owner.machine
    assert seat.vm_id not in {vm.vm_id for vm in made.machines()}
    assert seat.firewall == desktop_firewall(plan, plan.seat("s1"))
    assert seat.template and seat.nics[0].bridge == made.vnet.name


def test_seat_that_finds_no_place_is_named_and_the_plan_is_made() -> None:
    tight = PaperCluster(nodes=1, memory_gib=6)
    _, made = tight.plan(with_a_seat())
    assert (set(made.desktops), set(made.seats)) == ({"desk"}, set())
    assert "no node has 4096 MiB of memory for s1.task" in made.no_room["s1"]


def test_quotas_of_a_cluster_count_seats() -> None:
    site = rack(quotas={"desktops": 1})
    with pytest.raises(ConfigError, match="would be 2"):
        PaperCluster().plan(with_a_seat(), site)


def seen(name: str, pool: str = "", *tags: str) -> SeenMachine:
    return SeenMachine(700, "pve1", name, pool, tags, True, False, 1, 1, 1)


def test_machine_at_a_seat_is_known_by_tag_or_name_and_no_kept_one_is_taken_for_it() -> None:
    pool, owner = pool_of("rack", "demo"), seat_words.seat_owner("rack", "demo", "s1")
    for machine in (seen("renamed", "", owner.tag), seen(owner.vm_name, pool)):
        assert seat_words.seat_at(machine, "rack", "demo") == "s1"
        assert seat_words.is_at_a_seat(machine)
        assert seat_words.seat_at(machine, "rack", "other") is None
    for name in ("s1", "task", "gateway"):
        kept = Owner("rack", "demo", name)
        for machine in (seen(kept.vm_name, pool, kept.tag), seen(kept.vm_name, pool)):
            assert seat_words.seat_at(machine, "rack", "demo") is None
            assert not seat_words.is_at_a_seat(machine)


WORDS = seat_words.Words("s1", "a", State.CLAIMED, 5.0, "w", "i", "here", "me", 9.0, True, "t")


def test_words_of_a_machine_are_read_as_they_were_written_with_its_other_tags() -> None:
    config = seat_words.written(WORDS, ("mine", "deskyard-seat.waiting"))
    assert seat_words.read({**config, "description": config["description"] + "\n"}, "s1") == WORDS
    assert config["tags"] == "deskyard-seat.claimed;mine"
    assert seat_words.read(config, "s2") is not None and seat_words.read(config, "s2") != WORDS
    assert WORDS.seated() == Seated("s1", "a", State.CLAIMED, "w", "i", 5.0, Claim("me", 9.0, True), "here")


@pytest.mark.parametrize("text", ["", "mine", "deskyard-seat: {", 'deskyard-seat: {"seat": "s1"}', "deskyard-seat: []"])
def test_edited_description_takes_no_machine_away_from_whoever_has_it(text: str) -> None:
    words = seat_words.read({"description": text, "tags": "deskyard-seat.claimed"}, "s1")
    assert words is not None and words.seated().state is State.CLAIMED
    assert seat_words.read({"description": text, "tags": "deskyard-seat.waiting"}, "s1") is None


@pytest.mark.parametrize("keys", [{"peers": "open"}, {"network": "10.80.9.0/24"}, {"name": "other"}])
def test_another_place_in_the_network_is_another_wiring(keys: dict[str, Any]) -> None:
    plan, other = with_seats(), with_seats(**keys)
    assert seat.wiring(plan, plan.seat("s1")) == seat.wiring(with_seats(), plan.seat("s1"))
    assert seat.wiring(plan, plan.seat("s1")) != seat.wiring(other, other.seat("s1"))
    assert seat.wiring(plan, plan.seat("s1")) != seat.wiring(plan, plan.seat("s2"))


def entries(*what: tuple[Event, str, Claim | None]) -> list[Entry]:
    return [Entry(event, "s1", number, float(at), claim, "w", "i") for at, (event, number, claim) in enumerate(what)]


def now(*what: tuple[Event, str, Claim | None]) -> Seated | None:
    return seat.machines(entries(*what)).get("s1")


BEGUN, READY = (Event.BEGUN, "a", None), (Event.READY, "a", None)


def test_machine_waits_when_it_is_ready_and_is_somebodys_when_claimed() -> None:
    assert now() is None
    assert now(BEGUN) == Seated("s1", "a", State.MAKING, "w", "i", 0.0)
    assert now(BEGUN, READY) == Seated("s1", "a", State.WAITING, "w", "i", 1.0)
    assert now(BEGUN, READY, (Event.CLAIMED, "a", CLAIM)) == Seated("s1", "a", State.CLAIMED, "w", "i", 1.0, CLAIM)
    made_for = now((Event.BEGUN, "a", CLAIM), READY)
    assert made_for is not None and (made_for.state, made_for.claim) == (State.CLAIMED, CLAIM)


def test_second_claim_changes_nothing_and_one_of_another_machine_neither() -> None:
    claimed = (Event.CLAIMED, "a", CLAIM)
    assert now(BEGUN, READY, claimed, (Event.CLAIMED, "a", Claim("late", 1.0))) == now(BEGUN, READY, claimed)
    assert now(BEGUN, READY, (Event.CLAIMED, "old", CLAIM)) == now(BEGUN, READY)
    # What is claimed never waits again.
    assert now(BEGUN, READY, claimed, READY) == now(BEGUN, READY, claimed)


def test_seat_is_free_when_its_machine_is_gone_and_the_next_one_is_another() -> None:
    gone = (Event.GONE, "a", None)
    assert now(BEGUN, READY, gone) is None
    following = now(BEGUN, READY, gone, (Event.BEGUN, "b", None))
    assert following is not None and following.number == "b"
    lines = entries(BEGUN, READY, gone, (Event.BEGUN, "b", None))
    assert [entry.machine for entry in seat.kept(lines)] == ["b"]


@pytest.mark.parametrize("claim", [None, CLAIM, Claim("you", 1.5, run=True)])
def test_line_is_read_as_it_was_written(claim: Claim | None) -> None:
    entry = Entry(Event.CLAIMED, "s1", "a", 1.0, claim)
    assert seat.read(seat.written(entry)) == entry


@pytest.mark.parametrize("end", range(0, 60, 7))
def test_half_a_line_is_no_line(end: int) -> None:
    assert seat.read(seat.written(Entry(Event.READY, "s1", "a", 1.0))[:end]) is None


@pytest.mark.parametrize("line", ["[]", "1", '{"event": "ready"}', '{"claim": 3}', "\x00\x00"])
def test_line_of_another_form_is_none(line: str) -> None:
    assert seat.read(line) is None
