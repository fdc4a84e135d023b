"""The benches of Mission Control, as small ones: every part is measured, each event heard, each operation done."""

from deskyard.control.jobs.slots import SHARES
from tests.bench.control import Sizes, figures
from tests.bench.queueing import figures as waits
from tests.control.lab import Lab


def test_every_part_is_measured_and_every_watcher_hears_every_event(mission: Lab) -> None:
    small = Sizes(300, (3,), queued=5, pages=10, page_rate=50, events=4, event_rate=50, lines=3_000, with_pages=False)
    found = {row.name: row for row in figures(mission, small)}
    assert found["commit to 3 watchers, 50 events a second"].note == "12 of 12 heard"
    assert found["page of 100 of 300 desktops, at 50 a second"].ratio is not None
    assert {"memory at rest", "claim with 5 queued", "/healthz, at 50 a second"} < set(found)
    assert found["its restore into an empty place, checked"].ratio is not None
    assert all(0 < row.p50 <= row.p95 <= row.most for row in found.values())


def test_every_operation_of_a_site_has_its_slot_and_answers_have_theirs_at_once(mission: Lab) -> None:
    found = {row.share: row for row in waits(mission, seed=1, workspaces=8, desktops=12, hours=2, memory_gib=64)}
    assert set(found) == set(SHARES)
    assert all(1 <= row.most_at_once <= row.slots for row in found.values())
    assert found["answers"].most == found["stops"].most == 0
    # Six slots for all were taken by agents.
    assert found["answers"].most_together > 60
