"""The suites that passed in the freshly built image pass in the live machines of a workspace: the same files."""

import subprocess
import sys
from pathlib import Path

import pytest

from deskyard.plan.image import read_image, suite_folders
from deskyard.run.places import places, tree
from tests.support.workspaces import Running

pytestmark = pytest.mark.vm
SECONDS = 1800


@pytest.mark.parametrize(("host", "image"), [("gateway", "gateway"), ("desk", "desktop")])
def test_a_live_machine_passes_the_suites_of_its_image(one: Running, host: str, image: str) -> None:
    config = places().workspace(one.plan.site, one.name) / "ssh_config"
    suites = [folder for folder in suite_folders(read_image(tree(), image), tree()) if _for_live_machines(folder)]
    assert suites
    options = [
        "-m",
        "vm",
        "-p",
        "no:cacheprovider",
        f"--hosts=ssh://{host}?controlpath={one.master(host)}",
        f"--ssh-config={config}",
        "--sudo",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options, *map(str, suites)],
        cwd=tree(),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:]


def _for_live_machines(folder: Path) -> bool:
    # A machine that has lived has host keys, logs and a history: that suite is for images alone.
    return folder.name != "image_hygiene"
