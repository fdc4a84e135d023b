"""Where a team keeps its state: a database behind the engine, and not this machine's files."""

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from deskyard.declaration.declaration import PROJECT
from deskyard.errors import SiteError
from deskyard.workspace import workspace
from tests.proxmox.rack import Rack, changed
from tests.support.postgres import database, programs
from tests.support.requirements import missing

pytestmark = pytest.mark.sampled


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The database that all stacks of the test are kept in."""
    if programs() is None:
        missing("postgresql")
    with database("state") as url:
        monkeypatch.setenv("PULUMI_BACKEND_URL", url)
        yield url


def hold(url: str, stack: str, pid: int) -> None:
    """Lock a stack as the engine of this process does."""
    holder = {"pid": pid, "username": "root", "hostname": os.uname().nodename, "timestamp": "2026-01-01T00:00:00Z"}
    content = json.dumps({"data": base64.b64encode(json.dumps(holder).encode()).decode()})
    # The engine puts the name of the database before what it writes into it.
    key = f"{urlsplit(url).path.strip('/')}/.pulumi/locks/organization/{PROJECT}/{stack}/5f0c.json"
    insert = "INSERT INTO pulumi_state (key, data) VALUES (:'key', :'content')"
    argv = ["psql", "-v", "ON_ERROR_STOP=1", "-v", f"key={key}", "-v", f"content={content}", url]
    subprocess.run(argv, input=insert, text=True, check=True, timeout=60, capture_output=True)


@pytest.mark.deep  # the next one also makes a workspace whose state is in a database
def test_a_workspace_whose_state_is_in_a_database_is_made_left_alone_and_removed(rack: Rack, url: str) -> None:
    before = rack.peer.fake.left()
    stack = rack.up("lab", "dev1")
    assert rack.machines("lab").keys() == {"gateway", "dev1"}
    assert changed(stack.preview()) == []
    assert list((rack.folder / "home").rglob("lab.json*")) == []
    workspace.destroy("lab")
    assert rack.peer.fake.left() == before


def test_the_lock_of_a_run_that_lives_is_respected_and_one_that_died_left_is_lifted(rack: Rack, url: str) -> None:
    stack = rack.up("lab", "dev1")
    living = subprocess.Popen(["sleep", "600"])
    try:
        hold(url, "lab", living.pid)
        rack.declare("lab", "dev1:pro")
        with pytest.raises(SiteError, match="another run works on it"):
            workspace.up("lab")
    finally:
        living.kill()
        living.wait()
    workspace.up("lab")
    assert changed(stack.preview()) == []
