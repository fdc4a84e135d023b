"""The suites that passed in the freshly built image pass in the live machines of a workspace: the same files."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deskyard.plan.image import read_image, suite_folders
from deskyard.run.places import places, tree
from tests.support.workspaces import Running

pytestmark = pytest.mark.vm
SECONDS = 1800
CONNECT_SECONDS = 180  # four emulated machines that start their sessions keep each other waiting
MACHINES = {"gateway": "gateway", "desk": "desktop"}  # host -> image


@pytest.fixture(scope="module")
def suites(one: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[int, str]]]:
    """Exit code and output of each machine's suites: each machine is waited for, so they run at once."""
    logs = {host: tmp_path_factory.mktemp("suites") / f"{host}.log" for host in MACHINES}
    running = {host: _start(one, host, image, logs[host]) for host, image in MACHINES.items()}
    try:
        yield {host: (process.wait(SECONDS), logs[host].read_text()) for host, process in running.items()}
    finally:
        for process in running.values():
            process.kill()
            process.wait()


@pytest.mark.parametrize("host", MACHINES)
def test_a_live_machine_passes_the_suites_of_its_image(suites: dict[str, tuple[int, str]], host: str) -> None:
    code, output = suites[host]
    assert code == 0, output[-8000:]


def _start(one: Running, host: str, image: str, log: Path) -> subprocess.Popen[bytes]:
    config = places().workspace(one.plan.site, one.name) / "ssh_config"
    folders = [folder for folder in suite_folders(read_image(tree(), image), tree()) if _for_live_machines(folder)]
    assert folders
    argv = [sys.executable, "-m", "pytest", "-q", "-m", "vm", "-p", "no:cacheprovider"]
    # Testinfra takes no path of a shared connection, and its option for arguments of ssh does nothing: without this
    # file each command would be greeted anew, which costs an emulated machine seconds.
    shared = log.with_suffix(".ssh_config")
    shared.write_text(f"Host {host}\n  ControlPath {one.master(host)}\nHost *\nInclude {config}\n")
    argv += [f"--hosts=ssh://{host}?timeout={CONNECT_SECONDS}", f"--ssh-config={shared}", "--sudo"]
    with log.open("wb") as stream:
        return subprocess.Popen([*argv, *map(str, folders)], cwd=tree(), stdout=stream, stderr=stream)


def _for_live_machines(folder: Path) -> bool:
    # A machine that has lived has host keys, logs and a history: that suite is for images alone.
    return folder.name != "image_hygiene"
