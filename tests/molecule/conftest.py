"""What only throw-away hosts can take: probes from a desktop and from outside, broken files, dead services, reboots.

Run by Molecule after the suite of the role; the folder of the scenario is its working folder's.
"""

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import testinfra

from deskyard.lab.nspawn import Yard
from deskyard.wire.gateway_settings import Settings, parse
from tests.molecule.door import Door

HERE = Path(__file__).resolve().parent
FOLDER = "MOLECULE_EPHEMERAL_DIRECTORY"
Eventually = Callable[[Callable[[], bool], str], None]

# Which of the given address:port pairs take a connection.
CONNECT = """
import json, socket, sys
from concurrent.futures import ThreadPoolExecutor
def ask(where):
    address, _, port = where.rpartition(":")
    try:
        socket.create_connection((address, int(port)), 2).close()
        return True
    except OSError:
        return False
with ThreadPoolExecutor(32) as pool:
    print(json.dumps(dict(zip(sys.argv[1:], pool.map(ask, sys.argv[1:])))))
"""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of these need Molecule's hosts, and come after the suite of the role, which Molecule names last."""
    items.sort(key=lambda item: HERE in item.path.parents)
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.vm)


@dataclass(frozen=True)
class Machine:
    """The machine that the hosts run on, as its network sees it."""

    namespace: str

    def run(self, *argv: str) -> str:
        command = ["ip", "netns", "exec", self.namespace, *argv]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def connects(self, *where: str) -> dict[str, bool]:
        found: dict[str, bool] = json.loads(self.run("python3", "-c", CONNECT, *where))
        return found


@pytest.fixture(scope="session")
def folder() -> Path:
    """Where the scenario keeps its hosts."""
    if FOLDER not in os.environ:
        pytest.skip("needs Molecule's hosts: ./inv check.molecule")
    return Path(os.environ[FOLDER])


@pytest.fixture(scope="session")
def desktop(folder: Path) -> Any:
    """The first desktop of the Plan."""
    return testinfra.get_host("ssh://desktop", ssh_config=str(folder / "ssh_config"))


@pytest.fixture(scope="session")
def machine(folder: Path) -> Machine:
    """The world outside of the workspace."""
    return Machine(Yard(folder).name)


@pytest.fixture(scope="session")
def settings(folder: Path) -> Settings:
    """The Plan's settings, as they were sent."""
    return parse((folder / "settings.json").read_text())


@pytest.fixture
def door(machine: Machine, settings: Settings) -> Door:
    """The door, from outside."""
    return Door(machine, settings)


@pytest.fixture
def connects(desktop: Any) -> Callable[..., dict[str, bool]]:
    """What a desktop can open a connection to."""

    def ask(*where: str) -> dict[str, bool]:
        found: dict[str, bool] = json.loads(desktop.check_output("python3 -c %s " + " ".join(where), CONNECT))
        return found

    return ask


@pytest.fixture
def reboot(host: Any, eventually: Eventually) -> Callable[[], None]:
    """Boot the gateway anew; its network begins empty, as on a real machine."""

    def answer(command: str) -> str:
        try:
            return str(host.run(command).stdout.strip())
        except RuntimeError:  # no ssh
            return ""

    def again() -> None:
        identity = "cat /proc/sys/kernel/random/boot_id"
        before = answer(identity)
        assert before
        answer("systemctl reboot")
        eventually(lambda: answer(identity) not in ("", before), "another boot")
        eventually(lambda: answer("systemctl is-system-running --wait") != "", "the end of the boot")

    return again
