"""A statement that the database refuses is no database that went away: each is said to be what it is."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest

from deskyard.control.store.cluster import WORKER
from deskyard.host.deadline import Deadline
from tests.control.lab import WAIT_SECONDS, Lab

AWAY, REFUSED = "the database went away", "the database refused a statement"


@pytest.fixture
def said(mission: Lab) -> Callable[[], str]:
    """What the worker printed since the test began."""
    mission.declare("lab", "first")
    before = len(mission.log("worker"))
    return lambda: mission.log("worker")[before:]


@contextmanager
def without(mission: Lab, right: str) -> Iterator[None]:
    """Take a right away, as a statement would lack it that nobody thought of in a migration."""
    mission.link.execute(f"revoke {right} from {WORKER}".encode())
    try:
        yield
    finally:
        mission.link.execute(f"grant {right} to {WORKER}".encode())


def test_a_refused_statement_of_an_operation_ends_it_and_says_what_it_is(
    mission: Lab, owner: httpx.Client, said: Callable[[], str]
) -> None:
    def opened() -> dict[str, object]:
        id = owner.post("/api/desktops/lab.first/session", json={"mode": "agent"}).json()["id"]
        return mission.state(id, "done", "failed")

    with without(mission, "insert on operation_secret"):
        row = opened()
    assert (row["state"], row["attempt"]) == ("failed", 1)
    problem = owner.get(f"/api/operations/{row['id']}").json()["problem"]
    assert problem["reason"].endswith("permission denied for table operation_secret")
    assert "log of its worker" in problem["remedy"]
    assert REFUSED in said() and "Traceback" in said() and AWAY not in said()
    assert opened()["state"] == "done"


@pytest.fixture
def raced(mission: Lab) -> Iterator[None]:
    """The first secret of an operation that is kept meets a row that another process wrote in that moment."""
    mission.link.execute(b"""create sequence kept; create function race() returns trigger security definer
        language plpgsql as $$ begin
          if nextval('kept') = 1 then raise unique_violation; end if;
          return new;
        end $$; create trigger race before insert on operation_secret for each row execute function race()""")
    yield
    mission.link.execute(b"drop function race cascade; drop sequence kept")


@pytest.mark.usefixtures("raced")
def test_an_operation_that_raced_with_another_process_is_done_by_its_next_attempt(
    mission: Lab, owner: httpx.Client
) -> None:
    mission.declare("lab", "first")
    id = owner.post("/api/desktops/lab.first/session", json={"mode": "agent"}).json()["id"]
    row = mission.state(id, "done", "failed")
    assert (row["state"], row["attempt"]) == ("done", 2)


def test_a_message_whose_turn_met_one_is_failed_and_the_next_is_answered(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first")

    def sent() -> dict[str, object]:
        answer = owner.post("/api/desktops/lab.first/chat", json={"message": "hello"}).json()
        mission.state(answer["operationId"], "done", "failed")
        path = f"/api/conversations/{answer['conversationId']}/messages"
        messages: list[dict[str, object]] = owner.get(path).json()["items"]
        return messages[0]

    with without(mission, "insert on message"):
        assert sent()["state"] == "failed"
    assert sent()["state"] == "done"


def test_a_connection_that_was_lost_is_said_to_be_and_the_operation_is_done_after_all(
    mission: Lab, owner: httpx.Client, said: Callable[[], str]
) -> None:
    mission.declare("lab", "blocks")
    gate = mission.gate("blocks")
    id = owner.post("/api/desktops/lab.blocks/restart").json()["id"]
    # Before its program begins, the mark of that is written down.
    assert Deadline(WAIT_SECONDS).wait_for(lambda: bool(mission.effects("lab.blocks")), 0.02)
    with mission.link.transaction():
        mission.link.execute("select 1 from operation where id = %s for update", [id])
        gate.write_text("go\n")
        query = "select pid, pg_terminate_backend(pid) from pg_stat_activity where wait_event_type = 'Lock'"

        def ended() -> bool:
            mission.link.execute("select pg_stat_clear_snapshot()")
            return bool(mission.link.execute(query).fetchall())

        # It wants to hold the operation longer, or write its end down.
        assert Deadline(WAIT_SECONDS).wait_for(ended, 0.02)
        assert Deadline(WAIT_SECONDS).wait_for(lambda: AWAY in said(), 0.02), said()
    mission.until("select 1 from operation where id = %s and attempt = 2", [id])
    gate.write_text("go\n")
    assert mission.state(id, "done", "failed")["state"] == "done"
    assert REFUSED not in said()


def test_a_refused_statement_of_the_workers_look_is_said_and_it_goes_on_when_that_is_mended(
    mission: Lab, owner: httpx.Client, said: Callable[[], str]
) -> None:
    with without(mission, "delete on challenge"):
        assert Deadline(WAIT_SECONDS).wait_for(lambda: "mistake of this program" in said(), 0.02)
    id = owner.post("/api/desktops/lab.first/restart").json()["id"]
    assert mission.state(id, "done", "failed")["state"] == "done"
    assert "no database" not in said()
