"""What goes where on a desktop, and what no folder may ask for."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from deskyard.computer.recording import asked
from deskyard.computer.recording.asked import Asked
from deskyard.errors import ConfigError
from deskyard.plan import customisation
from deskyard.plan.customisation import ENVIRONMENT_FILE, PROFILE_FILE, HomeFile, Layer, laid_over


def layer(files: dict[str, str] | None = None, **more: dict[str, str]) -> Layer:
    home = {path: HomeFile(text.encode(), False) for path, text in (files or {}).items()}
    return Layer(home, more.get("environment", {}), more.get("scripts", {}), 600)


def test_a_desktops_own_lies_over_its_workspaces() -> None:
    workspace = layer(
        {".bashrc": "all", "notes": "all"},
        environment={"EDITOR": "nano", "LEVEL": "1"},
        scripts={"first-boot": "#!all", "every-apply": "#!all"},
    )
    desktop = layer({".bashrc": "own"}, environment={"EDITOR": "vi"}, scripts={"first-boot": "#!own"})
    desired = laid_over(workspace, desktop, "desktop dev1")
    assert {path: file.content for path, file in desired.files.items()} == {".bashrc": b"own", "notes": b"all"}
    assert desired.environment == {"EDITOR": "vi", "LEVEL": "1"}
    order = [(script.title, script.text) for script in desired.scripts]
    assert order == [
        ("first-boot-workspace", "#!all"),
        ("first-boot-desktop", "#!own"),
        ("every-apply-workspace", "#!all"),
    ]
    assert laid_over(None, None, "x").is_empty and not laid_over(None, desktop, "x").is_empty


@pytest.mark.parametrize(("first", "other"), [("a", "a/b/c"), ("a/b/c", "a"), ("a/b", "a/b/c")])
def test_a_file_that_is_a_folder_elsewhere_is_refused(first: str, other: str) -> None:
    with pytest.raises(ConfigError, match="a folder of desktop dev1"):
        laid_over(layer({first: ""}), layer({other: ""}), "desktop dev1")


def test_environment_is_read_line_by_line() -> None:
    text = b"# remark\n\nEDITOR=nano\nGREETING=two words = three\nEMPTY=\nMAX_TOKENS=4096\nKEYBOARD=de\n"
    assert customisation.read_environment(text, "folder") == {
        "EDITOR": "nano",
        "GREETING": "two words = three",
        "EMPTY": "",
        "MAX_TOKENS": "4096",
        "KEYBOARD": "de",
    }


@pytest.mark.parametrize(
    ("line", "reason", "remedy"),
    [
        ("ANTHROPIC_API_KEY=canary", "a key or another secret", "desktop.set-key"),
        ("my_own_api_key=canary", "a key or another secret", "desktop.set-key"),
        ("GITHUB_TOKEN=canary", "a key or another secret", "desktop.set-key"),
        ("DB_PASSWORD=canary", "a key or another secret", "desktop.set-key"),
        ("AWS_SECRET_ACCESS=canary", "a key or another secret", "desktop.set-key"),
        ("PATH=/canary", "by each session itself", "home/.profile"),
        ("HOME=/canary", "by each session itself", "home/.profile"),
        ("LD_PRELOAD=/canary", "by each session itself", "home/.profile"),
        ("export A=canary", "no NAME=value", "EDITOR=nano"),
        ("A = canary", "no NAME=value", "EDITOR=nano"),
        ("canary", "no NAME=value", "EDITOR=nano"),
        ("A=can'ary", "a quote", "home/.profile"),
        ("A=can\\ary", "a backslash", "home/.profile"),
        ("A=canary\u00e9", "not printable ASCII", "home/.profile"),
        ('A="canary"', "begins or ends with a quote", "as it shall be"),
        ("A= canary", "begins or ends with a quote or a space", "as it shall be"),
        ("A=" + "canary" * 1000, "is longer than 4096", "home/"),
        ("EDITOR=canary", "set twice", "keep one"),
    ],
    ids=lambda text: text[:24],
)
def test_a_variable_that_is_none_or_a_secret_is_refused_by_its_line(line: str, reason: str, remedy: str) -> None:
    with pytest.raises(ConfigError) as caught:
        customisation.read_environment(f"EDITOR=nano\n{line}\n".encode(), "folder")
    assert caught.value.field.startswith("folder: environment, line 2")
    assert reason in caught.value.reason and remedy in caught.value.remedy
    assert "canary" not in str(caught.value)


def test_the_environment_is_read_alike_by_a_shell_and_as_it_was_written(tmp_path: Path) -> None:
    value = 'a$b`c"#;= &*~!'
    desired = laid_over(layer(environment={"X": value}), None, "x")
    file = tmp_path / "env"
    file.write_text(desired.system_files()[ENVIRONMENT_FILE] or "")
    shown = subprocess.run(["sh", "-c", f'. {file}; printf %s "$X"'], capture_output=True, text=True, timeout=30)
    assert shown.stdout == value
    profile = desired.system_files()[PROFILE_FILE]
    assert subprocess.run(["sh", "-n"], input=profile, text=True, timeout=30).returncode == 0
    without = laid_over(layer(), None, "x").system_files()
    assert without.keys() == desired.system_files().keys() and set(without.values()) == {None}


def test_recording_is_asked_for_in_a_file_of_roots_and_taken_back() -> None:
    without = laid_over(layer(), None, "x")
    desired = replace(without, recording=Asked(3600, 64 << 20))
    assert without.is_empty and not desired.is_empty
    assert asked.read(desired.system_files()[asked.PATH] or "") == Asked(3600, 64 << 20)
    assert without.system_files()[asked.PATH] is None


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/x", "a//b", "./a", "a\nb", "a\x1bb", "a\udce9", "x" * 201])
def test_a_path_that_leads_elsewhere_or_cannot_be_shown_is_refused(name: str) -> None:
    assert customisation.check_path(".config/a b/\u00e9", "folder")
    with pytest.raises(ConfigError) as caught:
        customisation.check_path(name, "folder")
    assert str(caught.value).isascii() or "\udce9" not in str(caught.value)


@pytest.mark.parametrize("name", [".a.deskyard-part", "a/.b.deskyard-swap"])
def test_a_name_that_drafts_have_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="while they are written"):
        customisation.check_path(name, "folder")


def test_a_part_that_is_misspelt_is_named() -> None:
    assert [customisation.check_part(part, "x") for part in ("home", "first-boot", "README.md", ".git")] == [1, 1, 0, 0]
    with pytest.raises(ConfigError, match="first-boot"):
        customisation.check_part("firstboot.sh", "x")


@pytest.mark.parametrize("content", [b"echo", b"\xef\xbb\xbf#!/bin/sh\n", b"#!/bin/sh\r\necho\r\n", b"#!/bin/sh\n\xff"])
def test_a_script_that_no_system_starts_is_refused(content: bytes) -> None:
    assert customisation.read_script("first-boot", b"#!/bin/sh\necho\n", "x")
    with pytest.raises(ConfigError):
        customisation.read_script("first-boot", content, "x")


def test_what_programs_want_private_is_private() -> None:
    modes = [customisation.mode(path, path.endswith("x")) for path in ("a", "b.x", ".ssh/config", ".gnupg/b.x")]
    assert modes == [0o644, 0o755, 0o600, 0o700]
