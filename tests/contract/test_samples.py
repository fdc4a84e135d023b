"""What is sampled is run in parts by CI, and whole by a deep run and by whoever names its file."""

from typing import Any

import pytest

from tests.support import samples

LATE = samples.SECONDS + 1


class Item:
    """A test that is marked, or not."""

    def __init__(self, nodeid: str, is_sampled: bool = True, **how: int) -> None:
        self.nodeid, self._is_sampled, self._how, self.stash = nodeid, is_sampled, how, pytest.Stash()
        self.is_deep = False

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        if name == "deep":
            return pytest.mark.deep.mark if self.is_deep else None
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


def test_each_file_of_some_folders_keeps_a_quarter_without_a_mark() -> None:
    def of(seed: int) -> list[str]:
        items: list[Any] = [Item(f"tests/gateway/test_a.py::test_{n}", is_sampled=False) for n in range(9)]
        items += [Item("tests/control/test_b.py::test_0", is_sampled=False)]
        samples.put_last(items, seed)
        return left(items, LATE)

    for seed in range(20):
        assert [id.partition("::")[0] for id in of(seed)] == ["tests/gateway/test_a.py"] * 3 + [
            "tests/control/test_b.py"
        ]
    assert len({id for seed in range(60) for id in of(seed)}) == 10


def test_kept_is_never_a_test_that_only_a_deep_run_has() -> None:
    for seed in range(20):
        items: list[Any] = [Item(f"tests/a.py::test_{number}") for number in range(3)]
        items[0].is_deep = True
        samples.put_last(items, seed)
        assert items[0].is_deep and len(left(items, LATE)) == 2


def test_each_process_of_a_run_ends_with_its_part_of_what_may_be_left_out() -> None:
    items: list[Any] = [Item(f"tests/a.py::test_{number}", keeps=0) for number in range(4)]
    items += [Item(f"tests/b.py::test_{number}", is_sampled=False) for number in range(6)]
    samples.put_last(items, 1, processes=2)
    assert [item.nodeid[6:7] for item in items] == ["b", "b", "b", "a", "a"] * 2
    assert [item.nodeid for item in items if "b.py" in item.nodeid] == [f"tests/b.py::test_{n}" for n in range(6)]


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
