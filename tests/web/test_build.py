"""The pages as they are built: whole, small, the same each time, and with nothing from elsewhere."""

import json
import re
import subprocess
from pathlib import Path

from tests.support.first_load import FIRST_LOAD_BYTES, LATER, first_load, first_load_bytes
from tests.web.conftest import TREE

FILES = {"icon.svg", "index.html", "licenses.txt", "main.css", "main.js"}
# Names, not addresses: nothing is fetched from them.
NAMESPACES = ("http://www.w3.org/", "https://svelte.dev/e/", "https://github.com/sveltejs/svelte")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_build_writes_a_flat_folder(built: Path) -> None:
    assert {name for name in contents(built) if not re.fullmatch(LATER, name)} == FILES


def test_built_again_elsewhere_it_is_the_same(workshop: Path, built: Path, tmp_path: Path) -> None:
    subprocess.run(["node", "build.js", str(tmp_path)], cwd=workshop, check=True, timeout=120)
    assert contents(tmp_path) == contents(built)


def test_first_load_is_small(built: Path) -> None:
    assert first_load_bytes(built) <= FIRST_LOAD_BYTES


def test_what_few_look_at_is_loaded_later(built: Path) -> None:
    later = set(contents(built)) - first_load(built) - {"licenses.txt"}
    for words in (b"Who answers approvals", b"Only an admin makes workspaces", b"Asking its host what would be lost"):
        assert any(words in contents(built)[name] for name in later), words


def test_nothing_is_fetched_from_elsewhere(built: Path) -> None:
    text = b"\n".join(data for name, data in contents(built).items() if name != "licenses.txt").decode()
    addresses = re.findall(r"(?:https?|wss?):\/\/[\w.-]+[^\s\"'`]*", text)
    assert [address for address in addresses if not address.startswith(NAMESPACES)] == []
    assert "url(" not in (built / "main.css").read_text()


def test_page_holds_no_script_or_style_of_its_own(built: Path) -> None:
    page = (built / "index.html").read_text()
    assert re.findall(r"<script[^>]*>(.*?)</script>", page) == [""]
    assert "<style" not in page and "style=" not in page and "onload=" not in page


def test_licences_of_what_is_carried_are_there(built: Path) -> None:
    lock = json.loads((TREE / "web/package-lock.json").read_text())["packages"]
    assert f"svelte {lock['node_modules/svelte']['version']}" in (built / "licenses.txt").read_text()


def test_lock_names_no_registry() -> None:
    assert "resolved" not in (TREE / "web/package-lock.json").read_text()


def test_types_and_accessibility_hold_at_build(workshop: Path) -> None:
    found = subprocess.run(
        ["npm", "run", "check"], cwd=workshop, capture_output=True, text=True, timeout=300, check=False
    )
    assert found.returncode == 0, found.stdout
