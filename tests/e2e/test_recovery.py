"""A desktop of a workspace whose host is lost: its backup and the key of the repository bring it back elsewhere."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from deskyard.host.places import places
from deskyard.host.vm.accelerator import accelerator
from tests.e2e.test_power import DESKTOP, IDENTITY, WAIT_SECONDS, preview
from tests.support.workspaces import Declared, Running, bring_up, plan, take_down

pytestmark = [pytest.mark.vm, pytest.mark.deep]

NAME = "e2e-lost"


def declared(folder: Path) -> Declared:
    """The workspace as its file in git says; all else of it is in that folder, or on the site."""
    folder.mkdir()
    return Declared(NAME, "10.91.6.0/24", 18448, (DESKTOP,), folder)


@pytest.fixture
def live() -> Iterator[list[Declared]]:
    """What is up and has to be destroyed at the end."""
    workspaces: list[Declared] = []
    yield workspaces
    take_down(workspaces)


def up(workspace: Declared, live: list[Declared]) -> Running:
    """Bring it up."""
    live.append(workspace)
    bring_up([workspace])
    return Running(workspace, plan(workspace, accelerator("auto")))


def test_desktop_comes_back_where_nothing_is_left_but_its_backup_and_the_key(
    live: list[Declared], tmp_path: Path
) -> None:
    before = up(declared(tmp_path / "before"), live)
    target, site = f"{NAME}/{DESKTOP}", places().sites / before.plan.site
    identity = before.ssh(DESKTOP, IDENTITY).stdout
    before.ssh(DESKTOP, "echo mine > kept && sync")
    made = json.loads(before.inv("backup.run", target, "--json", timeout=WAIT_SECONDS).stdout)["backup"]["id"]
    before.inv("backup.verify", target, timeout=WAIT_SECONDS)
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(site / "backups" / NAME, elsewhere / "repository")
    shutil.copy2(site / "backup-keys" / NAME, elsewhere / "key")
    before.hang_up(DESKTOP)
    take_down([live.pop()])
    shutil.rmtree(before.declared.folder)
    assert not places().workspace(before.plan.site, NAME).exists()

    running = up(declared(tmp_path / "after"), live)
    assert running.ssh(DESKTOP, "cat kept", check=False).returncode == 1
    shutil.copytree(elsewhere / "repository", site / "backups" / NAME)
    shutil.copy2(elsewhere / "key", site / "backup-keys" / NAME)
    (found,) = json.loads(running.inv("backup.list", target, "--json").stdout)["backups"]
    assert (found["id"], found["verified"] is not None) == (made, True)
    running.hang_up(DESKTOP)
    running.inv("backup.restore", target, made, "--yes", timeout=2 * WAIT_SECONDS)
    assert running.ssh(DESKTOP, "cat kept").stdout == "mine\n"
    assert running.ssh(DESKTOP, IDENTITY).stdout == identity
    assert preview(running) == {}
