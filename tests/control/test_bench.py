"""The bench of Mission Control, as a small one: every part is measured, and each watcher hears each event."""

from tests.bench.control import Sizes, figures
from tests.control.lab import Lab


def test_every_part_is_measured_and_every_watcher_hears_every_event(mission: Lab) -> None:
    small = Sizes(300, (3,), queued=5, pages=10, page_rate=50, events=4, event_rate=50, lines=3_000, with_pages=False)
    found = {row.name: row for row in figures(mission, small)}
    assert found["commit to 3 watchers, 50 events a second"].note == "12 of 12 heard"
    assert found["page of 100 of 300 desktops, at 50 a second"].ratio is not None
    assert {"memory at rest", "claim with 5 queued", "/healthz, at 50 a second"} < set(found)
    assert found["its restore into an empty place, checked"].ratio is not None
    assert all(0 < row.p50 <= row.p95 <= row.most for row in found.values())
