"""Many claim few: each desktop is given once, whoever is killed at whatever moment."""

import os
import random
import signal
from collections import Counter
from pathlib import Path

import pytest

from deskyard.access import access
from deskyard.plan.pool.seat import Claim, State
from deskyard.workspace.seats import Seats
from tests.support.claimers import FOREVER, MOMENTS, claimer, fork, race
from tests.unit.workspace.disposables import Disposables, declared

DESKTOPS, CLAIMERS, KILLED = 8, 32, 12


@pytest.fixture
def seats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Seats:
    """Eight desktops that wait."""
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    seats = Seats("local", "lab", Disposables(tmp_path / "machines"))
    for seat in declared(DESKTOPS).plan.seats:
        begun = seats.begin(declared(DESKTOPS), seat, None)
        seats.disposables.make(declared(DESKTOPS).plan, seat, None, None, None)  # type: ignore[arg-type]
        seats.ready(begun)
    return seats


@pytest.mark.parametrize("seed", range(6))
def test_of_32_claimers_with_kills_8_get_a_desktop_each_and_none_is_given_twice(seats: Seats, seed: int) -> None:
    dice = random.Random(seed)
    kills = dict(zip(dice.sample(range(CLAIMERS), KILLED), dice.choices(MOMENTS, k=KILLED), strict=True))
    said, ends = race(seats, declared(DESKTOPS), CLAIMERS, kills)
    got = [answer["machine"] for answer in said if answer["machine"]]
    claimed = {seated.number: seated for seated in seats.ledger.machines().values() if seated.state is State.CLAIMED}
    assert len(got) == len(set(got))
    assert len(claimed) == DESKTOPS
    # Whoever was killed behind its line has had one, and nobody else gets that.
    lost = [seated for seated in claimed.values() if seated.number not in got]
    assert {seated.claim.by for seated in lost if seated.claim} <= {f"c{number}" for number in kills}
    assert Counter(seated.claim.by for seated in claimed.values() if seated.claim).most_common(1)[0][1] == 1
    for answer in said:
        if answer["machine"]:
            assert claimed[answer["machine"]].claim == Claim(f"c{answer['claimer']}", FOREVER)
    assert sum(os.WIFSIGNALED(end) for end in ends) >= len([kill for kill in kills.values() if kill == "before"])
    assert seats.take(declared(DESKTOPS), [f"s{n}" for n in range(1, 9)], Claim("late", FOREVER)) is None


@pytest.mark.parametrize("moment", MOMENTS)
def test_claim_that_was_killed_is_whole_or_none(seats: Seats, moment: str) -> None:
    begin, start = os.pipe()
    os.write(start, b"x")
    _, status = os.waitpid(fork(claimer(1, seats, declared(DESKTOPS), moment, begin, 1)), 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    taken = [seated for seated in seats.ledger.machines().values() if seated.claim is not None]
    assert len(taken) == (1 if moment in ("written", "marked") else 0)
    # The next one gets another, or the first: it waits as before.
    names = [f"s{n}" for n in range(1, 9)]
    got = [seats.take(declared(DESKTOPS), names, Claim("next", FOREVER)) for _ in range(DESKTOPS + 1)]
    assert len({answer.number for answer in got if answer} - {answer.number for answer in taken}) == DESKTOPS - len(
        taken
    )
    assert got[-1] is None


def test_claim_is_on_the_disk_before_anybody_hears_of_it(seats: Seats, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    flush, mark = os.fsync, seats.disposables.mark

    def flushed(handle: int) -> None:
        flush(handle)
        done.append("flushed")

    def marked(seat: str, words: dict[str, str]) -> None:
        done.append("marked")
        mark(seat, words)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(seats.disposables, "mark", marked)
    assert seats.take(declared(DESKTOPS), ["s1"], Claim("me", FOREVER)) is not None
    assert done[:2] == ["flushed", "marked"]


def test_desktop_that_was_given_stays_given_without_the_ledger(
    seats: Seats, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "revoke", lambda *_, **__: None)
    assert seats.take(declared(DESKTOPS), ["s1"], Claim("me", FOREVER)) is not None
    (ledger,) = tmp_path.rglob("seats.jsonl")
    ledger.unlink()
    seats.sweep(declared(DESKTOPS))
    assert list(seats.ledger.machines()) == ["s1"]
    assert seats.ledger.machines()["s1"].claim == Claim("me", FOREVER)
    assert seats.disposables.there() == {"s1"}
