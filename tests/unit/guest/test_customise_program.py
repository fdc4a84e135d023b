"""The program that lays files into a home: whole or not at all, never over a change, through no link, killed or not."""

import base64
import hashlib
import os
import pwd
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deskyard.guest import customise, root_file

ACCOUNT = pwd.getpwuid(os.geteuid())


class Desktop:
    """A home, and what is remembered of it."""

    def __init__(self, folder: Path) -> None:
        self.home, self.state, self.etc = folder / "home", folder / "state", folder / "etc"
        self.home.mkdir()

    def ask(self, **what: Any) -> dict[str, Any]:
        about = {"account": ACCOUNT.pw_name, "state": str(self.state), "overwrite": False}
        return customise.answer({**about, **what})

    def begin(self, files: dict[str, str], dry: bool = False, overwrite: bool = False, **system: Any) -> dict[str, str]:
        marks = {path: mark(text) for path, text in files.items()}
        settings = {str(self.etc / name): text for name, text in system.items()}
        found = self.ask(do="begin", files=marks, dry=dry, overwrite=overwrite, system=settings)
        return {path: state for path, (state, _) in found["files"].items()}

    def bring(self, files: dict[str, str], overwrite: bool = False) -> dict[str, str]:
        items = {path: {"mark": mark(text), "mode": 0o644, "content": encoded(text)} for path, text in files.items()}
        found = self.ask(do="bring", files=items, overwrite=overwrite)
        return {path: state for path, (state, _) in found["files"].items()}

    def apply(self, files: dict[str, str], overwrite: bool = False) -> dict[str, str]:
        """As the delivery does it: all states but `unchanged`."""
        states = self.begin(files, overwrite=overwrite)
        due = {path: files[path] for path, state in states.items() if state in ("new", "changed", "overwritten")}
        return {**states, **self.bring(due, overwrite)}

    def text(self) -> dict[str, str]:
        """Every plain file of the home."""
        files = [path for path in sorted(self.home.rglob("*")) if path.is_file() and not path.is_symlink()]
        return {str(path.relative_to(self.home)): path.read_text() for path in files}


def mark(text: str) -> str:
    return f"-{hashlib.sha256(text.encode()).hexdigest()}"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.fixture
def desktop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desktop]:
    machine = Desktop(tmp_path)
    account = pwd.struct_passwd((*ACCOUNT[:5], str(machine.home), ACCOUNT.pw_shell))
    monkeypatch.setattr(pwd, "getpwnam", lambda _: account)
    monkeypatch.setattr(customise, "SKELETON", str(tmp_path / "skel"))
    monkeypatch.setattr(root_file, "BUSY_SECONDS", 0.0)
    yield machine


def test_files_are_brought_left_alone_changed_and_removed_with_their_folders(desktop: Desktop) -> None:
    assert desktop.apply({".rc": "1", "notes/deep/a.md": "a"}) == {".rc": "new", "notes/deep/a.md": "new"}
    assert desktop.text() == {".rc": "1", "notes/deep/a.md": "a"}
    assert (desktop.home / ".rc").stat().st_mode & 0o7777 == 0o644
    inode = (desktop.home / ".rc").stat().st_ino
    assert desktop.apply({".rc": "1", "notes/deep/a.md": "a"}) == {}
    assert (desktop.home / ".rc").stat().st_ino == inode
    assert desktop.apply({".rc": "2"}) == {".rc": "changed", "notes/deep/a.md": "removed"}
    assert desktop.text() == {".rc": "2"}
    assert [path.name for path in desktop.home.iterdir()] == [".rc"]


def test_a_dry_run_tells_all_that_and_touches_nothing(desktop: Desktop) -> None:
    assert desktop.begin({"a": "1"}, dry=True) == {"a": "new"}
    assert not desktop.state.exists() and list(desktop.home.iterdir()) == []
    desktop.apply({"a": "1", "b": "1", "c": "1"})
    (desktop.home / "c").write_text("mine")
    before = desktop.text(), (desktop.state / "applied.json").read_text()
    wanted = {"a": "2", "c": "2", "d/e": "1"}
    said = {"a": "changed", "b": "removed", "c": "kept", "d/e": "new"}
    assert desktop.begin(wanted, dry=True, env="X='1'\n") == said
    assert desktop.begin(wanted, dry=True, overwrite=True) == {**said, "c": "overwritten"}
    assert (desktop.text(), (desktop.state / "applied.json").read_text()) == before
    assert not desktop.etc.exists()


def test_what_was_changed_on_the_desktop_stays_as_it_is(desktop: Desktop) -> None:
    (desktop.home / "before").write_text("mine")
    desktop.apply({"changed": "1", "gone": "1", "program": "1", "before": "1"})
    (desktop.home / "changed").write_text("mine")
    (desktop.home / "gone").unlink()
    (desktop.home / "program").chmod(0o755)
    for text in ("1", "2"):
        wanted = dict.fromkeys(("changed", "gone", "program", "before"), text)
        assert desktop.apply(wanted) == dict.fromkeys(wanted, "kept")
    assert desktop.text() == {"changed": "mine", "before": "mine", "program": "1"}
    # What is as it was again is brought up to date again.
    (desktop.home / "changed").write_text("1")
    assert desktop.apply(wanted)["changed"] == "changed"


def test_overwriting_keeps_each_change_beside(desktop: Desktop) -> None:
    for number, mine in enumerate(("mine", "mine too")):
        desktop.apply({"a": str(number)})
        (desktop.home / "a").write_text(mine)
        assert desktop.apply({"a": f"next {number}"}, overwrite=True) == {"a": "overwritten"}
    assert desktop.text() == {"a": "next 1", "a.deskyard-kept": "mine", "a.deskyard-kept-2": "mine too"}
    (desktop.home / "a").unlink()
    (desktop.home / "a").mkdir()
    (desktop.home / "a" / "inside").write_text("kept, too")
    assert desktop.apply({"a": "file"}, overwrite=True) == {"a": "overwritten"}
    assert desktop.text()["a.deskyard-kept-3/inside"] == "kept, too"


def test_a_file_that_vanished_from_the_folder_is_the_agents_if_it_was_changed(desktop: Desktop) -> None:
    desktop.apply({"notes/a": "1", "notes/b": "1"})
    (desktop.home / "notes/a").write_text("mine")
    assert desktop.apply({}) == {"notes/a": "kept", "notes/b": "removed"}
    assert desktop.text() == {"notes/a": "mine"}
    assert desktop.apply({}) == {}


def test_what_every_new_account_has_is_nobodys_change(desktop: Desktop, tmp_path: Path) -> None:
    (tmp_path / "skel").mkdir()
    for name in (".bashrc", ".profile"):
        (tmp_path / "skel" / name).write_text("from the distribution")
        (desktop.home / name).write_text("from the distribution")
    (desktop.home / ".profile").write_text("mine")
    assert desktop.apply({".bashrc": "1", ".profile": "1"}) == {".bashrc": "changed", ".profile": "kept"}


@pytest.mark.parametrize("overwrite", [False, True])
def test_nothing_is_written_through_a_link(desktop: Desktop, tmp_path: Path, overwrite: bool) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("1")
    (desktop.home / "folder").symlink_to(outside)
    (desktop.home / "link").symlink_to(outside / "file")
    (desktop.home / ".draft.deskyard-part").symlink_to(outside / "file")
    (desktop.home / ".draft.deskyard-swap").symlink_to(outside / "file")
    (desktop.home / "in-the-way").write_text("a file")
    wanted = dict.fromkeys(("folder/file", "folder/new", "link", "draft", "in-the-way/x"), "2")
    done = desktop.apply(wanted, overwrite)
    link = "overwritten" if overwrite else "kept"
    assert done == {**dict.fromkeys(wanted, "kept"), "link": link, "draft": "new"}
    assert [path.name for path in outside.iterdir()] == ["file"] and (outside / "file").read_text() == "1"
    assert (desktop.home / "draft").read_text() == "2"
    if overwrite:
        assert (desktop.home / "link.deskyard-kept").is_symlink() and (desktop.home / "link").read_text() == "2"
    # Nor is what a link leads to removed.
    desktop.apply({"real/file": "1"})
    (desktop.home / "real").rename(desktop.home / "moved")
    (desktop.home / "real").symlink_to(outside)
    (outside / "file").write_text("1")
    assert desktop.apply({}).get("real/file") == "kept"
    assert (outside / "file").read_text() == "1"


def test_a_change_at_the_last_moment_is_kept_beside(desktop: Desktop, monkeypatch: pytest.MonkeyPatch) -> None:
    desktop.apply({"a": "1"})
    real = root_file.write

    def write(parent: int, name: str, content: bytes, mode: int) -> None:
        real(parent, name, content, mode)
        if name == ".a.deskyard-part":
            (desktop.home / "a").write_text("just now")

    monkeypatch.setattr(customise, "write", write)
    assert desktop.apply({"a": "2"}) == {"a": "overwritten"}
    assert desktop.text() == {"a": "2", "a.deskyard-kept": "just now"}


class Killed(BaseException):
    """The process ends here."""


# So often a file is renamed, settled or written in the run that is killed.
STEPS = 16


@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_a_run_that_is_killed_anywhere_is_gone_on_with(
    desktop: Desktop, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    desktop.apply({"old": "1", "mine": "1", "gone": "1"})
    (desktop.home / "mine").write_text("mine")
    calls = 0

    def counted(real: Any) -> Any:
        def call(*args: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == step:
                raise Killed
            return real(*args, **named)

        return call

    with monkeypatch.context() as patch:
        # A killed process saves nothing on its way out.
        saved = customise.Memory.save
        patch.setattr(customise.Memory, "save", lambda self: saved(self) if calls < step else None)
        for name in ("renamed", "settle", "write"):
            patch.setattr(customise, name, counted(getattr(customise, name)))
        patch.setattr(root_file, "write", counted(root_file.write))
        killed = False
        try:
            desktop.apply({"old": "2", "mine": "2", "new": "2"})
        except Killed:
            killed = True
    assert killed
    states = desktop.apply({"old": "3", "mine": "3", "new": "3"})
    assert states["mine"] == "kept" and "kept" not in (states["old"], states["new"])
    assert desktop.text() == {"old": "3", "mine": "mine", "new": "3"}
    assert desktop.apply({"old": "3", "mine": "3", "new": "3"}) == {"mine": "kept"}


def test_settings_are_made_left_alone_and_removed(desktop: Desktop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    for text, said in (("X='1'\n", "changed"), ("X='1'\n", "unchanged"), (None, "removed"), (None, "unchanged")):
        found = desktop.ask(do="begin", files={}, dry=False, system={str(desktop.etc / "a.d/env"): text})
        assert found["environment"] == said
    assert list((desktop.etc / "a.d").iterdir()) == []


def test_two_runs_do_not_mix(desktop: Desktop) -> None:
    with root_file.alone(desktop.state):
        said = desktop.ask(do="begin", files={}, dry=False, system={})
    assert "still at work" in said["error"]
