"""Where things are kept follows the user's environment."""

from pathlib import Path

import pytest

from deskyard.host.places import places, stamp, tree


def test_folders_are_the_xdg_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DESKYARD_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg/cache")
    monkeypatch.setenv("XDG_DATA_HOME", "/xdg/data")
    monkeypatch.setenv("XDG_STATE_HOME", "/xdg/state")
    assert places().toolchain == Path("/xdg/cache/deskyard/toolchain")
    assert places().images == Path("/xdg/data/deskyard/images")
    assert places().sites == Path("/xdg/state/deskyard/sites")


def test_folders_are_below_home_where_xdg_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("DESKYARD_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", "/somebody")
    assert places().bases == Path("/somebody/.cache/deskyard/bases")


def test_one_variable_moves_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESKYARD_HOME", "/apart")
    assert all(folder.is_relative_to("/apart") for folder in (places().bases, places().images, places().pulumi))


def test_nothing_is_kept_inside_the_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DESKYARD_HOME", raising=False)
    assert not any(folder.is_relative_to(tree()) for folder in (places().cache, places().data, places().state))


def test_a_stamp_is_another_once_a_file_is_there_changed_replaced_or_gone(tmp_path: Path) -> None:
    file, seen = tmp_path / "file", list[object]()

    def look() -> None:
        assert stamp(file) == stamp(file)
        seen.append(stamp(file))

    look()
    file.write_text("a")
    look()
    file.write_text("ab")
    look()
    file.with_name("draft").write_text("ab")
    file.with_name("draft").rename(file)
    look()
    assert len(set(seen)) == 4
    file.unlink()
    assert stamp(file) == seen[0]
