"""What a release needs is found out, each part by itself."""

import shutil
import subprocess
from pathlib import Path

import pytest

from deskyard.host.places import tree
from deskyard.lab.docs_site import FOLDER, INDEX, LICENCE, PAGES
from deskyard.lab.release import CHECKS, declared_version, examine

FILES = (
    "pyproject.toml",
    "CHANGELOG.md",
    "requirements.lock",
    "schemas",
    "sdk/mission.json",
    "ansible/roles",
    "tests/infra",
    ".gitignore",
)


PLACE = "place"


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.test")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, timeout=60)


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """A copy of what is looked at, as it has to be."""
    for name in FILES:
        copy = shutil.copytree if (tree() / name).is_dir() else shutil.copy
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        copy(tree() / name, tmp_path / name)
    for name in ("tests/molecule", "ansible/molecule"):
        for folder in (tree() / name).iterdir():
            (tmp_path / name / folder.name).mkdir(parents=True)
    # A site of few pages: a page that leads nowhere is found in them as in all.
    (tmp_path / FOLDER).mkdir()
    for name in (f"{FOLDER}/install.md", INDEX, LICENCE, *PAGES):
        (tmp_path / name).write_text(f"# {name}\n\n[back](#{PLACE})\n\n## {PLACE}\n")
    changes = f"# Changelog\n\n## {declared_version(tmp_path)} (2026-01-02)\n\n### Upgrade\n\n- None.\n"
    (tmp_path / "CHANGELOG.md").write_text(changes)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "all")
    return tmp_path


def _edited(path: Path, old: str, new: str) -> str:
    text = path.read_text()
    assert old in text
    return text.replace(old, new, 1)


def failing(folder: Path) -> dict[str, str]:
    return {check.check: check.detail for check in examine(folder) if not check.passed}


def change(folder: Path, name: str, old: str, new: str) -> None:
    (folder / name).write_text(_edited(folder / name, old, new))
    git(folder, "commit", "-qam", "changed")


def test_tree_that_is_ready_passes(released: Path) -> None:
    assert failing(released) == {}
    assert list(CHECKS) == ["version", "changelog", "lock", "schemas", "role pages", "api", "docs", "commit"]


@pytest.mark.parametrize(
    ("check", "name", "old", "new", "says"),
    [
        ("changelog", "CHANGELOG.md", "### Upgrade", "### Changes", "no section ### Upgrade"),
        ("changelog", "CHANGELOG.md", "# Changelog\n", "# Changelog\n\n- new\n", "changes above"),
        ("changelog", "CHANGELOG.md", "(2026-01-02)", "", "its newest release is none"),
        ("lock", "pyproject.toml", '"jinja2>=3.1"', '"jinja2>=99"', "jinja2>=99"),
        ("lock", "pyproject.toml", '"jinja2>=3.1"', '"no-such-package>=1"', "no-such-package"),
        ("schemas", "schemas/site.schema.json", "{", "{ ", "site.schema.json"),
        ("api", "sdk/mission.json", '"/api/alerts"', '"/api/alarms"', "GET /api/alarms is gone"),
        ("docs", f"{FOLDER}/install.md", f"#{PLACE}", "gone.md", "gone.md"),
        ("role pages", "ansible/roles/fonts/README.md", "# fonts", "# font", "fonts"),
    ],
)
def test_what_is_not_ready_is_named(released: Path, check: str, name: str, old: str, new: str, says: str) -> None:
    change(released, name, old, new)
    found = failing(released)
    assert list(found) == [check] and says in found[check]


def test_version_that_is_tagged_or_none_is_refused(released: Path) -> None:
    version = next(check.detail for check in examine(released) if check.check == "version")
    git(released, "tag", f"v{version}")
    assert failing(released) == {"version": f"v{version} is tagged already"}


def test_uncommitted_files_are_named(released: Path) -> None:
    (released / "new.txt").write_text("x")
    assert failing(released) == {"commit": "1 files are not committed, new.txt among them"}
