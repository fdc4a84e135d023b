"""What is asked of desktops, and what is made of their answers: a desktop may say what it likes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deskyard.declaration import declaration
from deskyard.desktop import customise, customise_delivery, program
from deskyard.desktop.customise_delivery import How
from deskyard.engine import running
from deskyard.errors import ConfigError, SiteError
from deskyard.host.command import Result
from deskyard.host.places import tree
from deskyard.plan.customisation import MAX_FILES
from deskyard.site.ssh_link import SshLink

STACK = """config:
  deskyard:network: 10.80.1.0/24
  deskyard:customise: {from: all}
  deskyard:desktops:
    - name: dev1
      customise: {from: own}
    - name: dev2
"""
NOTHING = {"files": {}, "environment": "unchanged", "done": []}
ENDED = {"code": 0, "in_time": True, "output": ""}
Answer = Callable[[str, dict[str, Any]], Any]


@pytest.fixture(autouse=True)
def stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "deskyard"))
    monkeypatch.setenv("DESKYARD_STACKS", str(tmp_path))
    monkeypatch.setenv("DESKYARD_ACCELERATOR", "tcg")
    monkeypatch.setattr(running, "require_running", lambda plan: None)
    monkeypatch.setattr(program, "REACH_SECONDS", 0.0)
    (tmp_path / "Pulumi.lab.yaml").write_text(STACK)
    for folder in ("all", "own"):
        (tmp_path / folder / "home").mkdir(parents=True)
        (tmp_path / folder / "home" / folder).write_text("private words")
        (tmp_path / folder / "first-boot").write_text("#!/bin/sh\n")
    return tmp_path


def answering(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> list[tuple[str, dict[str, Any]]]:
    """Let every desktop answer so; what each was asked."""
    asked: list[tuple[str, dict[str, Any]]] = []

    def run(self: SshLink, host: str, remote: list[str], *, stdin: str, **_: Any) -> Result:
        assert "private" not in " ".join(remote)
        request = json.loads(stdin[int(remote[-1]) :])
        asked.append((host, request))
        said = answer(host, request)
        return Result(tuple(remote), 0, said if isinstance(said, str) else json.dumps(said), "", 0.0)

    monkeypatch.setattr(SshLink, "run", run)
    return asked


def good(host: str, request: dict[str, Any]) -> Any:
    """A new desktop."""
    if "script" in request:
        return ENDED
    files = {path: ["new", ""] for path in request["files"]}
    return {**NOTHING, "files": files} if request["do"] == "begin" else {"files": files}


def test_each_desktop_gets_what_is_its_own(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked = answering(monkeypatch, good)
    found = {report["desktop"]: report for report in customise.customise("lab", How())["desktops"]}
    names = {host: [file["path"] for file in report["files"]] for host, report in found.items()}
    assert names == {"dev1": ["all", "own"], "dev2": ["all"]}
    scripts = [request["script"] for host, request in asked if host == "dev1" and "script" in request]
    assert scripts == ["first-boot-workspace", "first-boot-desktop"]
    assert "dev1: 2 new" in (said := capsys.readouterr().err) and "private" not in said + str(found)
    asked.clear()
    assert len(customise.customise("lab/dev2", How())["desktops"]) == 1
    assert {host for host, _ in asked} == {"dev2"}


def test_a_dry_run_asks_and_brings_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answering(monkeypatch, good)
    report = customise.customise("lab/dev1", How(dry_run=True))["desktops"][0]
    assert [(request["do"], request["dry"]) for _, request in asked] == [("begin", True)]
    assert [script["state"] for script in report["scripts"]] == ["due", "due"]


def test_first_boot_runs_again_only_if_asked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    done = {**NOTHING, "done": ["first-boot-workspace"]}
    asked = answering(monkeypatch, lambda host, request: ENDED if "script" in request else done)
    for how, expected in (
        (How(), ["first-boot-desktop"]),
        (How(again=True), ["first-boot-workspace", "first-boot-desktop"]),
    ):
        asked.clear()
        customise.customise("lab/dev1", how)
        assert [request["script"] for _, request in asked if "script" in request] == expected


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "[]",
        "null",
        "{}",
        '{"files": 1, "done": 1}',
        '{"files": {"a": 1, "b": ["new"], "c": ["x", "y"]}}',
        "[" * 99_999,
    ],
    ids=lambda text: text[:20] or "nothing",
)
def test_a_senseless_answer_is_an_error_and_never_more(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    asked = answering(monkeypatch, lambda host, request: answer)
    with pytest.raises(SiteError):
        customise.customise("lab/dev1", How())
    assert not any(request.get("do") == "bring" for _, request in asked)


def test_names_that_a_desktop_makes_up_are_bounded_harmless_and_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    made_up = {f"n{number}": ["new", "x"] for number in range(5000)}
    files = {"\x1b[2J": ["kept", "\x1b[2J"], "a" * 5000: ["kept", ""], **made_up}
    asked = answering(monkeypatch, lambda host, request: ENDED if "script" in request else {**NOTHING, "files": files})
    report = customise.customise("lab/dev1", How())["desktops"][0]
    assert len(report["files"]) <= 2 * MAX_FILES and "\x1b" not in str(report)
    assert not any(request.get("do") == "bring" for _, request in asked)


def test_what_a_script_says_is_shown_as_text_and_its_failure_ends_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = {"code": 3, "in_time": True, "output": "\x1b[2Jone\n" + "line\n" * 99 + "last"}
    asked = answering(monkeypatch, lambda host, request: failed if "script" in request else NOTHING)
    with pytest.raises(SiteError) as caught:
        customise.customise("lab/dev1", How())
    assert (caught.value.field, caught.value.value) == ("first-boot of the workspace", "lab/dev1")
    assert caught.value.reason.startswith("ended with code 3\n") and caught.value.reason.endswith("last")
    assert "\x1b" not in str(caught.value) and caught.value.reason.count("\n") == customise_delivery.SHOWN_LINES
    assert len([request for _, request in asked if "script" in request]) == 1
    late = {"code": -15, "in_time": False, "output": ""}
    answering(monkeypatch, lambda host, request: late if "script" in request else NOTHING)
    with pytest.raises(SiteError, match="ran for over 600 s"):
        customise.customise("lab/dev1", How())


def test_a_failure_is_raised_after_all_were_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answering(
        monkeypatch, lambda host, request: {"error": "no room"} if host == "dev1" else good(host, request)
    )
    with pytest.raises(SiteError, match="no room"):
        customise.customise("lab", How())
    assert any(host == "dev2" and "script" in request for host, request in asked)


def test_what_was_brought_is_taken_back_when_nothing_is_declared_any_more(
    monkeypatch: pytest.MonkeyPatch, stacks: Path
) -> None:
    answering(monkeypatch, good)
    customise.customise("lab/dev1", How())
    without = STACK.replace("  deskyard:customise: {from: all}\n", "").replace("      customise: {from: own}\n", "")
    (stacks / "Pulumi.lab.yaml").write_text(without)
    desired = customise_delivery.wanted(declaration.read("lab"))
    assert list(desired) == ["dev1"] and desired["dev1"].is_empty
    asked = answering(monkeypatch, good)
    customise.customise("lab", How(dry_run=True))
    customise.customise("lab", How())
    assert [(host, request["files"]) for host, request in asked] == [("dev1", {})] * 2
    assert customise_delivery.wanted(declaration.read("lab")) == {}
    assert customise.customise("lab", How())["desktops"] == []


@pytest.mark.parametrize("target", ["lab/", "lab/nobody", "nowhere"])
def test_a_wrong_desktop_is_named(target: str) -> None:
    with pytest.raises(ConfigError):
        customise.customise(target, How())


def test_a_folder_that_is_refused_is_refused_before_any_desktop_is_asked(
    monkeypatch: pytest.MonkeyPatch, stacks: Path
) -> None:
    asked = answering(monkeypatch, good)
    (stacks / "own/home/link").symlink_to("/etc/passwd")
    with pytest.raises(ConfigError, match="symbolic link"):
        customise.customise("lab", How())
    assert asked == []


def test_many_bytes_are_sent_in_parts(monkeypatch: pytest.MonkeyPatch, stacks: Path) -> None:
    monkeypatch.setattr(customise_delivery, "BATCH_BYTES", 100)
    for number in range(5):
        (stacks / f"own/home/{number}").write_bytes(b"x" * 60)
    asked = answering(monkeypatch, good)
    assert len(customise.customise("lab/dev1", How())["desktops"][0]["files"]) == 7
    sent = [list(request["files"]) for _, request in asked if request.get("do") == "bring"]
    assert sorted(path for batch in sent for path in batch) == ["0", "1", "2", "3", "4", "all", "own"]
    assert len(sent) > 3


def test_the_example_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESKYARD_STACKS", str(tree() / "examples" / "customise"))
    desired = customise_delivery.wanted(declaration.read("writers"))
    assert {desktop: sorted(customisation.files) for desktop, customisation in desired.items()} == {
        "editor": [".bashrc", ".openclaw/workspace/AGENTS.md", ".openclaw/workspace/MEMORY.md"],
        "reader": [".bashrc", ".openclaw/workspace/AGENTS.md"],
    }
    assert desired["editor"].environment == {"EDITOR": "nano", "PAGER": "less", "ROLE": "editor"}
    assert [script.title for script in desired["editor"].scripts] == ["first-boot-workspace"]
