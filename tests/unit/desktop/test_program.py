"""A program goes to a desktop with what it imports of its room, as one text that Python there runs."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from deskyard.guest import care, customise, freeze, health, keys, probe, script, system, thaw
from deskyard.guest.agent import acp, task
from deskyard.site.guest_program import START, sent, source

PROGRAMS = (acp, care, customise, freeze, health, keys, probe, script, system, task, thaw)


def run(program: ModuleType, text: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run a program as a desktop does: no package of ours, nothing of the environment, text by its length."""
    length = len(source(program))
    argv = [sys.executable, "-I", "-S", "-c", START, str(length)]
    return subprocess.run(argv, input=text, cwd=folder, env={}, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__.rpartition(".")[2])
def test_text_is_ascii_so_that_its_length_is_the_same_in_every_locale(program: ModuleType) -> None:
    assert source(program).isascii()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__.rpartition(".")[2])
def test_syntax_is_that_of_the_oldest_python_of_a_desktop(program: ModuleType) -> None:
    ast.parse(source(program), feature_version=(3, 10))


def test_program_runs_where_nothing_of_ours_is_installed(tmp_path: Path) -> None:
    path = tmp_path / "etc" / "keys.env"
    _, text = sent(keys, {"path": str(path), "group": "root", "text": "A='1'\n"})
    done = run(keys, text, tmp_path)
    if os.geteuid() == 0:
        assert (done.stderr, json.loads(done.stdout)) == ("", {"done": "changed"})
        assert path.read_text() == "A='1'\n"
    else:
        assert json.loads(done.stdout)["error"].endswith("Operation not permitted")


def test_program_that_imports_nothing_of_ours_is_sent_as_it_is() -> None:
    assert source(thaw) == Path(thaw.__file__).read_text()


@pytest.mark.parametrize("program", [acp, care, customise, freeze, health, keys, script, system, task])
def test_half_a_request_is_refused_by_every_program(program: ModuleType, tmp_path: Path) -> None:
    for request in ('{"do": "look"', "", "[]"):
        done = run(program, f"{source(program)}{request}", tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (1, "", "the request did not arrive as a whole\n")
