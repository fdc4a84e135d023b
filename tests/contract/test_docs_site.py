"""The documentation builds as a site from the files of the tree, and a broken link stops it."""

import re
import shutil
from pathlib import Path

import pytest

from deskyard.errors import BuildError, ConfigError
from deskyard.host.places import tree
from deskyard.lab.docs_site import FOLDER, INDEX, LICENCE, PAGES, build

LAST = "the last one"
BROKEN = ["docs/gone.md", "docs/install.md#no-such-heading"]


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A build of the tree's pages with two broken links: its error, and the site that was there before."""
    folder, site = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("site")
    shutil.copytree(tree() / FOLDER, folder / FOLDER)
    for name in (INDEX, *PAGES, LICENCE):
        shutil.copy(tree() / name, folder / name)
    (site / "searchindex.js").write_text(LAST)
    links = "\n".join(f"[more]({link})" for link in BROKEN)
    (folder / INDEX).write_text(f"{(folder / INDEX).read_text()}\n{links}\n")
    with pytest.raises(BuildError) as caught:
        build(folder, site)
    return str(caught.value), (site / "searchindex.js").read_text()


def test_every_page_is_there_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    first = build(tree(), tmp_path / "site")
    made = {path.relative_to(first.parent).with_suffix(".md").as_posix() for path in first.parent.rglob("*.html")}
    pages = {path.relative_to(tree()).as_posix() for path in (tree() / FOLDER).glob("*.md")}
    assert pages | set(PAGES) | {"index.md"} <= made
    for path in first.parent.rglob("*.html"):
        loaded = re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=\"(https?:[^\"]+)", path.read_text())
        assert loaded == [], path


@pytest.mark.parametrize("link", BROKEN)
def test_a_broken_link_stops_the_build_and_leaves_the_last_site(refused: tuple[str, str], link: str) -> None:
    error, last = refused
    # Each warning is an error: what is named stops the build by itself.
    assert [line for line in error.splitlines() if "index.md" in line and link.rpartition("#")[2] in line]
    assert last == LAST


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(ConfigError, match="holds something else"):
        build(tree(), tmp_path)
    assert (tmp_path / "mine.txt").exists()
