"""A state that was cut off in the middle of its writing."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from deskyard.declaration.declaration import PROJECT
from deskyard.engine.checkpoint import mend

WHOLE, BEFORE, CUT = '{"version": 3, "step": 2}', '{"version": 3, "step": 1}', '{"version": 3, "st'


@pytest.fixture
def state(tmp_path: Path) -> Path:
    path = tmp_path / ".pulumi" / "stacks" / PROJECT / "lab.json"
    path.parent.mkdir(parents=True)
    path.with_name("lab.json.bak").write_text(BEFORE)
    return path


def lock(state: Path, **changes: object) -> None:
    folder = state.parents[2] / "locks" / "organization" / PROJECT / "lab"
    folder.mkdir(parents=True, exist_ok=True)
    held = {"pid": os.getpid(), "hostname": os.uname().nodename, **changes}
    (folder / "one.json").write_text(json.dumps(held))


def gone() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


@pytest.mark.parametrize("cut", [CUT, ""])
def test_the_state_before_the_last_step_comes_back_and_nothing_is_thrown_away(
    state: Path, tmp_path: Path, cut: str
) -> None:
    state.write_text(cut)
    lock(state, pid=gone())
    assert mend(f"file://{tmp_path}", "lab")
    assert state.read_text() == BEFORE
    assert state.with_name("lab.json.cut-off").read_text() == cut


def test_a_whole_state_stays(state: Path, tmp_path: Path) -> None:
    state.write_text(WHOLE)
    assert not mend(f"file://{tmp_path}", "lab")
    assert state.read_text() == WHOLE


@pytest.mark.parametrize("holder", [{}, {"hostname": "elsewhere", "pid": 1}], ids=["here", "elsewhere"])
def test_nothing_is_done_while_a_run_may_be_writing(state: Path, tmp_path: Path, holder: dict[str, object]) -> None:
    state.write_text(CUT)
    lock(state, **holder)
    assert not mend(f"file://{tmp_path}", "lab")
    assert state.read_text() == CUT


@pytest.mark.parametrize(
    "name",
    [
        "meta.yaml",
        f"stacks/{PROJECT}/lab.json",
        f"stacks/{PROJECT}/lab.json.bak",
        f"backups/{PROJECT}/lab/lab.1.json",
        f"history/{PROJECT}/lab/lab-1.history.json",
        f"locks/organization/{PROJECT}/lab/one.json",
    ],
)
@pytest.mark.parametrize("cut", ["", '{"user.content_ty'])
def test_attributes_that_are_cut_off_go_and_the_state_stays(state: Path, tmp_path: Path, name: str, cut: str) -> None:
    state.write_text(WHOLE)
    attributes = tmp_path / ".pulumi" / f"{name}.attrs"
    attributes.parent.mkdir(parents=True, exist_ok=True)
    attributes.write_text(cut)
    lock(state, pid=gone())
    assert mend(f"file://{tmp_path}", "lab")
    assert not attributes.exists()
    assert (state.read_text(), state.with_name("lab.json.bak").read_text()) == (WHOLE, BEFORE)


def test_whole_attributes_and_those_of_a_living_run_stay(state: Path, tmp_path: Path) -> None:
    state.write_text(WHOLE)
    attributes = state.with_name("lab.json.attrs")
    attributes.write_text('{"user.content_type": "application/json"}')
    assert not mend(f"file://{tmp_path}", "lab")
    lock(state)
    attributes.write_text("")
    assert not mend(f"file://{tmp_path}", "lab")
    assert attributes.exists()


def test_a_first_step_that_was_cut_off_leaves_no_state(state: Path, tmp_path: Path) -> None:
    state.with_name("lab.json.bak").unlink()
    state.write_text(CUT)
    assert mend(f"file://{tmp_path}", "lab")
    assert not state.exists()


def test_two_that_are_cut_off_are_left_to_a_person(state: Path, tmp_path: Path) -> None:
    state.write_text(CUT)
    state.with_name("lab.json.bak").write_text(CUT)
    assert not mend(f"file://{tmp_path}", "lab")
    assert state.read_text() == CUT


def test_other_backends_are_left_alone() -> None:
    assert not mend("s3://bucket", "lab")
