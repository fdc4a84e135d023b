"""`bench.life --target` measures each thing so many times against the desktop's start, and judges what was aimed at."""

from collections.abc import Callable
from typing import Any

import pytest

from deskyard.errors import SiteError
from deskyard.lab import life_bench
from deskyard.lab.life_bench import ADDED, DOWN, FROZEN, REINSTALL, START, SWAP, UNCHANGED, rows
from deskyard.lab.quantile import table
from deskyard.life import power

TARGET = "lab/dev1"
Works = list[tuple[str, Callable[[], Any]]]


def test_waits_are_quantiles_and_ratios_of_the_start_in_the_middle() -> None:
    rounds = rows({START: [100.0, 50.0, 200.0], "stop": [10.0, 30.0, 20.0]})
    assert [(row.p50, row.p95, row.most, row.ratio, row.count) for row in rounds] == [
        (100.0, 200.0, 200.0, 1.0, 3),
        (20.0, 30.0, 30.0, 0.2, 3),
    ]


@pytest.mark.parametrize(
    ("name", "most", "aim"),
    [
        (f"{UNCHANGED}{FROZEN}", 0.2, "<= 0.2 s"),
        (f"backup, 100 MiB more{FROZEN}", 0.2, "<= 0.2 s"),
        (f"{UNCHANGED}{ADDED}", 1.0, "<= 1 MB"),
        (SWAP, 0.1, "<= 0.1 s"),
    ],
)
def test_each_aim_is_judged_by_the_worst_of_all_rounds(name: str, most: float, aim: str) -> None:
    for worst, met in ((most, True), (most * 1.01, False)):
        judged = {row.name: row for row in rows({START: [100.0], DOWN: [50.0], name: [most / 2, worst]})}[name]
        assert (judged.aim, judged.met) == (aim, met)
        assert (f"(aim {aim}: {'met' if met else 'NOT met'})" in table([judged])) is True


def test_swap_is_held_against_the_time_in_which_no_route_answered() -> None:
    assert {row.name: row for row in rows({START: [100.0], DOWN: [40.0], SWAP: [0.02]})}[SWAP].ratio == 0.0005


def test_megabytes_are_no_ratio_and_only_those_of_an_unchanged_backup_are_judged() -> None:
    name = f"backup, 100 MiB more{ADDED}"
    row = {row.name: row for row in rows({START: [100.0], name: [105.0]})}[name]
    assert (row.p50, row.ratio, row.aim) == (105.0, 105.0, "")


@pytest.fixture
def works(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Works that are done at once; what was done, and what was run on the desktop."""
    done: list[str] = []

    def work(name: str, answer: Any = None) -> tuple[str, Callable[[], Any]]:
        def do() -> Any:
            done.append(name)
            return answer

        return name, do

    kept = {"frozen_seconds": 0.15, "backup": {"added": 400_000}}
    plain: Works = [work("stop"), work(START)]
    swapped: Works = [work(REINSTALL, {"down_seconds": 40.0, "swap_seconds": 0.02})]
    monkeypatch.setattr(power, "opened", lambda _: None)
    monkeypatch.setattr(life_bench, "_works", lambda _, again: [*plain, *(swapped if again else [])])
    monkeypatch.setattr(life_bench, "_backups", lambda _: [work(UNCHANGED, kept)])
    monkeypatch.setattr(life_bench, "_on_desktop", lambda _, script: done.append(script))
    return done


def test_each_round_does_everything_and_what_tasks_say_of_themselves_is_measured(works: list[str]) -> None:
    by_name = {row.name: row for row in life_bench.measure(TARGET, 3, reinstall=True, backups=True)}
    assert works == [*["stop", START, REINSTALL, UNCHANGED] * 3, f"rm -f {life_bench.FILE}"]
    assert {row.count for row in by_name.values()} == {3}
    assert (by_name[f"{UNCHANGED}{ADDED}"].p50, by_name[f"{UNCHANGED}{FROZEN}"].met) == (0.4, True)
    assert (by_name[DOWN].p50, by_name[SWAP].ratio) == (40.0, 0.0005)


def test_what_is_not_wanted_is_neither_done_nor_measured(works: list[str]) -> None:
    assert [row.name for row in life_bench.measure(TARGET, 1)] == ["stop", START]
    assert works == ["stop", START]


def test_file_that_was_written_goes_even_if_a_round_fails(works: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Works:
        raise SiteError("desktop", TARGET, "does not start", "look")

    monkeypatch.setattr(life_bench, "_works", fail)
    with pytest.raises(SiteError):
        life_bench.measure(TARGET, 1, backups=True)
    assert works == [f"rm -f {life_bench.FILE}"]
