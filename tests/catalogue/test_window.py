"""The window of the editor in the desktop's own browser, as the menu opens it; without a screen it is read instead."""

from pathlib import Path

import pytest

from tests.catalogue.workbench import Workbench

pytestmark = pytest.mark.deep
DRAWN, ASKS = "monaco-workbench", 'type="password"'
LOOK = Path(__file__).with_name("look.js")


def look(bench: Workbench, page: str) -> str:
    """What a browser of its own shows of a page, once the editor has drawn itself or asks for its password."""
    bench.do(f"cat >/tmp/look.js <<'EOF'\n{LOOK.read_text()}\nEOF")
    script = f"timeout 150 node /tmp/look.js file://{page} 120 {DRAWN} '{ASKS}'"
    return bench.do(script, user="agent", seconds=180).stdout


@pytest.fixture(scope="module")
def page(bench: Workbench) -> str:
    """The page with which `code` opens a window."""
    bench.apply(["node", "editor"])
    bench.do("mkdir -p project && echo hello >project/note.txt", user="agent")
    return bench.do("cd project && code --no-window .", user="agent", seconds=240).stdout.strip()


def test_window_lets_its_owner_into_the_folder(bench: Workbench, page: str) -> None:
    shown = look(bench, page)
    assert DRAWN in shown, shown[:3000]


def test_window_with_another_password_asks_for_it(bench: Workbench, page: str) -> None:
    other = Path(page).with_name("other.html")
    bench.do(f'sed \'s/value="[0-9a-f]*"/value="wrong"/\' {page} >{other}', user="agent")
    shown = look(bench, str(other))
    assert DRAWN not in shown
    assert ASKS in shown
