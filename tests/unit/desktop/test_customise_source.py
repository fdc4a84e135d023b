"""What is read of a folder or a repository, and what is refused before anything is sent anywhere."""

import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from deskyard.desktop import customise_source
from deskyard.errors import ConfigError
from deskyard.model.customise import Customise
from deskyard.plan.customisation import Layer

IDENTITY = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main")


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "deskyard"))
    for variable in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"):
        monkeypatch.delenv(variable, raising=False)
    folder = tmp_path / "desk"
    (folder / "home/.config").mkdir(parents=True)
    (folder / "home/.config/app").write_bytes(b"\x00\xff")
    (folder / "home/tool").write_text("#!/bin/sh\n")
    (folder / "home/tool").chmod(0o775)
    (folder / "environment").write_text("EDITOR=nano\n")
    (folder / "first-boot").write_text("#!/bin/sh\n")
    (folder / "README.md").write_text("for people")
    return folder


def read(source: Path, **more: Any) -> Layer:
    return customise_source.read(Customise.model_validate({"from": source.name, **more}), source.parent)


def git(folder: Path, *argv: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *IDENTITY, *argv], capture_output=True, timeout=60, check=True)
    return done.stdout.decode().strip()


def committed(source: Path, tag: str = "v1") -> str:
    git(source, "init", "-q")
    git(source, "add", "-A")
    git(source, "commit", "-qm", "desk")
    git(source, "tag", tag)
    return git(source, "rev-parse", "HEAD")


def fetched(source: Path, ref: str, **more: Any) -> Layer:
    values = {"from": f"file://{source}", "ref": ref, **more}
    return customise_source.read(Customise.model_validate(values), source.parent)


def test_a_folder_is_read_with_all_its_parts(source: Path) -> None:
    found = read(source, script_seconds=30)
    assert {path: (file.content, file.executable) for path, file in found.files.items()} == {
        ".config/app": (b"\x00\xff", False),
        "tool": (b"#!/bin/sh\n", True),
    }
    assert (found.environment, found.scripts, found.script_seconds) == (
        {"EDITOR": "nano"},
        {"first-boot": "#!/bin/sh\n"},
        30,
    )


@pytest.mark.parametrize(
    "kind", ["link", "link to a folder", "part that is a link", "pipe", "socket", "setuid", "setgid"]
)
def test_what_is_no_plain_file_is_refused(source: Path, kind: str) -> None:
    odd = source / "home/odd"
    if kind == "part that is a link":
        (source / "every-apply").symlink_to(source / "first-boot")
    elif kind.startswith("link"):
        odd.symlink_to("/etc" if "folder" in kind else "/etc/passwd")
    elif kind == "pipe":
        os.mkfifo(odd)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as link:
            link.bind(str(odd))
    else:
        odd.write_text("x")
        odd.chmod(0o4755 if kind == "setuid" else 0o2755)
    with pytest.raises(ConfigError) as caught:
        read(source)
    assert caught.value.field.startswith("desk: ") and caught.value.field.endswith(("home/odd", "every-apply"))


def test_what_is_too_large_or_too_much_is_refused_before_it_is_read(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (source / "home/large").open("wb") as file:
        file.truncate(2 << 20)
    assert "large" in read(source, max_mib=3).files
    monkeypatch.setattr(customise_source, "_content", lambda entry: pytest.fail("it was read"))
    with pytest.raises(ConfigError, match="more than 2 MiB") as caught:
        read(source, max_mib=2)
    assert "max_mib" in caught.value.remedy
    monkeypatch.setattr(customise_source, "MAX_FILES", 2)
    with pytest.raises(ConfigError, match="more than 2 files"):
        read(source)


@pytest.mark.parametrize(("name", "reason"), [("nowhere", "does not exist"), ("desk/environment", "is no folder")])
def test_a_folder_that_is_none_is_named(source: Path, name: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        customise_source.read(Customise.model_validate({"from": name}), source.parent)


def test_home_is_a_folder(source: Path) -> None:
    (source / "first-boot").unlink()
    (source / "first-boot").mkdir()
    with pytest.raises(ConfigError, match="no plain file"):
        read(source)


def test_a_tag_and_a_commit_are_read_as_the_folder_is(source: Path) -> None:
    commit = committed(source)
    (source / "home/later").write_text("not in it")
    (source / ".git/later").write_text("nor this")
    for ref in ("v1", commit):
        found = fetched(source, ref)
        assert sorted(found.files) == [".config/app", "tool"] and found.environment == {"EDITOR": "nano"}
    assert read(source).files.keys() - found.files.keys() == {"later"}


def test_a_commit_is_fetched_once_and_a_tag_each_time(source: Path) -> None:
    commit = committed(source)
    fetched(source, commit)
    (source / "home/next").write_text("2")
    git(source, "add", "-A")
    git(source, "commit", "-qm", "next")
    git(source, "tag", "-f", "v1")
    assert "next" in fetched(source, "v1").files
    source.rename(source.with_name("gone"))
    assert "next" not in fetched(source, commit).files
    with pytest.raises(ConfigError, match="could not be fetched"):
        fetched(source, "v1")


@pytest.mark.parametrize("ref", ["main", "v2", "f" * 40])
def test_a_branch_or_what_is_not_there_is_no_pin(source: Path, ref: str) -> None:
    committed(source)
    with pytest.raises(ConfigError) as caught:
        fetched(source, ref)
    assert (caught.value.field, caught.value.value) == ("customise.ref", ref)
    assert "a branch is no pin" in caught.value.remedy


def test_a_repository_with_a_link_or_submodules_is_refused(source: Path) -> None:
    (source / "home/link").symlink_to("/etc/passwd")
    committed(source)
    with pytest.raises(ConfigError, match="symbolic link"):
        fetched(source, "v1")
    (source / "home/link").unlink()
    (source / ".gitmodules").write_text("")
    committed(source, "v2")
    with pytest.raises(ConfigError, match="submodules"):
        fetched(source, "v2")


def test_a_repository_that_is_too_large_is_not_fetched_to_its_end(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(customise_source, "PACK_SLACK_MIB", 0)
    (source / "home/large").write_bytes(os.urandom(2 << 20))
    committed(source)
    with pytest.raises(ConfigError, match="more than 1 MiB"):
        fetched(source, "v1", max_mib=1)
    assert "large" in fetched(source, "v1", max_mib=4).files


def test_nothing_that_a_repository_names_is_started(source: Path, tmp_path: Path) -> None:
    (source / ".gitattributes").write_text("home/* filter=lfs\n")
    (source / "home/pointer").write_text("version https://git-lfs\n")
    committed(source)
    hook = source / ".git/hooks/post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    assert fetched(source, "v1").files["pointer"].content == b"version https://git-lfs\n"
    assert not (tmp_path / "ran").exists()
    assert not list((tmp_path / "deskyard/cache").glob(".customise-*"))
