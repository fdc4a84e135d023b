"""What may be declared of disposable desktops, and of how many wait."""

from typing import Any

import pytest

from deskyard.errors import ConfigError
from deskyard.model.workspace import Workspace

SEAT = {"name": "s1", "lifetime": "task"}


def workspace(*desktops: dict[str, Any], **keys: Any) -> Workspace:
    return Workspace.check({"name": "lab", "network": "10.80.1.0/24", "desktops": list(desktops), **keys}, "test")


def test_desktop_is_kept_unless_it_says_otherwise() -> None:
    found = workspace({"name": "kept"}, SEAT)
    assert [desktop.name for desktop in found.persistent()] == ["kept"]


@pytest.mark.parametrize("lifetime", ["persistent", "task"])
def test_both_lifetimes_can_be_written(lifetime: str) -> None:
    assert workspace({"name": "a", "lifetime": lifetime}).desktops[0].lifetime == lifetime


def test_another_lifetime_is_refused() -> None:
    with pytest.raises(ConfigError, match="lifetime"):
        workspace({"name": "a", "lifetime": "short"})


def test_pool_needs_a_seat_for_each_desktop_that_waits() -> None:
    assert workspace({"name": "kept"}, SEAT, pool={"size": 1}).pool
    with pytest.raises(ConfigError, match="pool keeps 2 desktops ready, and 1 of the desktops have lifetime: task"):
        workspace({"name": "kept"}, SEAT, pool={"size": 2})


@pytest.mark.parametrize(("written", "seconds"), [("90s", 90), ("30m", 1800), ("2d", 172_800)])
def test_age_of_a_pool_is_a_duration(written: str, seconds: int) -> None:
    pool = workspace(SEAT, pool={"size": 1, "max_age": written}).pool
    assert pool is not None and pool.max_seconds == seconds


@pytest.mark.parametrize("wrong", [{"size": 0}, {"size": 1, "max_age": "soon"}, {"size": 1, "age": "1d"}])
def test_pool_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="pool"):
        workspace(SEAT, pool=wrong)
