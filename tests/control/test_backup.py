"""A backup is whole or not there, and brings the same into an empty place; an older program refuses newer tables."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import psycopg
import pytest

from deskyard.control.ground.folder import Folder
from deskyard.control.ground.settings import Settings, kept
from deskyard.control.queue import claim as claims
from deskyard.control.store import backup, cluster, migration
from deskyard.control.store.cluster import OWNER, WEB, Cluster
from deskyard.control.store.connection import Link, Row, connect
from deskyard.errors import ConfigError, DeskyardError, HostError
from deskyard.host.deadline import Deadline
from tests.control.lab import ACCOUNTS, WAIT_SECONDS, Lab
from tests.control.test_operations import want

# What there is, and who may what with it.
FLEET = ("workspace", "desktop", "person", "api_key")
SETTINGS = Settings("local", "localhost", "127.0.0.1", 9443)


@pytest.fixture
def empty() -> Iterator[Folder]:
    root = Path(tempfile.mkdtemp(prefix="deskyard-restored."))
    root.chmod(0o711)
    yield Folder(root / "control", ACCOUNTS)
    shutil.rmtree(root)


def rows_of(link: Link, table: str) -> list[Row]:
    """All of a table."""
    return link.execute(f"select * from {table} order by id".encode()).fetchall()


def test_the_same_is_there_again_and_nothing_is_done_anew(
    mission: Lab, owner: httpx.Client, empty: Folder, tmp_path: Path
) -> None:
    mission.declare("lab", "first", "blocks")
    mission.gate("blocks")
    done, under_way = want(owner, "lab.first"), want(owner, "lab.blocks")
    mission.state(done, "done")
    mission.state(under_way, "running")
    # It is said to run before its program has begun.
    assert Deadline(WAIT_SECONDS).wait_for(lambda: mission.effects("lab.blocks") == ["begin"], 0.05)
    queued = want(owner, "lab.first")
    fleet = {table: rows_of(mission.link, table) for table in FLEET}
    before = mission.all_effects()
    made = backup.make(mission.folder, SETTINGS, tmp_path)
    path = Path(made["file"])
    assert (path.stat().st_mode & 0o777, [path]) == (0o600, list(tmp_path.iterdir()))
    assert (made["holds"]["desktop"], made["schema"]) == (2, migration.versions()[0])
    assert backup.restore(Cluster(empty), path, dry_run=True)["restored"] is False
    assert not empty.root.exists()
    empty.root.mkdir(mode=0o711)
    empty.source.write_text("mission.before")
    assert backup.restore(Cluster(empty), path, dry_run=False)["restored"] is True
    # What gateways hold of the chain that was here is not of this one.
    assert not empty.source.exists()
    assert [found[0] for found in [kept(empty)] if found] == [SETTINGS]
    postmaster = Cluster(empty).start()
    try:
        # The rights of roles came along.
        migration.migrate(Cluster(empty).url(OWNER))
        with connect(Cluster(empty).url(OWNER)) as link:
            states = {row["id"]: row["state"] for row in link.execute("select id, state from operation").fetchall()}
            assert states == {done: "done", under_way: "failed", queued: "failed"}
            assert {table: rows_of(link, table) for table in FLEET} == fleet
            # Nothing is left that a worker would begin: no desktop is touched.
            claims.sweep(link)
            assert claims.claim(link, "restored") is None
            assert mission.all_effects() == before
            rights = "select has_table_privilege(%s, 'operation', 'update') as yes"
            assert link.execute(rights, [WEB]).fetchone() == {"yes": False}
            rights = "select has_database_privilege(%s, 'mission', 'temporary') as yes"
            assert link.execute(rights, [WEB]).fetchone() == {"yes": False}
    finally:
        cluster.stop(postmaster)
        mission.open("blocks")
    with pytest.raises(HostError, match="holds a database"):
        backup.restore(Cluster(empty), path, dry_run=True)


def test_what_was_changed_or_cut_or_is_none_is_refused(mission: Lab, empty: Folder, tmp_path: Path) -> None:
    path = Path(backup.make(mission.folder, SETTINGS, tmp_path / "one.mission")["file"])
    whole = path.read_bytes()
    changed = bytearray(whole)
    changed[len(whole) // 2] ^= 1
    for content in (whole[: len(whole) // 2], bytes(changed), b"no backup"):
        path.write_bytes(content)
        with pytest.raises(ConfigError) as caught:
            backup.restore(Cluster(empty), path, dry_run=False)
        assert caught.value.field == "backup"
    assert not empty.root.exists()


def test_a_backup_replaces_nothing_and_leaves_nothing_behind_when_it_fails(
    mission: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there").write_text("mine")
    with pytest.raises(ConfigError, match="is there already"):
        backup.make(mission.folder, SETTINGS, tmp_path / "there")

    def fail(_: Path) -> None:
        raise HostError("disk", None, "is full", "make room")

    monkeypatch.setattr(backup, "read", fail)
    with pytest.raises(DeskyardError, match="is full"):
        backup.make(mission.folder, SETTINGS, tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_tables_of_a_newer_program_are_refused_and_a_backup_comes_before_each_change(mission: Lab) -> None:
    url, kept_before = mission.url(OWNER), list[str]()
    head = migration.migrate(url, lambda: kept_before.append("backup"))
    assert kept_before == []
    mission.link.execute("update alembic_version set version_num = '9999'")
    try:
        with pytest.raises(HostError, match="made by a newer Deskyard"):
            migration.migrate(url, lambda: kept_before.append("backup"))
        assert kept_before == []
        # All steps but the first again, which stumble over what they have done: the last alone may not.
        before = migration.versions()[-1]
        mission.link.execute("update alembic_version set version_num = %s", [before])
        with pytest.raises(psycopg.ProgrammingError, match="exist"):
            migration.migrate(url, lambda: kept_before.append("backup"))
        assert (kept_before, migration.version(url)) == (["backup"], before)
    finally:
        mission.link.execute("update alembic_version set version_num = %s", [head])


def test_a_change_of_the_tables_that_is_tried_again_keeps_the_backup_of_its_first_try(mission: Lab) -> None:
    folder = mission.folder.backups
    try:
        first = backup.keep(mission.folder, SETTINGS)
        (folder / f"{backup.DRAFT}killed").mkdir()
        assert backup.keep(mission.folder, SETTINGS) == first
        assert list(folder.iterdir()) == [first]
        # Of another second, which is in its name.
        first = first.rename(first.with_name(first.name.replace("-2", "-1")))
        mission.declare("lab", "first")
        second = backup.keep(mission.folder, SETTINGS)
        assert backup.read(second).counts["desktop"] == 1
        second.write_bytes(b"cut")
        second = second.rename(second.with_name(second.name.replace("-2", "-1")))
        assert backup.keep(mission.folder, SETTINGS) not in (first, second)
    finally:
        shutil.rmtree(folder)


def test_no_statement_is_too_slow_for_a_backup_or_a_change_of_the_tables(
    mission: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = "(select pg_sleep(0.5)) as slow"
    monkeypatch.setattr(backup, "COUNTED", (slow,))
    mission.link.execute("alter role mc_owner in database mission set statement_timeout = '100ms'")
    engine = migration.engine_of(mission.url(OWNER))
    try:
        assert backup.make(mission.folder, SETTINGS, tmp_path)["holds"] == {slow: 1}
        with engine.connect() as link:
            link.exec_driver_sql("select pg_sleep(0.5)")
    finally:
        engine.dispose()
        mission.link.execute("alter role mc_owner in database mission reset statement_timeout")
