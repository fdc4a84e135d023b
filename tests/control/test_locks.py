"""Who writes at the same time as another waits for that in one order, never in a circle, and heeds what it did."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from deskyard.control.identity.declared import Declared as Provider
from deskyard.control.identity.persons import person_of
from deskyard.control.identity.refusal import NotHere
from deskyard.control.jobs.observer import write_declared, write_state
from deskyard.control.store.cluster import IDENTITY, WORKER
from deskyard.control.store.connection import Link, connect
from deskyard.control.usage import sight
from deskyard.declaration import declaration
from deskyard.declaration.declaration import Declared
from deskyard.host.deadline import Deadline
from deskyard.life.events import Event
from deskyard.wire.stages import Stage
from tests.control.lab import WAIT_SECONDS, Lab

# The later name comes first: the order of a declaration is its owner's.
DECLARATION = """config:
  deskyard:network: 10.80.1.0/24
  deskyard:desktops:
  - {name: second, tier: TIER}
  - {name: first, tier: TIER}
"""


@pytest.fixture
def declared(mission: Lab, worker: Link, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Declared:
    """The declaration of a workspace that was written down when all its desktops were smaller."""
    monkeypatch.setenv("DESKYARD_STACKS", str(tmp_path))
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))
    path = tmp_path / "Pulumi.lab.yaml"
    path.write_text(DECLARATION.replace("TIER", "free"))
    write_declared(worker, declaration.read("lab"))
    path.write_text(DECLARATION.replace("TIER", "pro"))
    return declaration.read("lab")


@contextmanager
def writing(
    mission: Lab, holder: Link, lock: Callable[[], object], write: Callable[[Link], object], role: str = WORKER
) -> Iterator[None]:
    """Within the block somebody writes, and waits for what the holder has locked; in the end both go well."""
    wrong: list[psycopg.Error] = []

    def run() -> None:
        try:
            write(writer)
        except psycopg.Error as error:
            wrong.append(error)

    def waits() -> bool:
        row = mission.link.execute("select pg_blocking_pids(%s) as pids", [writer.info.backend_pid]).fetchone()
        return row is not None and row["pids"] == [holder.info.backend_pid]

    with connect(mission.url_as(role)) as writer:
        thread = threading.Thread(target=run)
        try:
            with holder.transaction():
                lock()
                thread.start()
                assert Deadline(WAIT_SECONDS).wait_for(waits, 0.02), wrong
                yield
        finally:
            thread.join(WAIT_SECONDS)
    assert not thread.is_alive() and not wrong, wrong


def test_a_declaration_is_written_down_while_its_state_is(mission: Lab, worker: Link, declared: Declared) -> None:
    def lock() -> None:
        sight.hold(worker, "lab")

    with writing(mission, worker, lock, lambda link: write_declared(link, declared)):
        # Who has the desktops comes to their workspace as well: the other has not locked it.
        write_state(worker, declared.plan, {}, Event("lab", "first", Stage.READY, 1.0, "desktop"))
    found = mission.link.execute("select tier, state from desktop where name = 'first'").fetchone()
    assert found == {"tier": "pro", "state": "ready"}


def test_states_are_written_down_while_who_watches_holds_the_first_desktop(
    mission: Lab, worker: Link, declared: Declared
) -> None:
    powers = {desktop.machine.domain: "running" for desktop in declared.plan.desktops}

    def lock() -> None:
        worker.execute("select 1 from desktop where id = 'lab.first' for update")

    with writing(mission, worker, lock, lambda link: write_state(link, declared.plan, powers)):
        # As `hold` goes on, by name: the other has not locked the second before the first.
        worker.execute("select 1 from desktop where id = 'lab.second' for update")
    found = mission.link.execute("select wanted from desktop where workspace_id = 'lab'").fetchall()
    assert [row["wanted"] for row in found] == ["running", "running"]


def test_a_mail_that_two_accounts_show_at_once_links_one_of_them(mission: Lab) -> None:
    provider = Provider("https://id.example", "mission")
    mission.link.execute("insert into person (id, name, role) values ('pe_c', 'cas', 'operator')")
    mission.link.execute("insert into mail_offer (mail, person_id) values ('cas@example.org', 'pe_c')")

    def sign_in(link: Link, account: str) -> str:
        return person_of(link, provider, {"sub": account, "email": "cas@example.org", "email_verified": True})

    def too_late(link: Link) -> None:
        with pytest.raises(NotHere, match="is nobody here"):
            sign_in(link, "second")

    def sooner() -> None:
        sign_in(first, "first")

    with connect(mission.url_as(IDENTITY)) as first, writing(mission, first, sooner, too_late, IDENTITY):
        pass
    assert mission.link.execute("select subject from identity").fetchall() == [{"subject": "first"}]
