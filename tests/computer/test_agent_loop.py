"""The example of an agent, on a real screen with a stubbed model: it opens a program, writes, and ends it by events."""

import ast
import os
import subprocess
import sys
from pathlib import Path

from deskyard.lab.changed_tests import imported
from tests.computer.desktop import Service, XServer
from tests.support.screen_model import Model
from tests.support.sources import parsed
from tests.support.vendor_api import served

TREE = Path(__file__).resolve().parents[2]
LOOP = TREE / "examples/agent/loop.py"
TEXT = "Grüße, 世界"


def done(service: Service, task: str) -> str:
    """What the agent says at the end of a task."""
    with served(Model) as url:
        variables = {
            "DESKYARD_LINK": service.url,
            "MODEL_URL": url,
            "MODEL_KEY": Model.key,
            "PYTHONPATH": str(TREE / "sdk"),
        }
        command = [sys.executable, str(LOOP), task]
        ended = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=180)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def test_an_agent_opens_a_program_writes_into_it_and_ends_it(service: Service, server: XServer, tmp_path: Path) -> None:
    file = tmp_path / "notes"
    program = f"env DISPLAY={server.display} LC_ALL=C.UTF-8 xterm -u8 -T Notes -e tee {file}"
    task = f"Start `{program}`, and when its window `Notes` is there write `{TEXT}\n`, then press `ctrl+d`."
    assert done(service, task) == "It is done."
    assert file.read_text() == f"{TEXT}\n"


def test_the_model_is_told_what_was_refused(service: Service, server: XServer) -> None:
    task = f"Start `env DISPLAY={server.display} xterm -T Refused -e cat`: `Refused`, `x`, `ctrl+nothing`."
    before = service.last()
    said = done(service, task)
    assert said.startswith("It failed") and "actions[0].keys (nothing) is no key" in said
    window = service.wait("window.appeared", match={"title": "Refused"}, after=before)["id"]
    assert service.client.post(f"/v1/windows/{window}/close").status_code == 200
    service.wait("window.closed", match={"id": window}, after=before)


def test_the_agent_never_sleeps() -> None:
    module = parsed(LOOP)
    assert not {"time", "asyncio"} & imported(module)
    assert "sleep" not in {node.attr for node in ast.walk(module) if isinstance(node, ast.Attribute)}
