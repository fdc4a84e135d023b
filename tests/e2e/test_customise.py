"""What customises a desktop, on the live machine of a built image: its session and its terminal have it.

Every case of files, refusals and interruptions is in tests/desktop.
"""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deskyard.plan import customisation
from deskyard.plan.account import AGENT
from tests.gateway.support import wait_for
from tests.support.workspaces import Running

pytestmark = [pytest.mark.vm, pytest.mark.sampled(keeps=0)]
APPLY_SECONDS = 900
SESSION = "systemctl show --value --property=MainPID desktop-session.service web-terminal.service"
PROPERTY = "--channel deskyard-test --property /level"
# A login, so that it finds the session: what it sets there is what the desktop's programs read.
FIRST_BOOT = f'#!/bin/bash -l\nset -eu\nxfconf-query {PROPERTY} --create --type string --set "$LEVEL"\n'
BROUGHT = {"home/notes/memory.md": "one\n", "home/notes/todo.md": "one\n", "environment": "LEVEL=two words\n"}


@pytest.fixture
def brought(ours: Running) -> Iterator[Path]:
    """The folder that customises the desktop of `ours`; at the end all of it is taken back."""
    folder = ours.declared.folder / "brought"
    for name, text in {**BROUGHT, "first-boot": FIRST_BOOT}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    file = ours.declared.folder / f"Pulumi.{ours.name}.yaml"
    before = file.read_text()
    content = yaml.safe_load(before)
    content["config"]["deskyard:desktops"][0]["customise"] = {"from": folder.name}
    file.write_text(yaml.safe_dump(content))
    try:
        yield folder
    finally:
        file.write_text(before)
        customised(ours)
        as_agent(ours, f"xfconf-query {PROPERTY} --reset; rm -rf notes in-terminal")


def customised(ours: Running, *options: str) -> dict[str, str]:
    """What became of each file of the desktop."""
    done = ours.inv("desktop.customise", f"{ours.name}/desk", "--json", *options, timeout=APPLY_SECONDS)
    report: dict[str, Any] = json.loads(done.stdout)["desktops"][0]
    return {found["path"]: found["state"] for found in report["files"]}


def as_agent(ours: Running, command: str) -> str:
    """What a login of the desktop's user says to a command."""
    return ours.ssh("desk", f"sudo -u {AGENT} -i sh -c {shlex.quote(command)}", check=False).stdout


def in_terminal(ours: Running, variable: str) -> str:
    """A variable as a new shell of the terminal has it."""
    typed = shlex.quote(f"printenv {variable} >~/in-terminal.part; mv ~/in-terminal.part ~/in-terminal")
    as_agent(ours, f"tmux new-session -d -s probe && tmux send-keys -t probe {typed} Enter")
    read = f"cat {customisation.HOME}/in-terminal"
    try:
        wait_for("the terminal", lambda: ours.ssh("desk", f"sudo {read}", check=False).returncode == 0, 120, pause=1)
        return ours.ssh("desk", f"sudo {read}").stdout
    finally:
        as_agent(ours, "tmux kill-session -t probe")


@pytest.mark.boots
def test_session_and_terminal_have_what_the_owner_brings_and_nothing_is_restarted(ours: Running, brought: Path) -> None:
    running = ours.ssh("desk", SESSION).stdout
    files = {"notes/memory.md": "new", "notes/todo.md": "new"}
    assert customised(ours, "--dry-run") == files
    assert ours.ssh("desk", f"sudo ls {customisation.HOME}/notes", check=False).returncode != 0, "the dry run did it"

    assert customised(ours) == files
    assert as_agent(ours, "stat -c %U notes/memory.md; cat notes/memory.md").split() == ["agent", "one"]
    assert in_terminal(ours, "LEVEL") == "two words\n"
    assert as_agent(ours, f"xfconf-query {PROPERTY}") == "two words\n", "first-boot did not reach the session"

    as_agent(ours, "echo mine >notes/todo.md")
    for name in files:
        (brought / "home" / name).write_text("two\n")
    assert customised(ours) == {"notes/memory.md": "changed", "notes/todo.md": "kept"}
    assert as_agent(ours, "cat notes/memory.md notes/todo.md").split() == ["two", "mine"]
    assert ours.ssh("desk", SESSION).stdout == running, "something was restarted"
