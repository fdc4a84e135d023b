"""A database elsewhere: taken by TLS that is verified and secrets of each role; what is unfit is refused untouched."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from deskyard.control.ground.folder import Folder, ids
from deskyard.control.ground.settings import Settings, kept
from deskyard.control.store import administrator, backup, cluster, migration
from deskyard.control.store.address import VARIABLE, parsed, wanted
from deskyard.control.store.cluster import (
    DATABASE,
    IDENTITY,
    LINK,
    OWNER,
    RECORDER,
    ROLES,
    SESSION,
    WEB,
    WORKER,
    Cluster,
)
from deskyard.control.store.connection import connect
from deskyard.control.store.database import chosen
from deskyard.control.store.elsewhere import RELAY_PORT, Elsewhere
from deskyard.errors import ConfigError, DeskyardError, HostError
from deskyard.host.deadline import Deadline
from tests.control import site
from tests.control.earlier import before
from tests.control.lab import ACCOUNTS, WAIT_SECONDS, Lab
from tests.support import postgres
from tests.support.postgres import ADMINISTRATOR, OTHER_HOST, PASSWORD, Server
from tests.support.pve.certificate import issue
from tests.support.requirements import need_root

pytestmark = pytest.mark.sampled

SETTINGS = Settings("local", "localhost", "127.0.0.1", 9443)


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    need_root("gives processes accounts of their own")
    with postgres.server() as found:
        yield found


@pytest.fixture
def server(running: Server) -> Iterator[Server]:
    yield running
    running.forget()


@pytest.fixture
def place(server: Server) -> Iterator[Elsewhere]:
    root = Path(tempfile.mkdtemp(prefix="deskyard-elsewhere."))
    root.chmod(0o711)
    folder = Folder(root / "control", ACCOUNTS)
    folder.lay_out()
    yield Elsewhere(folder, server.address, lambda: PASSWORD)
    shutil.rmtree(root)


def begun(place: Elsewhere) -> Elsewhere:
    """The same, in use."""
    place.check()
    place.settle()
    migration.migrate(place.url(OWNER))
    return place


def names(server: Server) -> set[str]:
    """What there is of Mission Control at a server."""
    with server.connect() as link:
        roles = link.execute("select rolname from pg_roles where rolname like 'mc_%'").fetchall()
        databases = link.execute("select datname from pg_database where datname = 'mission'").fetchall()
    return {row[0] for row in (*roles, *databases)}


def test_each_role_has_a_secret_of_its_own_in_a_file_of_its_account_and_sessions_begin_as_on_this_machine(
    server: Server, place: Elsewhere
) -> None:
    begun(place)
    assert names(server) == {*ROLES, "mission"}
    accounts = {WEB: ACCOUNTS.web, RECORDER: ACCOUNTS.recorder, IDENTITY: ACCOUNTS.identity, LINK: ACCOUNTS.link}
    owners = {role: ids(account)[0] for role, account in accounts.items()}
    states = {role: place.folder.database_secret(role).stat() for role in ROLES}
    assert {role: (state.st_uid, state.st_mode & 0o777) for role, state in states.items()} == {
        role: (owners.get(role, 0), 0o600) for role in ROLES
    }
    secrets = {place.folder.database_secret(role).read_text().strip().rpartition(":")[2] for role in ROLES}
    assert len(secrets) == len(ROLES)
    # What is kept for processes to begin with, and what the server wrote down of all statements.
    shown = [place.url(role) for role in ROLES] + [(server.folder / "log").read_text(), str(place.address)]
    assert not any(secret in text for secret in (*secrets, PASSWORD) for text in shown)
    with connect(place.url(WORKER)) as link:
        found = {name: link.execute(f"show {name}".encode()).fetchone() for name in SESSION}
        encrypted = link.execute("select ssl, version from pg_stat_ssl where pid = pg_backend_pid()").fetchone()
    assert found == {name: {name: value.strip("'")} for name, value in SESSION.items()}
    assert encrypted is not None and encrypted["ssl"]
    with server.connect() as link:
        query = "select count(*) from pg_auth_members where roleid = 'mc_owner'::regrole"
        assert link.execute(query).fetchone() == (0,)


def test_once_it_is_there_nobody_needs_its_administrator(server: Server, place: Elsewhere) -> None:
    begun(place)
    with server.connect() as link:
        link.execute(f"alter role {ADMINISTRATOR} nologin".encode())
    try:
        again = replace(place, password=administrator.nobody_asks)
        assert again.check() == migration.versions()[0]
        again.settle()
        # Nor, from the copy, the file that was named.
        gone = replace(again, address=replace(again.address, authority=Path("/nonexistent/authority.pem")))
        gone.check()
        gone.settle()
        connect(gone.url(WORKER)).close()
    finally:
        with server.connect() as link:
            link.execute(f"alter role {ADMINISTRATOR} login".encode())


def test_a_role_that_only_a_newer_deskyard_has_is_made_by_the_administrator_who_is_asked_again(
    server: Server, place: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    before(monkeypatch)
    begun(place)
    with server.connect(DATABASE) as link:
        link.execute(f"drop owned by {LINK}; drop role {LINK}".encode())
    place.folder.database_secret(LINK).unlink()
    monkeypatch.undo()
    with pytest.raises(ConfigError, match="is wanted"):
        replace(place, password=administrator.nobody_asks).check()
    # The others go on with the secrets that they have, while they are used.
    with connect(place.url(WORKER)) as worker:
        begun(place)
        worker.execute("select 1")
    # Without the relay that leads its closed network there.
    with connect(place.url(LINK).replace(f"port={RELAY_PORT}", f"port={place.address.port}")) as link:
        assert link.execute("select count(*) as tickets from approval").fetchone() == {"tickets": 0}


def test_another_machine_takes_it_over_with_new_secrets_unless_it_is_in_use(
    server: Server, place: Elsewhere, tmp_path: Path
) -> None:
    begun(place)
    tmp_path.chmod(0o711)
    other = replace(place, folder=Folder(tmp_path / "control", ACCOUNTS))
    other.folder.lay_out()
    with connect(place.url(WORKER)), pytest.raises(HostError, match="is used by another Mission Control"):
        other.check()
    assert other.check() == migration.versions()[0]
    other.settle()
    with pytest.raises(HostError, match="does not take the secrets in"):
        place.check()
    with connect(other.url(OWNER)) as link:
        assert link.execute("select count(*) as persons from person").fetchone() == {"persons": 0}


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://admin:hunter2@db:5432/mission?sslrootcert=/ca.pem",
        "postgresql://admin:@db/mission?sslrootcert=/ca.pem",
        "postgresql://admin@db/mission?sslrootcert=/ca.pem&password=hunter2",
        "postgresql://admin@db/mission?sslrootcert=/ca.pem&sslmode=require&x=hunter2",
        "postgresql://admin@db/mission?sslrootcert=/ca.pem&sslpassword=hunter2",
        "postgresql://admin@db,hunter2/mission?sslrootcert=/ca.pem",
        "postgresql://admin@db/hunter2?sslrootcert=/ca.pem",
        "postgresql://admin@db:hunter2/mission?sslrootcert=/ca.pem",
        "postgresql://admin@db/mission?sslrootcert=hunter2",
        "postgresql://hunter2/mission?sslrootcert=/ca.pem",
        "postgresql://admin@db/mission?hunter2",
        "mysql://admin@hunter2/mission?sslrootcert=/ca.pem",
        "host=db user=admin password=hunter2",
    ],
)
def test_an_address_that_has_a_password_or_is_unfit_is_refused_and_not_repeated(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(ConfigError) as caught:
        wanted()
    assert "hunter2" not in str(caught.value) and caught.value.field == VARIABLE


def test_an_address_reads_as_it_is_written() -> None:
    text = "postgresql://a%40b@db.example.org:5433/mission?sslrootcert=/etc/ssl/db.pem"
    assert str(parsed(text)) == text
    assert str(parsed("postgres://admin@10.0.0.5?sslmode=verify-full&sslrootcert=/ca.pem")) == (
        "postgresql://admin@10.0.0.5:5432/mission?sslrootcert=/ca.pem"
    )


def test_a_password_of_the_environment_which_every_role_would_use_is_refused(
    place: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    with pytest.raises(ConfigError, match="PGPASSWORD") as caught:
        place.check()
    assert "hunter2" not in str(caught.value)


def refusal(server: Server, place: Elsewhere) -> str:
    """Why a database is not taken; nothing of Mission Control was made there."""
    before = names(server)
    with pytest.raises(DeskyardError) as caught:
        place.check()
    assert names(server) == before and PASSWORD not in str(caught.value)
    return str(caught.value)


def test_a_server_without_tls_or_with_a_certificate_of_another_authority_or_name_is_refused(
    server: Server, place: Elsewhere, tmp_path: Path
) -> None:
    server.set(ssl="off")
    try:
        assert "speaks no TLS" in refusal(server, place)
    finally:
        server.set(ssl="on")
    other = issue(tmp_path).authority
    # Of the same name, and of others.
    for authority in (other, Path("/etc/ssl/certs/ca-certificates.crt")):
        stranger = replace(place, address=replace(place.address, authority=authority))
        assert "that the named authority did not sign" in refusal(server, stranger)
    misnamed = replace(place, address=replace(place.address, host=OTHER_HOST))
    assert "shows a certificate for another name" in refusal(server, misnamed)
    for path, reason in ((tmp_path / "none.pem", "cannot be read"), (Path("/etc/hostname"), "holds no certificate")):
        assert reason in refusal(server, replace(place, address=replace(place.address, authority=path)))
    # The roles' own connections hold to the same.
    begun(place)
    shutil.copy(other, place.folder.database_authority)
    with pytest.raises(psycopg.OperationalError, match="SSL error"):
        connect(place.url(WORKER))


def test_a_server_that_is_too_old_or_newer_than_the_programs_here_is_refused(
    server: Server, place: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(administrator, "LEAST", 99)
        assert "which is too old" in refusal(server, place)
    with monkeypatch.context() as patch:
        patch.setattr(cluster, "client_version", lambda: 9)
        assert "install postgresql-client-" in refusal(server, place)


def test_an_administrator_who_may_not_create_roles_or_gives_no_or_another_password_is_refused(
    server: Server, place: Elsewhere
) -> None:
    for option, reason in (("createrole", "may not create roles"), ("createdb", "may not create the database")):
        with server.connect() as link:
            link.execute(f"alter role {ADMINISTRATOR} no{option}".encode())
        try:
            assert reason in refusal(server, place)
        finally:
            with server.connect() as link:
                link.execute(f"alter role {ADMINISTRATOR} {option}".encode())
    assert "keep it in ~/.pgpass" in refusal(server, replace(place, password=administrator.nobody_asks))
    assert "does not take this password" in refusal(server, replace(place, password=lambda: "hunter3"))


def test_a_database_of_a_newer_deskyard_or_of_somebody_else_is_refused(
    server: Server, place: Elsewhere, tmp_path: Path
) -> None:
    begun(place)
    with connect(place.url(OWNER)) as link:
        link.execute("update alembic_version set version_num = '9999'")
    assert "was made by a newer Deskyard" in refusal(server, place)
    other = replace(place, folder=Folder(tmp_path, ACCOUNTS))
    assert "was made by a newer Deskyard" in refusal(server, other)
    # Its secrets hold on: nothing was made anew.
    connect(place.url(OWNER)).close()
    with server.connect() as link:
        link.execute("alter role mc_web createrole")
    assert "has roles that may more" in refusal(server, other)
    server.forget()
    with server.connect() as link:
        link.execute("create database mission")
    assert "none of Mission Control's" in refusal(server, other)


def test_a_database_of_this_machine_is_not_left_behind_without_a_word(
    place: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert chosen(place.folder, None) is None and chosen(place.folder, "kept") == "kept"
    monkeypatch.setenv(VARIABLE, str(place.address))
    assert chosen(place.folder, None) == str(place.address)
    (place.folder.cluster / "PG_VERSION").write_text("15")
    with pytest.raises(HostError, match="holds a database"):
        chosen(place.folder, None)


def test_a_backup_moves_a_database_there_and_back_and_one_that_holds_something_is_left_alone(
    mission: Lab, server: Server, place: Elsewhere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mission.declare("lab", "first")
    path = Path(backup.make(mission.folder, SETTINGS, tmp_path)["file"])
    with monkeypatch.context() as patch:
        # What comes after the tables goes wrong: no half is left.
        patch.setattr(backup, "BROKEN_OFF", {"reason": object()})
        with pytest.raises(TypeError):
            backup.restore(place, path, dry_run=False)
    assert place.check() is None and kept(place.folder) is None
    assert backup.restore(place, path, dry_run=False)["restored"]
    found = kept(place.folder)
    assert found is not None and found[0].database == str(place.address)
    with connect(place.url(WORKER)) as link:
        assert link.execute("select id from desktop").fetchall() == [{"id": "lab.first"}]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            link.execute("insert into person (id, name, role, giver) values ('eve', 'eve', 'admin', 'person:ada')")
    with pytest.raises(HostError, match="holds a database"):
        backup.restore(place, path, dry_run=True)
    (tmp_path / "back").mkdir()
    back = Path(backup.make(place.folder, found[0], tmp_path / "back")["file"])
    here = Cluster(Folder(Path(tempfile.mkdtemp(prefix="deskyard-restored.")) / "control", ACCOUNTS))
    here.folder.root.parent.chmod(0o711)
    try:
        assert backup.restore(here, back, dry_run=False)["holds"]["desktop"] == 1
        found = kept(here.folder)
        assert found is not None and found[0].database is None
    finally:
        shutil.rmtree(here.folder.root.parent)


def test_mission_control_comes_up_on_it_begins_again_and_shows_no_secret(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passwords = tmp_path / "pgpass"
    passwords.touch(mode=0o600)
    passwords.write_text(f"*:*:*:{ADMINISTRATOR}:{PASSWORD}\n")
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    monkeypatch.setenv(VARIABLE, str(server.address))
    with site.running(lambda folder: (folder / "index.html").write_text("<title>pages</title>")) as found:
        # From now on nobody needs them.
        monkeypatch.delenv("PGPASSFILE")
        monkeypatch.delenv(VARIABLE)
        assert found.state["ready"] and found.state["database"] == str(server.address)
        names = {"relay", "recorder", "web", "worker", "watch", "observer", "way", "link", "proxy"}
        assert set(found.state["processes"]) == names and not found.control.folder.has_cluster()
        secrets = [found.control.folder.database_secret(role).read_text().strip()[-40:] for role in ROLES]
        for number in found.processes().values():
            texts = [Path(f"/proc/{number}/{part}").read_text() for part in ("cmdline", "environ")]
            assert not any(secret in text for secret in (PASSWORD, *secrets) for text in texts)
        status = Path(f"/proc/{found.processes()['relay']}/status").read_text()
        assert f"Uid:\t{ids(ACCOUNTS.relay)[0]}\t" in status and f"CapEff:\t{'0' * 16}" in status
        made = found.control.key("test", ["read", "admin"], None, 1)["key"]
        before = found.processes()
        for name in ("relay", "web"):
            os.kill(before[name], signal.SIGKILL)
        with server.connect() as link:
            cut = "select pg_terminate_backend(pid, %s) from pg_stat_activity where usename like 'mc_%%'"
            link.execute(cut, [round(WAIT_SECONDS * 1000)])

        def is_back() -> bool:
            now = found.processes()
            anew = all(now.get(name) not in (None, before[name]) for name in ("relay", "web"))
            return anew and bool(found.control.status()["ready"])

        assert Deadline(4 * WAIT_SECONDS).wait_for(is_back, 0.1)
        assert found.get("/api/me", Authorization=f"Bearer {made}")[0].status == 200
        assert Path(found.control.backup(tmp_path)["file"]).exists()
        assert found.control.upgrade()["ready"]
        with server.connect() as link:
            link.execute("alter role mc_owner nologin")
            with pytest.raises(HostError, match="is not permitted to log in"):
                found.control.key("test", ["read"], None, 1)
            link.execute("alter role mc_owner login")
        found.control.down()
        with server.connect() as link:
            assert link.execute("select count(*) from pg_stat_activity where usename like 'mc_%'").fetchone() == (0,)
        with pytest.raises(HostError, match="holds a database"):
            found.control.restore(next(tmp_path.glob("*.mission")), dry_run=True)
