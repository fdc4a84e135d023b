"""What is deleted by the clock is kept while that has jumped ahead."""

import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from deskyard.errors import HostError
from deskyard.host import jump
from deskyard.host.jump import BELIEVED_SECONDS, Moment
from deskyard.host.places import places
from tests.support.other_account import said_by_another

HOUR, YEAR = 3600.0, 365 * 86_400.0


class Now:
    """The moment that it is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.moment = Moment("first", 1_800_000_000.0, 5000.0)
        monkeypatch.setattr(jump, "moment", lambda: self.moment)

    def passes(self, seconds: float) -> None:
        """Time passes."""
        self.moment = replace(self.moment, clock=self.moment.clock + seconds, up=self.moment.up + seconds)

    def is_set(self, seconds: float) -> None:
        """The clock is set ahead, or back."""
        self.moment = replace(self.moment, clock=self.moment.clock + seconds)

    def boots(self, off: float) -> None:
        """The machine boots after a time in which it was off, or by a clock that says so."""
        self.moment = Moment(f"{self.moment.boot} again", self.moment.clock + off + 30, 30.0)


@pytest.fixture
def now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Now:
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    return Now(monkeypatch)


def test_moment_is_that_of_this_machine() -> None:
    first = jump.moment()
    second = jump.moment()
    assert first.boot == second.boot
    assert second.up >= first.up
    assert abs(second.ahead_of(first)) < 1


def test_what_a_machine_slept_counts_since_its_boot_and_not_as_awake(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = {time.CLOCK_BOOTTIME: 30_000.0, time.CLOCK_MONOTONIC: 1200.0}
    monkeypatch.setattr(time, "clock_gettime", passed.__getitem__)
    assert (jump.moment().up, jump.awake().up) == (30_000.0, 1200.0)


@pytest.mark.parametrize("seconds", [0.0, 100.0, YEAR])
def test_clock_is_right_as_long_as_it_goes_with_the_time_since_the_boot(now: Now, seconds: float) -> None:
    for _ in range(3):
        assert jump.look("lab") is None
        now.passes(seconds)


def test_clock_that_is_set_ahead_is_told_with_what_to_do_until_it_is_set_back(now: Now) -> None:
    jump.look("lab")
    now.is_set(YEAR)
    for _ in range(2):
        now.passes(60)
        found = jump.look("lab")
        assert found is not None
        assert found.reason.startswith(f"jumped {YEAR / HOUR:.1f} h ahead")
        assert found.remedy.endswith("./inv care.run lab --clock-is-right")
    now.is_set(-YEAR)
    assert jump.look("lab") is None
    now.is_set(400)
    assert jump.look("lab") is not None


def test_step_of_a_time_server_is_no_jump(now: Now) -> None:
    jump.look("lab")
    now.is_set(200)
    assert jump.look("lab") is None


def test_machine_that_booted_with_a_wrong_clock_is_held_and_one_that_restarted_is_not(now: Now) -> None:
    jump.look("lab")
    now.boots(120)
    assert jump.look("lab") is None
    now.boots(YEAR)
    assert jump.look("lab") is not None
    now.boots(60)
    assert jump.look("lab") is not None


def test_clock_that_has_stood_for_hours_is_believed(now: Now) -> None:
    jump.look("lab")
    now.boots(2 * 86_400)
    for _ in range(6):
        assert jump.look("lab") is not None
        now.passes(BELIEVED_SECONDS / 6)
    assert jump.look("lab") is None
    now.passes(60)
    assert jump.look("lab") is None


def test_clock_that_has_stood_for_hours_in_all_is_believed_by_a_machine_that_is_on_for_an_hour_a_day(now: Now) -> None:
    jump.look("lab")
    now.boots(2 * 86_400)
    # Of the first boot only what is behind the look that noticed it counts.
    for day in range(7):
        assert jump.look("lab") is not None, day
        now.passes(HOUR)
        assert jump.look("lab") is not None or day == 5, day
        if day == 5:
            break
        now.boots(0)
    assert jump.look("lab") is None


def test_clock_that_is_put_right_begins_anew(now: Now) -> None:
    jump.look("lab")
    for _ in range(3):
        now.is_set(YEAR)
        assert jump.look("lab") is not None
        now.passes(BELIEVED_SECONDS - 60)
        assert jump.look("lab") is not None
        now.is_set(-YEAR)
        assert jump.look("lab") is None


def test_hours_of_a_boot_that_nobody_looked_at_do_not_count(now: Now) -> None:
    jump.look("lab")
    now.boots(2 * 86_400)
    assert jump.look("lab") is not None
    now.passes(BELIEVED_SECONDS)
    now.boots(0)
    assert jump.look("lab") is not None


def test_record_of_before_is_read_and_not_a_first_look(now: Now) -> None:
    jump.look("lab")
    record = places().state / "clock.json"
    kept = json.loads(record.read_text())
    del kept["stood"]
    record.write_text(json.dumps(kept))
    now.is_set(YEAR)
    assert jump.look("lab") is not None


@pytest.mark.parametrize("what", ["locks/clock", "clock.json"])
def test_clock_that_cannot_be_looked_up_or_kept_guards_and_fails_no_task(now: Now, what: str) -> None:
    jump.look("lab")
    path = places().state / what
    path.unlink()
    path.mkdir()
    found = jump.look("lab")
    assert found is not None
    assert f"what it ends is kept, since {path} gives Is a directory" in found.reason
    assert str(places().state) in found.remedy
    with pytest.raises(HostError, match="cannot be taken for right: Is a directory"):
        jump.believe()
    path.rmdir()
    assert jump.look("lab") is None


def test_files_of_another_account_guard_and_fail_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as name:
        monkeypatch.setenv("DESKYARD_HOME", name)
        jump.look("lab")
        Path(name).chmod(0o711)
        lock = places().state / "locks" / "clock"

        def ask() -> str:
            found = jump.look("lab")
            return "" if found is None else found.reason

        assert said_by_another(ask, lambda: lock.chmod(0o000)).endswith("gives Permission denied")


def test_clock_is_right_at_once_if_a_person_says_so(now: Now) -> None:
    jump.look("lab")
    now.is_set(YEAR)
    assert jump.look("lab") is not None
    jump.believe()
    assert jump.look("lab") is None
    now.is_set(YEAR)
    assert jump.look("lab") is not None


def test_machine_whose_clock_begins_anew_at_each_boot_is_held_at_none(now: Now) -> None:
    jump.look("lab")
    for _ in range(3):
        right = now.moment.clock
        now.boots(-40 * YEAR)
        assert jump.look("lab") is None
        now.passes(20)
        now.is_set(right + 600 - now.moment.clock)
        assert jump.look("lab") is None


def test_clock_that_was_set_back_for_good_is_watched_again(now: Now) -> None:
    jump.look("lab")
    now.is_set(-YEAR)
    assert jump.look("lab") is None
    now.passes(BELIEVED_SECONDS)
    assert jump.look("lab") is None
    now.is_set(YEAR / 2)
    assert jump.look("lab") is not None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"right": 7, "noticed": null}', '{"right": {"boot": "x"}}'])
def test_record_that_cannot_be_read_is_a_first_look(now: Now, text: str) -> None:
    jump.look("lab")
    (places().state / "clock.json").write_text(text)
    now.is_set(YEAR)
    assert jump.look("lab") is None
