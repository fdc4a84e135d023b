"""Which tests a change reaches."""

import subprocess
from pathlib import Path

import pytest

from deskyard.errors import ConfigError
from deskyard.host.command import run
from deskyard.host.places import tree as real_tree
from deskyard.lab.changed_tests import ALWAYS, EVERYTHING, READ_BY, changed_files, follow, needed_by, reached

# Packages without a line of code, what only a bench or a person runs, and files for people.
REACH_NOTHING = {
    ".ci/run",
    ".gitignore",
    "LICENSE",
    "deskyard/__init__.py",
    "deskyard/control/api/forms/__init__.py",
    "deskyard/control/ground/__init__.py",
    "stacks/__init__.py",
    "tests/bench/fleet.py",
    "tests/bench/gateway.py",
    "tests/bench/peer.py",
    "tests/bench/state.py",
    "tests/control/host_task.py",
    "tests/web/pictures.py",
    *ALWAYS,
}
FILES = {
    "deskyard/__init__.py": "",
    "deskyard/low.py": "",
    "deskyard/program/__init__.py": "",
    "deskyard/program/__main__.py": "from deskyard.program import inner\n",
    "deskyard/program/inner.py": "",
    "deskyard/program/pages/page.html": "",
    "deskyard/shown/__init__.py": "",
    "deskyard/shown/picture.svg": "",
    "tests/area/text.txt": "",
    "tests/area/greedy.py": "",
    "tests/area/test_program.py": "COMMAND = ['-m', 'deskyard.program']\n",
    "tests/area/test_shown.py": "FOLDER = 'deskyard/shown'\n",
    "tests/other/test_script.py": "SCRIPT = 'script.py'\n",
    "tests/other/script.py": "",
    "deskyard/high.py": "def late() -> None:\n    from deskyard import low\n",
    "tests/conftest.py": "",
    "tests/area/conftest.py": "",
    "tests/area/test_low.py": "from deskyard import low\n",
    "tests/area/test_high.py": "from deskyard.high import late\n",
    "tests/other/test_alone.py": "",
    "tasks.py": "",
    **dict.fromkeys(ALWAYS, ""),
}
AREA = sorted(name for name in FILES if name.startswith("tests/area/test_"))


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of a small tree, with one commit."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for argv in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        git(tmp_path, *argv)
    return tmp_path


def git(folder: Path, *argv: str) -> None:
    """Run git there, as somebody."""
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *argv], cwd=folder, check=True, timeout=30)


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        ("deskyard/low.py", ["tests/area/test_high.py", "tests/area/test_low.py"]),
        ("deskyard/high.py", ["tests/area/test_high.py"]),
        ("tests/area/conftest.py", AREA),
        ("tests/area/text.txt", AREA),
        ("deskyard/program/inner.py", ["tests/area/test_program.py"]),
        ("deskyard/program/pages/page.html", ["tests/area/test_program.py"]),
        ("deskyard/shown/picture.svg", ["tests/area/test_shown.py"]),
        ("tests/other/script.py", ["tests/other/test_script.py"]),
        ("tests/other/test_alone.py", ["tests/other/test_alone.py"]),
        ("deskyard/nobody.py", []),
    ],
)
def test_change_reaches_the_tests_that_stand_on_it_and_no_others(clone: Path, changed: str, tests: list[str]) -> None:
    assert reached(clone, [changed]) == sorted([*tests, *ALWAYS])


def test_module_that_is_gone_reaches_the_tests_that_still_want_it(clone: Path) -> None:
    (clone / "deskyard/low.py").unlink()
    assert changed_files(clone, "HEAD") == ["deskyard/low.py"]
    assert "tests/area/test_low.py" in (reached(clone, ["deskyard/low.py"]) or [])


@pytest.mark.parametrize("changed", ["requirements.lock", "host/debian.txt", "tests/conftest.py"])
def test_what_every_test_stands_on_reaches_all(clone: Path, changed: str) -> None:
    assert reached(clone, [changed]) is None


def test_changed_are_edited_new_and_committed_files_since_a_commit(clone: Path) -> None:
    assert changed_files(clone, "HEAD") == []
    (clone / "deskyard/low.py").write_text("x = 1\n")
    (clone / "deskyard/fresh.py").write_text("")
    assert changed_files(clone, "HEAD") == ["deskyard/fresh.py", "deskyard/low.py"]


def test_file_that_was_renamed_has_changed_by_both_names(clone: Path) -> None:
    (clone / "deskyard/low.py").write_text("x = 1\n" * 20)
    git(clone, "commit", "-qam", "two")
    git(clone, "mv", "deskyard/low.py", "deskyard/lower.py")
    changed = changed_files(clone, "HEAD")
    assert changed == ["deskyard/low.py", "deskyard/lower.py"]
    assert "tests/area/test_low.py" in (reached(clone, changed) or [])


def test_unknown_commit_is_refused(clone: Path) -> None:
    with pytest.raises(ConfigError, match=r"(?s)since.*nothing.*is no commit"):
        changed_files(clone, "nothing")


def test_what_is_read_names_files_of_the_tree() -> None:
    for start, reader in READ_BY.items():
        assert (real_tree() / start).exists(), start
        assert (real_tree() / reader).is_file(), reader
    assert all((real_tree() / name).exists() for name in (*EVERYTHING, *ALWAYS))


@pytest.fixture(scope="module")
def users() -> dict[str, set[str]]:
    """What stands on each file of the real tree."""
    return needed_by(real_tree(), ())


def test_every_file_of_the_tree_reaches_tests_but_those_that_nothing_could_notice(users: dict[str, set[str]]) -> None:
    tracked = run(["git", "ls-files", "-z"], cwd=real_tree(), timeout=60).stdout.split("\0")[:-1]
    noticed: set[str] = set()
    unnoticed: set[str] = set()
    for name in tracked:
        # Who reaches what reaches a test reaches it too: most need no search of their own.
        found = bool(noticed.intersection(users.get(name, ()))) or name.startswith(EVERYTHING)
        found = found or follow(real_tree(), [name], users) != sorted(ALWAYS)
        (noticed if found else unnoticed).add(name)
    assert unnoticed == REACH_NOTHING


@pytest.mark.parametrize(
    ("changed", "test"),
    [
        ("deskyard/gateway/session/sessions.py", "tests/gateway/test_redemption.py"),
        ("deskyard/control/process/supervisor.py", "tests/control/test_supervisor.py"),
        ("deskyard/control/store/versions/0001_first.sql", "tests/control/test_border.py"),
        ("web/src/main.ts", "tests/web/test_sign_in.py"),
        ("stacks/provider/__main__.py", "tests/unit/stacks/test_provider.py"),
    ],
)
def test_program_a_page_and_a_table_reach_the_tests_that_start_them(
    users: dict[str, set[str]], changed: str, test: str
) -> None:
    assert (real_tree() / changed).is_file()
    assert test in follow(real_tree(), [changed], users)


def test_firewall_of_the_gateway_reaches_its_laboratory(users: dict[str, set[str]]) -> None:
    found = follow(real_tree(), ["deskyard/gateway/config/templates/firewall.nft.j2"], users)
    assert "tests/gateway/test_whole_ruleset.py" in found
    assert "tests/unit/host/test_seed.py" not in found
