"""A stack file is made whole and takes no other's place; one that is put away is nowhere a workspace."""

import os
import stat
from pathlib import Path

import pytest

from deskyard.declaration import declaration, stack_file
from deskyard.errors import ConfigError
from deskyard.model.workspace import Workspace
from tests.support.requirements import need_root

TEXT = """config:
  deskyard:network: 10.80.4.0/24
  deskyard:desktops:
    - name: dev1
"""
LAB = Workspace.check({"name": "lab", "network": "10.80.4.0/24", "desktops": [{"name": "dev1"}]}, "test")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DESKYARD_STACKS", str(tmp_path / "stacks"))
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))
    (tmp_path / "stacks").mkdir()
    return tmp_path / "stacks"


def test_a_file_is_written_whole_and_declares_the_workspace(folder: Path) -> None:
    stack_file.make(declaration.stack_file("lab"), TEXT, LAB)
    assert declaration.stack_names() == ["lab"]
    assert declaration.read_workspace("lab") == LAB
    assert [path.name for path in folder.iterdir()] == ["Pulumi.lab.yaml"]


def test_no_file_takes_the_place_of_another(folder: Path) -> None:
    (folder / "Pulumi.lab.yaml").write_text("mine")
    with pytest.raises(ConfigError, match="is declared already"):
        stack_file.make(folder / "Pulumi.lab.yaml", TEXT, LAB)
    assert (folder / "Pulumi.lab.yaml").read_text() == "mine"
    assert [path.name for path in folder.iterdir()] == ["Pulumi.lab.yaml"]


@pytest.mark.parametrize("text", [TEXT.replace("dev1", "dev2"), TEXT.replace("10.80.4.0/24", "8.8.8.0/24")])
def test_a_text_that_declares_something_else_is_not_written(folder: Path, text: str) -> None:
    with pytest.raises(ConfigError):
        stack_file.make(folder / "Pulumi.lab.yaml", text, LAB)
    assert list(folder.iterdir()) == []


def test_owner_and_mode_are_those_of_the_files_beside_it(folder: Path) -> None:
    need_root("gives files away")
    folder.chmod(0o750)
    os.chown(folder, 65534, 65534)
    stack_file.make(folder / "Pulumi.lab.yaml", TEXT, LAB)
    assert _marks(folder / "Pulumi.lab.yaml") == (65534, 65534, 0o640)
    (folder / "Pulumi.lab.yaml").chmod(0o664)
    os.chown(folder / "Pulumi.lab.yaml", 1, 2)
    other = LAB.model_copy(update={"name": "other"})
    stack_file.make(folder / "Pulumi.other.yaml", TEXT, other)
    assert _marks(folder / "Pulumi.other.yaml") == (1, 2, 0o664)
    place = stack_file.put_away(folder / "Pulumi.other.yaml")
    assert (_marks(place), _marks(place.parent)) == ((1, 2, 0o664), (65534, 65534, 0o750))


def test_what_is_put_away_stays_as_it_was_and_is_no_workspace(folder: Path) -> None:
    places = []
    for number in range(2):
        stack_file.make(folder / "Pulumi.lab.yaml", TEXT, LAB)
        with (folder / "Pulumi.lab.yaml").open("a") as file:
            file.write(f"# {number}\n")
        assert not stack_file.is_put_away(folder / "Pulumi.lab.yaml")
        places.append(stack_file.put_away(folder / "Pulumi.lab.yaml"))
        assert stack_file.is_put_away(folder / "Pulumi.lab.yaml")
    assert not stack_file.is_put_away(folder / "Pulumi.other.yaml")
    assert declaration.stack_names() == []
    # The same name in the same second is another file.
    assert [place.read_text() for place in places] == [f"{TEXT}# 0\n", f"{TEXT}# 1\n"]
    assert {place.parent for place in places} == {folder / "removed"}
    assert all(place.name.startswith("Pulumi.lab.2") for place in places)


def _marks(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)
