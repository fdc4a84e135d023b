"""Rules about what a desktop reaches: a name never reached before, and more than in its own week."""

from datetime import timedelta

import httpx
import pytest

from deskyard.control.store.connection import Link
from deskyard.control.watch import looks
from deskyard.control.watch.traffic import FLOOR, OTHERS, RULES
from tests.control.lab import Lab
from tests.control.test_alert_rules import there_for
from tests.control.test_traffic import Counts, passed
from tests.control.watching import look, opened, put_in_force

NEW, UNUSUAL = "egress.new-name", "egress.unusual"
MIB = 2**20


def on(mission: Lab, ago: int, name: str, counts: Counts = (1, 10, 100), desktop: str = "lab.first") -> str:
    """What passed so many days ago, by the day of the database; that day."""
    found = mission.link.execute("select (now() at time zone 'utc')::date as day").fetchone()
    assert found is not None
    day = found["day"] - timedelta(days=ago)
    passed(mission, desktop, day, name, counts)
    return str(day)


def a_day_passes(mission: Lab) -> None:
    # By way of days that nobody has: each row has its own at any time.
    mission.link.execute("update traffic set day = day - 10000")
    mission.link.execute("update traffic set day = day + 9999")


def known_for(mission: Lab, days: int, counts: Counts = (1, 10, 100)) -> None:
    """A desktop with traffic on each of so many days before yesterday."""
    there_for(mission, 90)
    for ago in range(2, days + 2):
        on(mission, ago, "api.example.org", counts)


def test_name_that_was_never_reached_is_told_for_two_days_of_a_desktop_that_is_known(
    mission: Lab, owner: httpx.Client, worker: Link
) -> None:
    known_for(mission, 7)
    on(mission, 0, "api.example.org")
    look(worker)
    assert opened(owner) == {}, "it was reached before"
    day = on(mission, 0, "paste.example.net", (1, 900, 10))
    look(worker)
    (alert,) = opened(owner).values()
    assert (alert["rule"], alert["object"], alert["workspaceId"]) == (NEW, "lab.first", "lab")
    assert (alert["number"], alert["unit"]) == (1, "names")
    assert "Usage" in alert["nextStep"] and "egress.close" in alert["nextStep"]
    assert alert["text"] == f"since {day}: paste.example.net"
    on(mission, 0, "small.example.net", (1, 1, 1))
    look(worker)
    again = opened(owner)[f"{NEW} lab.first"]
    assert (again["id"], again["number"]) == (alert["id"], 2), "one is open, with the number of now"
    assert again["text"] == f"since {day}: paste.example.net, small.example.net"
    a_day_passes(mission)
    look(worker)
    assert set(opened(owner)) == {f"{NEW} lab.first"}, "what passed late in a day is read on the next"
    a_day_passes(mission)
    look(worker)
    assert opened(owner) == {}


def test_new_desktop_is_quiet_also_under_an_old_name(mission: Lab, owner: httpx.Client, worker: Link) -> None:
    known_for(mission, 6)
    on(mission, 0, "paste.example.net")
    look(worker)
    assert opened(owner) == {}, "it is known for six days alone"
    on(mission, 8, "api.example.org")
    look(worker)
    assert set(opened(owner)) == {f"{NEW} lab.first"}
    mission.link.execute("update desktop set gone_at = now()")
    look(worker)
    assert opened(owner) == {}
    mission.declare("lab", "first")
    look(worker)
    assert opened(owner) == {}, "another was made under its name"


def test_names_that_have_to_be_new_are_the_rules_number(mission: Lab, owner: httpx.Client, worker: Link) -> None:
    known_for(mission, 7)
    for name in ("a.example.net", "b.example.net", "c.example.net"):
        on(mission, 0, name)
    try:
        for number, is_told in ((4, False), (3, True)):
            rule = {"kind": NEW, "enabled": True, "number": number}
            assert owner.put("/api/alert-rules", json={"rules": [rule]}).status_code == 200
            look(worker)
            assert (f"{NEW} lab.first" in opened(owner)) == is_told
    finally:
        mission.link.execute("update alert_rule set number = 1 where kind = %s", [NEW])


def test_last_days_names_with_the_most_bytes_are_told_and_of_a_long_one_its_end(
    mission: Lab, owner: httpx.Client, worker: Link
) -> None:
    known_for(mission, 7)
    yesterday = on(mission, 1, "first.example.net", (1, 10**9, 10**9))
    for number in range(1, 4):
        on(mission, 0, f"{'x' * 60}.{number}.{'y' * 60}.evil.example", (1, number, number))
    on(mission, 0, "odd\x1b[2J\u202e.example.net", (1, 2**40, 0))
    look(worker)
    alert = opened(owner)[f"{NEW} lab.first"]
    assert alert["number"] == 5
    shown = ["odd?[2J?.example.net", *[f"...{'y' * 47}.evil.example"] * 2]
    assert alert["text"] == f"since {yesterday}: {', '.join(shown)}, and 2 more"


def test_name_reached_long_ago_and_what_is_no_name_are_not_new(mission: Lab, owner: httpx.Client, worker: Link) -> None:
    known_for(mission, 7)
    on(mission, 300, "paste.example.net")
    on(mission, 0, "paste.example.net")
    on(mission, 0, OTHERS)
    on(mission, 0, "paste.example.org", desktop="elsewhere.first")
    look(worker)
    assert opened(owner) == {}


@pytest.mark.parametrize("way", [1, 2], ids=["sent", "received"])
def test_much_more_than_in_its_own_week_is_told_for_each_way_apart(
    mission: Lab, owner: httpx.Client, worker: Link, way: int
) -> None:
    def counts(mib: int) -> Counts:
        # The other way is so much that their sum would hide it.
        both = [1, 4000 * MIB, 4000 * MIB]
        both[way] = mib * MIB
        return both[0], both[1], both[2]

    known_for(mission, 7, counts(20))
    on(mission, 80, "pypi.org")
    on(mission, 0, "api.example.org", counts(199))
    look(worker)
    assert opened(owner) == {}, "9 times the mean is not 10"
    day = on(mission, 0, "pypi.org", (1, MIB, MIB))
    look(worker)
    (alert,) = opened(owner).values()
    assert (alert["rule"], alert["object"], alert["workspaceId"]) == (UNUSUAL, "lab.first", "lab")
    assert (alert["number"], alert["unit"]) == (10, "times the mean") and alert["nextStep"]
    word = ("", "sent", "received")[way]
    assert alert["text"] == f"{word} 200.0 MiB on {day}, and 20.0 MiB a day on its 7 days before"
    a_day_passes(mission)
    look(worker)
    assert set(opened(owner)) == {f"{UNUSUAL} lab.first"}
    a_day_passes(mission)
    look(worker)
    assert opened(owner) == {}


@pytest.mark.parametrize(("received", "is_told"), [(FLOOR - 1, False), (FLOOR, True)])
def test_little_traffic_is_quiet_however_much_more_it_is(
    mission: Lab, owner: httpx.Client, worker: Link, received: int, is_told: bool
) -> None:
    known_for(mission, 7, (1, 0, 0))
    on(mission, 0, "api.example.org", (1, 0, received))
    look(worker)
    assert (f"{UNUSUAL} lab.first" in opened(owner)) == is_told


@pytest.mark.parametrize(("days", "is_told"), [(6, False), (7, True)])
def test_week_is_of_days_with_traffic_and_has_to_be_whole(
    mission: Lab, owner: httpx.Client, worker: Link, days: int, is_told: bool
) -> None:
    there_for(mission, 90)
    for number in range(days):
        on(mission, 3 + 4 * number, "api.example.org")
    on(mission, 0, "api.example.org", (1, FLOOR, 0))
    look(worker)
    assert (f"{UNUSUAL} lab.first" in opened(owner)) == is_told


@pytest.mark.parametrize("kind", RULES)
def test_rule_about_traffic_is_enough_to_look_and_out_of_force_it_tells_nothing(
    mission: Lab, owner: httpx.Client, worker: Link, kind: str
) -> None:
    mission.end("worker")
    known_for(mission, 7)
    day = on(mission, 0, "paste.example.net", (1, FLOOR, 0))
    mission.link.execute("insert into refused_name values ('lab', 'lab.first', 'crates.io', %s)", [day])
    try:
        mission.link.execute("update alert_rule set enabled = kind = %s", [kind])
        look(worker)
        assert set(opened(owner)) == {f"{kind} lab.first"}
        assert looks.ask_for_due(worker) == ["lab"]
        mission.link.execute("update alert_rule set enabled = false")
        look(worker)
        assert opened(owner) == {}
    finally:
        put_in_force(mission)
