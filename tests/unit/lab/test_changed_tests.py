"""Which tests a change reaches."""

import subprocess
from pathlib import Path

import pytest

from deskyard.errors import ConfigError
from deskyard.host.places import tree as real_tree
from deskyard.lab.changed_tests import ALWAYS, EVERYTHING, READ_BY, changed_files, reached

FILES = {
    "deskyard/__init__.py": "",
    "deskyard/low.py": "",
    "deskyard/high.py": "def late() -> None:\n    from deskyard import low\n",
    "tests/conftest.py": "",
    "tests/area/conftest.py": "",
    "tests/area/test_low.py": "from deskyard import low\n",
    "tests/area/test_high.py": "from deskyard.high import late\n",
    "tests/other/test_alone.py": "",
    "tasks.py": "",
    **dict.fromkeys(ALWAYS, ""),
}


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of a small tree, with one commit."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for argv in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one"]):
        subprocess.run(["git", *argv], cwd=tmp_path, check=True, timeout=30)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        ("deskyard/low.py", ["tests/area/test_high.py", "tests/area/test_low.py"]),
        ("deskyard/high.py", ["tests/area/test_high.py"]),
        ("tests/area/conftest.py", ["tests/area/test_high.py", "tests/area/test_low.py"]),
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


def test_unknown_commit_is_refused(clone: Path) -> None:
    with pytest.raises(ConfigError, match=r"(?s)since.*nothing.*is no commit"):
        changed_files(clone, "nothing")


def test_what_is_read_names_files_of_the_tree() -> None:
    for start, reader in READ_BY.items():
        assert (real_tree() / start).exists(), start
        assert (real_tree() / reader).is_file(), reader
    assert all((real_tree() / name).exists() for name in (*EVERYTHING, *ALWAYS))


def test_firewall_of_the_gateway_reaches_its_laboratory() -> None:
    found = reached(real_tree(), ["deskyard/gateway/config/templates/firewall.nft.j2"])
    assert found is not None
    assert "tests/gateway/test_whole_ruleset.py" in found
    assert "tests/unit/host/test_seed.py" not in found
