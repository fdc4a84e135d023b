"""A database of before gets the roles, grants and tables of this tree, and keeps what it holds."""

import shutil
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from deskyard.control.ground.folder import Folder
from deskyard.control.store import migration
from deskyard.control.store.cluster import LINK, OWNER, Cluster, stop
from deskyard.control.store.connection import connect
from deskyard.control.upkeep import moments, refused
from deskyard.control.upkeep.moments import of_egress
from deskyard.control.watch import traffic
from tests.control.earlier import before
from tests.control.lab import ACCOUNTS
from tests.control.test_timeline import NOW
from tests.control.test_timeline import refused as line
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


def test_what_was_refused_before_an_upgrade_is_known_after_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    before(monkeypatch, "0036")
    cluster.make_roles()
    migration.migrate(cluster.url(OWNER))
    with connect(cluster.url(OWNER)) as link:
        # As a program of then: it kept no names.
        monkeypatch.setattr(refused, "keep", lambda *_: None)
        refusals = [line("Pypi.org:443", NOW), line("pypi.org", NOW - timedelta(days=30)), line("10.0.0.1:22", NOW)]
        moments.keep(link, "lab", of_egress(refusals))
        link.execute("update alert_rule set number = 14 where kind = %s", [traffic.NEW_NAME])
    monkeypatch.undo()
    migration.migrate(cluster.url(OWNER))
    with connect(cluster.url(OWNER)) as link:
        found = link.execute("select desktop_id, name, day from refused_name").fetchall()
        assert [tuple(row.values()) for row in found] == [("lab.first", "pypi.org", (NOW - timedelta(days=30)).date())]
        rules = link.execute("select kind, number, enabled from alert_rule where kind like 'egress.new-%%'").fetchall()
        assert {tuple(row.values()) for row in rules} == {(traffic.NEW_NAME, 1, True), (traffic.NEW_REFUSED, 1, False)}
