"""The documentation builds as a site from the files of the tree, and a broken link stops it."""

import re
import shutil
from pathlib import Path

import pytest

from deskyard.errors import BuildError, ConfigError
from deskyard.host.places import tree
from deskyard.lab.docs_site import FOLDER, INDEX, LICENCE, PAGES, build


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The pages of the tree, to be changed."""
    folder = tmp_path / "tree"
    folder.mkdir()
    shutil.copytree(tree() / FOLDER, folder / FOLDER)
    for name in (INDEX, *PAGES, LICENCE):
        shutil.copy(tree() / name, folder / name)
    return folder


def test_every_page_is_there_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    first = build(tree(), tmp_path / "site")
    made = {path.relative_to(first.parent).with_suffix(".md").as_posix() for path in first.parent.rglob("*.html")}
    pages = {path.relative_to(tree()).as_posix() for path in (tree() / FOLDER).glob("*.md")}
    assert pages | set(PAGES) | {"index.md"} <= made
    for path in first.parent.rglob("*.html"):
        loaded = re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=\"(https?:[^\"]+)", path.read_text())
        assert loaded == [], path


@pytest.mark.parametrize("link", ["docs/gone.md", "docs/install.md#no-such-heading"])
def test_a_broken_link_stops_the_build_and_leaves_the_last_site(copied: Path, tmp_path: Path, link: str) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "searchindex.js").write_text("the last one")
    (copied / INDEX).write_text(f"{(copied / INDEX).read_text()}\n[more]({link})\n")
    with pytest.raises(BuildError, match=r"index\.md"):
        build(copied, site)
    assert (site / "searchindex.js").read_text() == "the last one"


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(ConfigError, match="holds something else"):
        build(tree(), tmp_path)
    assert (tmp_path / "mine.txt").exists()
