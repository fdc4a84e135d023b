"""The program that runs an owner's script: bounded in time and in what it keeps, and no key in what it said."""

import os
import pwd
import time
from pathlib import Path
from typing import Any

import pytest

from deskyard.guest import root_file, script

ACCOUNT = pwd.getpwuid(os.geteuid())


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home, state = tmp_path / "home", tmp_path / "state"
    home.mkdir()
    state.mkdir()
    account = pwd.struct_passwd((*ACCOUNT[:5], str(home), "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwnam", lambda _: account)
    monkeypatch.setattr(script, "KEYS", str(tmp_path / "keys.env"))
    monkeypatch.setattr(root_file, "BUSY_SECONDS", 0.0)
    return state


def ran(state: Path, body: str, seconds: float = 20.0, **environment: str) -> dict[str, Any]:
    request = {"account": "agent", "state": str(state), "script": "first-boot-desktop", "seconds": seconds}
    request |= {"once": False, "run": "1"}
    return script.answer({**request, "text": f"#!/bin/sh\n{body}\n", "environment": environment})


def test_it_runs_in_the_home_with_the_environment_and_is_noted(state: Path, tmp_path: Path) -> None:
    found = ran(state, 'pwd; echo "$HOME $EDITOR"; echo "to stderr" >&2', EDITOR="nano")
    home = tmp_path / "home"
    assert found == {"code": 0, "in_time": True, "output": f"{home}\n{home} nano\nto stderr\n"}
    assert (state / "scripts/first-boot-desktop.log").read_text() == found["output"]
    assert (state / "scripts/first-boot-desktop.done").exists()


def test_one_that_fails_is_told_with_its_output_and_not_noted(state: Path) -> None:
    assert ran(state, "echo oh; exit 3") == {"code": 3, "in_time": True, "output": "oh\n"}
    assert not (state / "scripts/first-boot-desktop.done").exists()


def test_one_that_does_not_end_is_ended_with_all_it_started(state: Path) -> None:
    started = time.monotonic()
    found = ran(state, "sleep 600 & echo $!; trap '' TERM; while :; do sleep 0.1; done", seconds=0.5)
    assert (found["in_time"], time.monotonic() - started < 60) == (False, True)
    assert not Path(f"/proc/{found['output'].strip()}").exists()
    assert not (state / "scripts/first-boot-desktop.done").exists()


@pytest.mark.parametrize("body", ["yes", "yes & sleep 0.3"], ids=["itself", "in the background"])
def test_one_that_never_stops_talking_is_bounded(state: Path, body: str) -> None:
    found = ran(state, body, seconds=1)
    assert len(found["output"]) <= script.MAX_SAID
    assert 0 < (state / "scripts/first-boot-desktop.log").stat().st_size <= script.MAX_OUTPUT


def test_what_it_leaves_in_the_background_is_not_waited_for(state: Path) -> None:
    started = time.monotonic()
    assert ran(state, "exec 3>&1; sleep 600 & echo done")["output"] == "done\n"
    assert time.monotonic() - started < 60


def test_a_key_that_it_says_is_not_kept(state: Path, tmp_path: Path) -> None:
    (tmp_path / "keys.env").write_text("# head\nANTHROPIC_API_KEY='canary-7d1e'\n")
    found = ran(state, "echo my key is canary-7d1e; exit 1")
    assert "canary" not in str(found) + (state / "scripts/first-boot-desktop.log").read_text()
    assert "my key is ***" in found["output"]


def test_one_that_ended_well_is_not_run_again_for_the_same_asking(state: Path, tmp_path: Path) -> None:
    request = {"account": "agent", "state": str(state), "script": "x", "seconds": 20, "environment": {}}
    request |= {"text": "#!/bin/sh\necho >>ran\n"}
    asked = [(False, "1"), (False, "1"), (True, "2"), (False, "3"), (False, "3")]
    assert [script.answer({**request, "once": once, "run": run})["code"] for once, run in asked] == [0] * 5
    assert (tmp_path / "home/ran").read_text() == "\n" * 2


def test_two_do_not_run_at_once(state: Path) -> None:
    with root_file.alone(state):
        assert "still at work" in ran(state, "true")["error"]


def test_one_that_nothing_can_run_is_an_error(state: Path) -> None:
    request = {"account": "agent", "state": str(state), "script": "x", "seconds": 5, "environment": {}}
    request |= {"once": True, "run": "1"}
    assert "No such file" in script.answer({**request, "text": "#!/no/such/shell\n"})["error"]
