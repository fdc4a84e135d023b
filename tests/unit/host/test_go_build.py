"""How a program is built from Go modules: with what go is asked, and where."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deskyard.errors import CommandError
from deskyard.host.command import Result
from deskyard.host.places import tree
from deskyard.host.toolchain import TOOLS, go_build

PLUGIN = TOOLS["proxmoxve"].go_module
assert PLUGIN is not None


class Go:
    """Stands for `go`: notes what it is asked, writes what it is asked to write."""

    def __init__(self, fails: str = "") -> None:
        self.asked: list[list[str]] = []
        self.folders: set[Path] = set()
        self._fails = fails

    def __call__(self, argv: list[str], *, cwd: Path, timeout: float, on_line: Callable[[str], None]) -> Result:
        self.asked.append(argv)
        self.folders.add(cwd)
        assert (cwd / "go.mod").exists()
        for number in range(go_build.LINES_A_SAY):
            on_line(f"go: downloading example.org/{number} v1.0.0")
        if argv[1] == self._fails:
            raise CommandError("command", "go", "exit code 1", "mend it")
        if argv[1] == "build":
            (cwd / argv[argv.index("-o") + 1]).write_text("program")
        return Result(tuple(argv), 0, "", "", 0)


def built(monkeypatch: pytest.MonkeyPatch, folder: Path, go: Go) -> Path:
    """Build the plugin with this go."""
    monkeypatch.setattr(go_build, "run", go)
    target = folder / "proxmoxve-1-go-modules" / "program"
    go_build.build(PLUGIN, "1.2.3", target)  # type: ignore[arg-type]
    return target


def test_the_generator_runs_before_the_build_in_the_same_copy_outside_the_tree(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    go = Go()
    target = built(monkeypatch, tmp_path, go)
    assert [argv[1] for argv in go.asked] == ["run", "build"]
    assert go.asked[0][-4:] == list(PLUGIN.generator)  # type: ignore[union-attr]
    assert all("v1.2.3" in " ".join(argv) for argv in go.asked)
    assert [folder.is_relative_to(tmp_path) for folder in go.folders] == [True]
    assert target.read_text() == "program"
    assert f"{go_build.LINES_A_SAY} modules downloaded" in capsys.readouterr().err


@pytest.mark.parametrize("fails", ["run", "build"])
def test_a_build_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fails: str) -> None:
    with pytest.raises(CommandError):
        built(monkeypatch, tmp_path, Go(fails))
    assert list(tmp_path.iterdir()) == []


def test_no_generated_file_is_in_the_tree() -> None:
    folder = tree() / PLUGIN.folder  # type: ignore[union-attr]
    names: set[Any] = {path.name for path in folder.rglob("*")}
    assert not names & {"schema.json", "bridge-metadata.json"}
