"""Hours of a cluster that fills, with the real queue and placement: turns, waits for room, and no place given twice."""

from deskyard.control.queue import claim as claims
from tests.bench.cluster import ByAge, Sizes, worked_through
from tests.control.lab import Lab

# More than there is room for comes nearly at once; in the end one of two nodes is away.
SMALL = Sizes(
    2, workspaces=8, nodes=2, hours=2, node_gib=64, node_disk_gib=400, burst=60, previews_an_hour=4, founding=0.004
)
OTHERS, GREEDY = ("machines", False), ("machines", True)


def test_who_finds_no_room_waits_and_hears_of_it_and_who_wants_much_at_once_waits_for_that_alone(mission: Lab) -> None:
    mission.end("worker")
    found = worked_through(mission.link, SMALL)
    assert found.overspent == {} and found.on_lost_nodes == 0
    assert found.most_memory > 0.9 and found.refusals > 0
    assert all(claims.MOST_ROOM_SECONDS <= waited < claims.MOST_ROOM_SECONDS + 120 for waited in found.failed)
    by_age = worked_through(ByAge(mission.link), SMALL)  # type: ignore[arg-type]
    assert len(found.waits[GREEDY]) == len(by_age.waits[GREEDY]) == SMALL.burst
    # Twelve slots are free every minute; by age alone the others wait for all that came before them.
    assert max(found.waits[OTHERS]) <= 60 < max(by_age.waits[OTHERS])
    assert max(found.waits[GREEDY]) <= max(by_age.waits[GREEDY]) + 60


def test_without_what_tasks_promise_each_other_the_same_place_is_given_twice(mission: Lab) -> None:
    mission.end("worker")
    assert worked_through(mission.link, SMALL, promises=False).overspent
