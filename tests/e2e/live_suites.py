"""Runs the suites that passed in a freshly built image in a live machine of a workspace: the same files."""

import subprocess
import sys
from pathlib import Path

from deskyard.host.places import places, tree
from deskyard.plan.image.image import read_image
from deskyard.plan.image.suites import suite_folders
from tests.support.workspaces import Running

SECONDS = 1800
CONNECT_SECONDS = 180  # four emulated machines that start their sessions keep each other waiting


def begin_suites(running: Running, host: str, image: str, log: Path) -> subprocess.Popen[bytes]:
    """Start them, and leave to others to wait; `log` gets what they say."""
    config = places().workspace(running.plan.site, running.name) / "ssh_config"
    folders = [folder for folder in suite_folders(read_image(tree(), image), tree()) if _for_live_machines(folder)]
    assert folders
    argv = [sys.executable, "-m", "pytest", "-q", "-m", "vm", "-p", "no:cacheprovider"]
    # Testinfra takes no path of a shared connection, and its option for arguments of ssh does nothing: without this
    # file each command would be greeted anew, which costs an emulated machine seconds.
    shared = log.with_suffix(".ssh_config")
    shared.write_text(f"Host {host}\n  ControlPath {running.master(host)}\nHost *\nInclude {config}\n")
    argv += [f"--hosts=ssh://{host}?timeout={CONNECT_SECONDS}", f"--ssh-config={shared}", "--sudo"]
    with log.open("wb") as stream:
        return subprocess.Popen([*argv, *map(str, folders)], cwd=tree(), stdout=stream, stderr=stream)


def _for_live_machines(folder: Path) -> bool:
    # A machine that has lived has host keys, logs and a history: that suite is for images alone.
    return folder.name != "image_hygiene"
