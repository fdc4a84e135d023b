"""The computer-use service: it answers, sees the desktop's screen, and is the agent's."""

import json
from collections.abc import Callable
from typing import Any

from testinfra.host import Host

Eventually = Callable[[Callable[[], bool], str], None]

ASK = """
import sys, urllib.request
asked = urllib.request.Request(sys.argv[1], headers={"Accept": "application/json"})
print(urllib.request.urlopen(asked, timeout=60).read().decode())
"""


def ask(host: Host, port: int, path: str) -> str:
    """What the service answers to a program of the desktop."""
    said: str = host.run(f"python3 -c %s http://127.0.0.1:{port}%s", ASK, path).stdout
    return said.strip()


def test_service_answers(host: Host, defaults: dict[str, Any], eventually: Eventually) -> None:
    eventually(lambda: ask(host, defaults["computer_use_port"], "/healthz") == "ok", "the service answers")


def test_service_sees_the_screen_in_its_size(host: Host, defaults: dict[str, Any], eventually: Eventually) -> None:
    display = defaults["computer_use_display"]
    port = defaults["computer_use_port"]
    eventually(lambda: ask(host, port, "/v1/windows").startswith("{"), "the service sees windows")
    found = json.loads(ask(host, port, "/v1/screen?format=jpeg"))
    size = host.check_output(f"sudo -u agent env DISPLAY=:{display} xdpyinfo")
    assert f"{found['size'][0]}x{found['size'][1]}" in size


def test_service_is_on_the_accessibility_bus_of_the_session(
    host: Host, defaults: dict[str, Any], eventually: Eventually
) -> None:
    port = defaults["computer_use_port"]
    eventually(
        lambda: '"silent"' in ask(host, port, "/v1/accessibility?depth=0"), "programs can be asked what they show"
    )


def test_service_is_the_agents_and_not_root(host: Host, defaults: dict[str, Any]) -> None:
    assert host.service("computer-use").is_enabled
    command = f"/usr/bin/python3 -m deskyard.computer --port {defaults['computer_use_port']}"
    assert host.process.get(args=command).user == defaults["computer_use_user"]


def test_nothing_is_recorded_unless_root_says_so(host: Host, defaults: dict[str, Any], eventually: Eventually) -> None:
    port, folder = defaults["computer_use_port"], host.file("/etc/deskyard")
    assert folder.is_directory and (folder.user, folder.mode & 0o022) == ("root", 0)
    if host.file("/etc/deskyard/recording.json").exists:
        return
    eventually(lambda: ask(host, port, "/v1/recordings").startswith("{"), "the service says whether it records")
    assert json.loads(ask(host, port, "/v1/recordings"))["state"] == "off"


def test_what_halts_the_agent_listens_and_answers_nobody_of_the_desktop(host: Host, defaults: dict[str, Any]) -> None:
    port = defaults["computer_use_halt_port"]
    assert host.service("agent-halt.socket").is_enabled
    assert host.socket(f"tcp://0.0.0.0:{port}").is_listening
    asked = f"import socket; s = socket.create_connection(('127.0.0.1', {port}), 60); print(s.makefile().read())"
    assert host.run("python3 -c %s", asked).stdout.strip() == ""
    assert "frozen 1" not in host.run("cat /sys/fs/cgroup/agent.slice/cgroup.events").stdout


def test_program_that_halts_the_agent_starts_with_what_the_image_carries(host: Host) -> None:
    given = "PYTHONPATH=/usr/lib/deskyard python3 -c %s"
    assert host.run(given, "import deskyard.computer.halting as h; print(h.is_still())").stdout.strip() == "False"
