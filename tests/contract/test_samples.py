"""What is sampled is run in parts by CI, and whole by a deep run and by whoever names its file."""

from typing import Any

import pytest

from tests.support import samples

LATE = samples.SECONDS + 1


class Item:
    """A test that is marked, or not."""

    def __init__(self, nodeid: str, is_sampled: bool = True, **how: int) -> None:
        self.nodeid, self._is_sampled, self._how, self.stash = nodeid, is_sampled, how, pytest.Stash()

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        assert name == samples.MARK
        return pytest.mark.sampled(**self._how).mark if self._is_sampled else None


def left(items: list[Any], seconds: float) -> list[str]:
    """The tests that a run begins which is so old, in its order."""
    begun = []
    for item in items:
        try:
            samples.leave_out(item, seconds)
            begun.append(item.nodeid)
        except pytest.skip.Exception as skipped:
            assert "check.deep" in str(skipped)
    return begun


def run(seed: int) -> list[Any]:
    """Two sampled files of three, and a test that is in every run behind them, in the order of a run."""
    items: list[Any] = [Item(f"tests/{name}.py::test_{number}") for name in "ab" for number in range(3)]
    items.append(Item("tests/c.py::test_0", is_sampled=False))
    samples.put_last(items, seed)
    return items


def test_run_that_is_late_has_a_test_of_each_file_by_its_seed_and_each_has_its_turn() -> None:
    late = [left(run(seed), LATE) for seed in range(60)]
    for found in late:
        assert [id.partition("::")[0] for id in found] == ["tests/a.py", "tests/b.py", "tests/c.py"]
    assert left(run(7), LATE) == late[7]
    assert len({id for found in late for id in found}) == 7


def test_run_that_has_time_has_all_and_ends_with_what_may_be_left_out_file_by_file() -> None:
    orders = set()
    for seed in range(20):
        order = left(run(seed), samples.SECONDS)
        assert len(order) == 7 and order[2] == "tests/c.py::test_0"
        assert order[:3] == left(run(seed), LATE)
        orders.add(tuple(id.partition("::")[0] for id in order[3:]))
    assert orders == {("tests/a.py",) * 2 + ("tests/b.py",) * 2, ("tests/b.py",) * 2 + ("tests/a.py",) * 2}


def test_file_that_keeps_none_stays_together_and_is_left_to_a_run_that_has_time() -> None:
    items: list[Any] = [Item(f"tests/a.py::test_{number}", keeps=0) for number in range(3)]
    items.append(Item("tests/b.py::test_0", is_sampled=False))
    samples.put_last(items, 1)
    assert left(items, LATE) == ["tests/b.py::test_0"]
    assert left(items, 0) == ["tests/b.py::test_0", *(f"tests/a.py::test_{number}" for number in range(3))]


@pytest.mark.parametrize(
    ("wanted", "arguments", "has_all"),
    [
        ("not vm and not deep", ["tests"], False),
        ("vm and not deep", ["tests/e2e"], False),
        ("deep", ["tests"], True),
        ("not vm and not deep", ["tests/proxmox/test_faults.py"], True),
        ("not vm and not deep", ["tests", "tests/proxmox/test_faults.py::test_x"], True),
    ],
)
def test_deep_run_and_who_names_a_file_have_all(wanted: str, arguments: list[str], has_all: bool) -> None:
    assert samples.has_all(wanted, arguments) == has_all
