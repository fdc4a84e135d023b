"""What a worker's child does to stop an agent: what the host's task does; what did not come true is a failure."""

from typing import Any

import pytest

from deskyard.control.halting.kinds import FREEZE, KINDS, THAW, lane
from deskyard.control.jobs.child import JOBS
from deskyard.errors import SiteError


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A desktop; `obeys` is whether what is asked comes true, `asked` what was."""
    state: dict[str, Any] = {"frozen": False, "obeys": True, "asked": []}

    def answer(target: str, stops: bool, actor: str) -> dict[str, Any]:
        state["asked"].append((target, stops, actor))
        if state["obeys"]:
            state["frozen"] = stops
        return {"desktop": target, "frozen": state["frozen"], **({"released": True, "shut_out": True} if stops else {})}

    monkeypatch.setattr("deskyard.life.freeze.freeze", lambda target, actor: answer(target, True, actor))
    monkeypatch.setattr("deskyard.life.freeze.thaw", lambda target, actor: answer(target, False, actor))
    return state


def test_agent_is_halted_and_goes_on_as_the_kernel_says(kernel: dict[str, Any]) -> None:
    wanted = {"desktop": "lab.dev", "workspace": "lab", "input": {}, "actor": "person:ada"}
    assert JOBS[FREEZE]({**wanted, "kind": FREEZE}) == {"result": {"frozen": True, "released": True, "shut_out": True}}
    assert JOBS[THAW]({**wanted, "kind": THAW}) == {"result": {"frozen": False}}
    assert kernel["asked"] == [("lab/dev", True, "person:ada"), ("lab/dev", False, "person:ada")]


@pytest.mark.parametrize(("kind", "before"), [(FREEZE, False), (THAW, True)])
def test_what_came_to_nothing_is_a_failure(kernel: dict[str, Any], kind: str, before: bool) -> None:
    kernel |= {"frozen": before, "obeys": False}
    with pytest.raises(SiteError, match="stand") as failed:
        JOBS[kind]({"desktop": "lab.dev", "kind": kind})
    assert (failed.value.field, failed.value.value) == ("agent", "lab/dev") and failed.value.remedy


def test_only_what_halts_has_a_lane_of_its_own() -> None:
    assert {lane(kind, "lab.dev") for kind in KINDS} == {"agent:lab.dev"}
    assert lane("desktop.stop", "lab.dev") is None
