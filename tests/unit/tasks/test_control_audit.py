"""What `control.audit` prints of the proof, and how it ends."""

import json
from typing import Any

import pytest
from invoke import Context, Exit

from deskyard.control.anchors.gateways import Line
from deskyard.control.anchors.proof import LISTED, Asked, compare
from deskyard.control.control import Control
from deskyard.control.recorder.chain import Verdict
from deskyard.tasks.control import audit

AT = "2026-01-01T00:00:00.000+00:00"
FIRST, SECOND, OTHER = ("1" * 64, "2" * 64, "f" * 64)
WHOLE = Verdict(True, 9, SECOND)
THERE = {4: FIRST, 8: SECOND}


def held(*lines: tuple[int, str]) -> list[Line]:
    return [Line(number, digest, AT) for number, digest in lines]


def proof(*asked: Asked, verdict: Verdict = WHOLE) -> dict[str, Any]:
    return {"source": "mission.1", **compare(verdict, THERE, asked), "unproved": {"line": 9, "at": AT, "lines": 1}}


@pytest.fixture
def prints(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the task on a proof: what it prints, and its exit code."""

    def run(found: dict[str, Any], as_json: bool = False) -> tuple[str, int]:
        for gateway in found["gateways"]:
            gateway["anew"] = []
        monkeypatch.setattr(Control, "audit", lambda _: found)
        code = 0
        try:
            audit(Context(), json=as_json)
        except Exit as error:
            code = error.code
        return capsys.readouterr().out, code

    return run


def test_clean_chain_ends_well_and_says_from_where_nothing_is_proved(prints: Any) -> None:
    found = proof(Asked("lab", held((4, FIRST), (8, SECOND))), Asked("study", silence="workspace: is not up"))
    out, code = prints(found)
    assert code == 0
    assert "9 lines: whole by its own hashes\ngateways prove it up to line 8" in out
    assert f"no gateway proves line 9 of {AT}" in out
    assert "lab  matches (2 anchors" in out and "study  not asked: workspace: is not up" in out
    assert json.loads(prints(found, as_json=True)[0]) == found


def test_gateway_that_differs_is_named_with_line_and_both_hashes(prints: Any) -> None:
    out, code = prints(proof(Asked("lab", held((4, FIRST), (8, OTHER)))))
    assert code == 1
    assert all(text in out for text in ("lab  differs", f"line 8: here {SECOND}", OTHER, "of lines 5 to 8 one was"))
    assert "up to line 4" in out


def test_what_one_gateway_holds_otherwise_no_other_proves() -> None:
    found = proof(Asked("lab", held((4, OTHER))), Asked("study", held((8, SECOND))))
    assert (found["ok"], found["proved"]) == (False, 0)
    assert [gateway["state"] for gateway in found["gateways"]] == ["differs", "matches"]


def test_gateway_that_is_not_whole_and_a_chain_that_is_broken_prove_nothing_more() -> None:
    assert proof(Asked("lab", held((8, SECOND)), problem="its own audit is not whole"))["proved"] == 0
    broken = Verdict(False, 5, FIRST, "line 6 was changed")
    found = proof(Asked("lab", held((4, FIRST), (8, SECOND))), verdict=broken)
    assert (found["ok"], found["proved"]) == (False, 4)


def test_line_that_is_missing_is_said_to_be_cut_off(prints: Any) -> None:
    out, code = prints(proof(Asked("lab", held((12, OTHER)))))
    assert (code, "line 12: here missing" in out, "its end was cut off since" in out) == (1, True, True)


def test_lines_that_differ_are_counted_and_some_are_listed() -> None:
    [lab] = proof(Asked("lab", held(*((number, OTHER) for number in range(10, 100)))))["gateways"]
    assert (lab["differing"], len(lab["differences"])) == (90, LISTED)


def test_without_any_gateway_nothing_is_proved_and_nothing_is_wrong() -> None:
    found = proof()
    assert (found["ok"], found["proved"], found["gateways"]) == (True, 0, [])
