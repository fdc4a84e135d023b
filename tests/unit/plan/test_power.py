"""How far a machine is, by what its hypervisor says and what it is wanted to be."""

import pytest

from deskyard.plan.power import Power, follows, stage_of
from deskyard.wire.stages import Stage


@pytest.mark.parametrize(
    ("state", "desired", "stage"),
    [
        ("running", Power.RUNNING, Stage.BOOTING),
        ("running", Power.OFF, Stage.STOPPING),
        ("running", Power.PAUSED, Stage.BOOTING),
        ("stopped", Power.RUNNING, Stage.STOPPED),
        ("paused", Power.PAUSED, Stage.PAUSED),
        ("saved", Power.PAUSED, Stage.PAUSED),
        ("io-error", Power.RUNNING, Stage.IO_ERROR),
    ],
)
def test_machine_that_is_there_has_a_stage_and_is_never_ready_by_itself(
    state: str, desired: Power, stage: Stage
) -> None:
    assert stage_of({"state": state, "desired": desired}) is stage


def test_machine_that_is_declared_and_not_there_is_provisioned() -> None:
    assert stage_of(None) is Stage.PROVISIONING


@pytest.mark.parametrize(
    ("now", "then", "news"),
    [
        (Stage.READY, Stage.STOPPING, True),
        (Stage.STOPPED, Stage.STOPPING, False),
        (Stage.PAUSED, Stage.STOPPING, False),
        (Stage.STOPPED, Stage.PROVISIONING, True),
        (Stage.BOOTING, Stage.PROVISIONING, False),
        (Stage.READY, Stage.ERROR, True),
    ],
)
def test_what_rests_does_not_stop_and_what_runs_is_not_made(now: Stage, then: Stage, news: bool) -> None:
    assert follows(now, then) is news
