"""A database of before gets the roles, grants and tables of this tree, and keeps what it holds."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deskyard.control.folder import Folder
from deskyard.control.store import migration
from deskyard.control.store.cluster import LINK, OWNER, Cluster, stop
from deskyard.control.store.connection import connect
from tests.control.earlier import before
from tests.control.lab import ACCOUNTS
from tests.support.requirements import need_root


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster of this machine, empty."""
    need_root("gives processes accounts of their own")
    root = Path(tempfile.mkdtemp(prefix="deskyard-upgrade."))
    root.chmod(0o711)
    folder = Folder(root, ACCOUNTS)
    folder.lay_out()
    found = Cluster(folder)
    found.make()
    postmaster = found.start()
    yield found
    stop(postmaster)
    shutil.rmtree(root)


def test_a_role_that_an_older_cluster_has_not_is_made_and_gets_its_grants(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    before(monkeypatch)
    cluster.make_roles()
    migration.migrate(cluster.url(OWNER))
    with connect(cluster.url(OWNER)) as link:
        link.execute(f"drop owned by {LINK}".encode())
        link.execute(f"drop role {LINK}".encode())
        link.execute("insert into anchor (workspace_id, problem) values ('lab', 'x')")
    monkeypatch.undo()
    cluster.make_roles()
    assert migration.migrate(cluster.url(OWNER)) == migration.versions()[0]
    with connect(cluster.url(OWNER)) as link:
        may = link.execute("select has_database_privilege(%s, 'mission', 'connect') as connects", [LINK]).fetchone()
        assert may == {"connects": True}
        link.execute(f"set role {LINK}".encode())
        assert link.execute("select problem from anchor").fetchone() == {"problem": "x"}
