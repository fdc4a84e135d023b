"""What a snapshot may be called, how many there are, and what is kept with it as text."""

from dataclasses import replace

import pytest

from deskyard.errors import ConfigError
from deskyard.plan.snapshot import MOST, MOST_TEXT, Snapshot, check, find, oldest_first


@pytest.mark.parametrize("text", ["", "before the upgrade", "expires: soon", "two\nlines", "expires: 12\nno"])
@pytest.mark.parametrize("expires", [None, 0, 1_800_000_000])
def test_text_and_expiry_come_back_from_a_description(text: str, expires: int | None) -> None:
    wanted = Snapshot("before", text, expires)
    assert Snapshot("before").described(wanted.description) == wanted


@pytest.mark.parametrize("description", ["expires: ", "expires: -1", "expires: ²", "expires:12"])
def test_what_is_no_expiry_is_text(description: str) -> None:
    assert Snapshot("before").described(description) == Snapshot("before", description)


@pytest.mark.parametrize(("expires", "over"), [(None, False), (99, True), (100, True), (101, False)])
def test_snapshot_is_over_when_it_expires(expires: int | None, over: bool) -> None:
    assert Snapshot("before", expires=expires).is_over(100) is over


@pytest.mark.parametrize("name", ["", "a", "Before", "1st", "a/b", "a b", "-a", "a-", "a" * 41, "ä1", "../x"])
def test_name_that_a_hypervisor_refuses_is_refused_before(name: str) -> None:
    with pytest.raises(ConfigError, match="is no name of a snapshot"):
        check(Snapshot(name), [], "lab/dev1")


@pytest.mark.parametrize("name", ["current", "pending"])
def test_name_that_a_hypervisor_keeps_for_itself_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="is a reserved name"):
        check(Snapshot(name), [], "lab/dev1")
    check(Snapshot(f"{name}-2"), [], "lab/dev1")


@pytest.mark.parametrize("text", ["two\nlines", "\x1b[31m", "x" * (MOST_TEXT + 1)])
def test_text_that_is_no_short_line_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is no short text"):
        check(Snapshot("before", text), [], "lab/dev1")


def test_name_that_is_taken_is_refused() -> None:
    with pytest.raises(ConfigError, match="has it already"):
        check(Snapshot("before"), [Snapshot("before")], "lab/dev1")


def test_number_of_snapshots_is_bounded_and_the_oldest_is_named() -> None:
    present = [Snapshot(f"s{number}", made=100 - number) for number in range(MOST)]
    check(Snapshot("before"), present[1:], "lab/dev1")
    with pytest.raises(ConfigError, match=rf"{MOST} is the most\n.*snapshot\.delete lab/dev1 s{MOST - 1}"):
        check(Snapshot("before"), present, "lab/dev1")


def test_snapshot_is_found_by_its_name_alone() -> None:
    present = [Snapshot("before"), replace(Snapshot("after"), current=True)]
    assert find("after", present, "lab/dev1").current
    with pytest.raises(ConfigError, match="before, after"):
        find("newest", present, "lab/dev1")


def test_order_is_that_of_taking_also_within_a_second() -> None:
    first, second, third = Snapshot("z", made=5), Snapshot("m", made=5, parent="z"), Snapshot("a", made=5, parent="m")
    early = Snapshot("late-in-the-chain", made=4, parent="a")
    assert oldest_first([third, first, early, second]) == [early, first, second, third]


def test_chain_that_leads_back_to_itself_has_an_order() -> None:
    rounds = [Snapshot("a", parent="b"), Snapshot("b", parent="a")]
    assert sorted(snapshot.name for snapshot in oldest_first(rounds)) == ["a", "b"]
