"""The cap of processes on its way to desktops, and what is made of their answers: a desktop may say what it likes."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from deskyard.declaration import declaration
from deskyard.desktop import process_cap, program
from deskyard.errors import CommandError, SiteError
from deskyard.plan.workspace import WorkspacePlan

PARTS = ["agent.slice", "session-.scope", "web-terminal.service"]
STACK = {
    "deskyard:network": "10.80.1.0/24",
    "deskyard:desktops": [{"name": "dev1", "tier": "steady"}, {"name": "dev2"}],
}


@pytest.fixture(autouse=True)
def stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DESKYARD_STACKS", str(tmp_path))
    monkeypatch.setenv("DESKYARD_ACCELERATOR", "tcg")
    (tmp_path / "Pulumi.lab.yaml").write_text(yaml.safe_dump({"config": STACK}))
    (tmp_path / "sites").mkdir()
    return tmp_path


def plan(stacks: Path, cap: int | None) -> WorkspacePlan:
    """Workspace `lab`, whose desktop `dev1` has a tier with that cap, or without the word."""
    tier = {"vcpus": 2, "memory_mib": 4096, "disk_gib": 20, **({} if cap is None else {"processes": cap})}
    (stacks / "sites" / "local.yaml").write_text(yaml.safe_dump({"tiers": {"steady": tier}}))
    return declaration.read("lab").plan


def answering(monkeypatch: pytest.MonkeyPatch, answer: Any) -> list[tuple[str, Any]]:
    """Let every desktop answer so; what it was asked."""
    asked: list[tuple[str, Any]] = []

    def ask(_plan: Any, desktop: str, _program: Any, request: Any) -> Any:
        asked.append((desktop, json.loads(json.dumps(request))))
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(program, "ask", ask)
    return asked


def test_desktop_is_asked_once_its_tier_has_a_cap_and_from_then_on(
    stacks: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert process_cap.wanted(plan(stacks, None)) == {}
    asked = answering(monkeypatch, {"done": "changed", "parts": PARTS, "otherwise": {}})
    lab = plan(stacks, 300)
    assert process_cap.deliver(lab, process_cap.wanted(lab)) == {"dev1": "changed"}
    assert asked == [("dev1", {"do": "bring", "account": "agent", "processes": 300})]
    said = capsys.readouterr().err
    assert (
        "dev1: 300 processes at most in each of: agent.slice, any other login, web-terminal.service (changed)" in said
    )

    answering(monkeypatch, {"done": "removed", "parts": [], "otherwise": {}})
    lab = plan(stacks, None)
    assert process_cap.deliver(lab, process_cap.wanted(lab)) == {"dev1": "removed"}
    assert "dev1: no cap of its processes (removed)" in capsys.readouterr().err
    # A snapshot of before may come back.
    assert process_cap.wanted(lab) == {"dev1": None}
    process_cap.forget(lab.site, lab.name, "dev1")
    assert process_cap.wanted(lab) == {}


def test_cap_that_came_with_an_older_disk_is_lifted(stacks: Path) -> None:
    lab = plan(stacks, None)
    process_cap.note(lab, "dev2")
    assert process_cap.wanted(lab) == {"dev2": None}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({}, "did not say whether"),
        ({"done": "\x1b[2J"}, "did not say whether"),
        ({"done": "changed", "parts": PARTS, "otherwise": {"a.service": 7000}}, "more processes than 300.*a.service"),
        (
            {"done": "changed", "parts": PARTS, "otherwise": {f"{n}\x1b": 1 for n in range(99)}},
            r"0\?, 1\?, .*, 89 more\n",
        ),
    ],
)
def test_cap_that_is_not_in_force_is_an_error_with_a_remedy(
    stacks: Path, monkeypatch: pytest.MonkeyPatch, answer: Any, reason: str
) -> None:
    answering(monkeypatch, answer)
    with pytest.raises(SiteError, match=reason) as caught:
        process_cap.deliver(plan(stacks, 300), {"dev1": 300})
    assert (caught.value.field, caught.value.value, bool(caught.value.remedy)) == ("desktop", "lab/dev1", True)
    assert caught.value.reason.isprintable()


@pytest.mark.parametrize("parts", [None, "x", 7, [None, 7, "\x1b[2J"], {"a": 1}])
def test_senseless_names_of_parts_harm_nothing(
    stacks: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], parts: Any
) -> None:
    answering(monkeypatch, {"done": "unchanged", "parts": parts})
    assert process_cap.deliver(plan(stacks, 300), {"dev1": 300}) == {"dev1": "unchanged"}
    assert "\x1b" not in capsys.readouterr().err


def test_failure_is_raised_after_all_were_tried_and_they_are_asked_again(
    stacks: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = plan(stacks, 300)
    asked = answering(monkeypatch, CommandError("command", "ssh", "no way in", "see it"))
    with pytest.raises(CommandError, match="no way in"):
        process_cap.deliver(lab, {"dev1": 300, "dev2": 300})
    assert {desktop for desktop, _ in asked} == {"dev1", "dev2"}
    assert "dev2: the cap of its processes is not in step: no way in" in capsys.readouterr().err
    assert process_cap.wanted(lab) == {"dev1": 300, "dev2": None}
