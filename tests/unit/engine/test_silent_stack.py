"""An engine is started for the work alone."""

from pathlib import Path

from pulumi import automation

from deskyard.engine.command import EngineCommand
from deskyard.engine.silent_stack import SilentStack


def test_work_starts_the_engine_once(tmp_path: Path) -> None:
    program, log = tmp_path / "pulumi", tmp_path / "log"
    program.write_text(f'#!/bin/sh\necho "$@" >>{log}\necho "{{}}"\n')
    program.chmod(0o755)
    workspace = automation.LocalWorkspace(
        work_dir=str(tmp_path),
        pulumi_command=EngineCommand(program, "3.253.0"),
        project_settings=automation.ProjectSettings(name="deskyard", runtime="python"),
    )
    stack = SilentStack.create("lab", workspace)
    assert stack.up().outputs == {}
    stack.destroy()
    started = [line.removeprefix("--non-interactive ") for line in log.read_text().splitlines()]
    assert [line.split(" --")[0] for line in started] == ["stack init lab", "up", "destroy"]
