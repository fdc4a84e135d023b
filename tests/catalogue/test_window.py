"""The window of the editor in the desktop's own browser, as the menu opens it; without a screen it is read instead."""

from pathlib import Path

import pytest

from tests.catalogue.workbench import Workbench

pytestmark = pytest.mark.deep
# A browser of its own looks at the page until the editor has drawn itself.
LOOK = "timeout 120 chromium --headless --disable-gpu --virtual-time-budget=60000 --dump-dom"


@pytest.fixture(scope="module")
def page(bench: Workbench) -> str:
    """The page with which `code` opens a window."""
    bench.apply(["node", "editor"])
    bench.do("mkdir -p project && echo hello >project/note.txt", user="agent")
    return bench.do("cd project && code --no-window .", user="agent", seconds=240).stdout.strip()


def test_window_lets_its_owner_into_the_folder(bench: Workbench, page: str) -> None:
    shown = bench.do(f"{LOOK} file://{page}", user="agent", seconds=180).stdout
    assert "monaco-workbench" in shown, shown[:3000]


def test_window_with_another_password_asks_for_it(bench: Workbench, page: str) -> None:
    other = Path(page).with_name("other.html")
    bench.do(f'sed \'s/value="[0-9a-f]*"/value="wrong"/\' {page} >{other}', user="agent")
    shown = bench.do(f"{LOOK} file://{other}", user="agent", seconds=180).stdout
    assert "monaco-workbench" not in shown
    assert 'type="password"' in shown
