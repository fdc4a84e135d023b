"""How Pulumi's engine gets to see a plugin."""

from pathlib import Path

import pytest

from deskyard.host.toolchain import TOOLS, offer_plugins
from deskyard.host.toolchain.finder import _cached

PLUGIN = TOOLS["proxmoxve"]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, nothing on PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "deskyard"))
    return tmp_path


def put() -> Path:
    """A built plugin in the cache."""
    program = _cached(PLUGIN, "go modules")
    program.parent.mkdir(parents=True)
    program.write_text("plugin")
    return program


def test_without_a_plugin_pulumis_home_stays_as_it_is(cache: Path) -> None:
    offer_plugins(cache / "home")
    assert not (cache / "home").exists()


def test_the_engine_finds_the_plugin_under_its_kind_name_and_version(cache: Path) -> None:
    program = put()
    for _ in range(2):
        offer_plugins(cache / "home")
    folder = cache / "home/plugins" / f"resource-proxmoxve-v{PLUGIN.version}"
    assert not folder.is_symlink()
    assert [path.name for path in folder.iterdir()] == [PLUGIN.file]
    assert (folder / PLUGIN.file).resolve() == program.resolve()


def test_a_link_to_a_plugin_that_is_gone_is_made_anew(cache: Path) -> None:
    offered = cache / f"home/plugins/resource-proxmoxve-v{PLUGIN.version}" / PLUGIN.file
    offered.parent.mkdir(parents=True)
    offered.symlink_to(cache / "gone")
    put()
    offer_plugins(cache / "home")
    assert offered.read_text() == "plugin"
