"""Who chats on a page of a gateway is heard as in Mission Control: stored once, delivered, and shown as it is answered.

Between both are a real gateway, OpenSSH and sudo with the link key, and PostgreSQL with the rights of `link`.
"""

import queue
import threading
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from deskyard.control.link import chats as module
from deskyard.control.link.chats import MOST_TEXT, Chats, answer, read
from deskyard.control.link.gateways import chats
from deskyard.control.store.cluster import LINK, WEB, WORKER
from deskyard.control.store.connection import Link, connect
from deskyard.wire.talk import MOST_MESSAGES, MOST_REQUEST, Talk
from tests.control.lab import WAIT_SECONDS, Lab
from tests.gateway.conftest import run_gateway
from tests.gateway.link_door import Door, link_door
from tests.gateway.link_ways import Ways, asker_by
from tests.gateway.support import Gateway
from tests.gateway.test_chat import WISH, Page

DESKTOP, ADA = "demo.d1", "person:Ada"


@pytest.fixture
def link(mission: Lab) -> Iterator[Link]:
    """A connection as the process `link` has it."""
    with connect(mission.url_as(LINK)) as found:
        yield found


def said(link: Link, text: str = "look", id: str = "page.1", **changes: Any) -> dict[str, Any]:
    """What becomes of a message that is said on a page."""
    wish = {"id": id, "line": 7, "actor": ADA, "message": text, "conversation": None, **changes}
    return answer(link, DESKTOP, wish)


def stored(mission: Lab) -> int:
    row = mission.link.execute("select count(*) as count from message where role = 'person'").fetchone()
    assert row is not None
    return int(row["count"])


def test_a_message_is_stored_and_delivered_like_any_other(mission: Lab, link: Link, owner: httpx.Client) -> None:
    mission.declare("demo", "d1")
    done = said(link, "Grüße,  世界")["result"]
    row = mission.until("select id from operation where kind = 'desktop.chat' and state = 'done'", [])
    messages = owner.get(f"/api/conversations/{done['conversation']}/messages").json()["items"]
    assert [(each["author"], each["text"], each["state"]) for each in messages] == [
        (ADA, "Grüße,  世界", "done"),
        ("agent:demo.d1", "I heard: Grüße,  世界", "done"),
    ]
    (found,) = owner.get("/api/conversations", params={"desktop": DESKTOP}).json()["items"]
    assert found["title"] == "Grüße, 世界"
    operation = owner.get(f"/api/operations/{row['id']}").json()
    assert (operation["actor"], operation["desktopId"], operation["workspaceId"]) == (ADA, DESKTOP, "demo")
    kept = mission.until("select input from operation where id = %s", [row["id"]])["input"]
    assert kept["page"] == {"request": "page.1", "line": 7}
    # The audit has the lines of other tests, too.
    query = "select actor, target, detail from audit_entry where detail ->> 'operation' = %s"
    line = mission.until(query, [row["id"]])
    assert (line["actor"], line["target"], line["detail"]) == (ADA, DESKTOP, {"operation": row["id"], "by": "gateway"})


def test_what_was_said_on_a_page_is_tried_again_by_somebody_else_as_said_by_who_wrote_it(
    mission: Lab, link: Link, owner: httpx.Client
) -> None:
    mission.declare("demo", "d1")
    said(link)
    row = mission.until("select id from operation where kind = 'desktop.chat' and state = 'done'", [])
    mission.link.execute("update operation set state = 'failed' where id = %s", [row["id"]])
    again = mission.state(owner.post(f"/api/operations/{row['id']}/retry").json()["id"], "done")
    assert again["actor"] != ADA
    # What its program was given to hold against the audit of the gateway.
    assert again["result"]["seen"]["said_by"] == ADA


def test_the_same_again_is_stored_once_and_another_is_refused(mission: Lab, link: Link) -> None:
    mission.declare("demo", "d1")
    answers: list[dict[str, Any]] = []

    def again() -> None:
        with connect(mission.url_as(LINK)) as own:
            answers.append(said(own))

    threads = [threading.Thread(target=again) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(answers) == 8 and all(each == answers[0] and "result" in each for each in answers), answers
    assert stored(mission) == 1
    assert said(link, "something else")["error"]["field"] == "request"
    assert stored(mission) == 1


def test_a_page_goes_on_with_its_conversation_or_begins_another(mission: Lab, link: Link) -> None:
    mission.declare("demo", "d1")
    first = said(link)["result"]["conversation"]
    assert said(link, "more", "page.2", conversation=first)["result"]["conversation"] == first
    talk = read(link, DESKTOP)
    assert (talk.conversation, len([each for each in talk.messages.values() if each["role"] == "person"])) == (first, 2)
    second = said(link, "anew", "page.3")["result"]["conversation"]
    assert second != first
    assert read(link, DESKTOP).conversation == second
    # The agent has still to answer in the first one, which does not bring it back.
    mission.until("select 1 from message where conversation_id = %s having count(*) = 4", [first])
    mission.link.execute("update conversation set last_at = now() + interval '1 minute' where id = %s", [first])
    assert read(link, DESKTOP).conversation == second
    said(link, "back", "page.4", conversation=first)
    assert read(link, DESKTOP).conversation == first


def test_what_a_desktop_of_before_said_is_shown_on_no_page(mission: Lab, link: Link, owner: httpx.Client) -> None:
    mission.declare("demo", "d1")
    first = said(link)["result"]["conversation"]
    mission.link.execute("update desktop set gone_at = now() where id = %s", [DESKTOP])
    assert read(link, DESKTOP).conversation is None
    assert said(link, id="page.2")["error"]["field"] == "desktop"
    mission.declare("demo", "d1")
    assert read(link, DESKTOP).conversation is None
    assert said(link, id="page.3", conversation=first)["error"]["field"] == "conversation"
    # Mission Control has it still.
    assert [each["id"] for each in owner.get("/api/conversations").json()["items"]] == [first]
    second = said(link, id="page.4")["result"]["conversation"]
    assert read(link, DESKTOP).conversation == second
    # The observer did not look between: the destroy says that it is another.
    mission.link.execute(
        "insert into operation (id, kind, desktop_id, actor, state, ended_at)"
        " values ('op_gone', 'desktop.destroy', %s, 'x', 'done', now())",
        [DESKTOP],
    )
    assert read(link, DESKTOP).conversation is None


def test_a_conversation_of_another_desktop_is_none_of_this_page(mission: Lab, link: Link) -> None:
    mission.declare("demo", "d1", "d2")
    other = answer(link, "demo.d2", {"id": "page.9", "line": 1, "actor": ADA, "message": "x", "conversation": None})
    assert said(link, conversation=other["result"]["conversation"])["error"]["field"] == "conversation"
    stop = {"id": "page.2", "actor": ADA, "message": None, "conversation": other["result"]["conversation"]}
    assert answer(link, DESKTOP, stop)["error"]["field"] == "turn"


def test_a_turn_is_ended_and_one_that_is_over_is_said_to_be(mission: Lab, link: Link) -> None:
    mission.declare("demo", "d1")
    conversation = said(link, "this never ends")["result"]["conversation"]
    mission.until("select 1 from message where role = 'agent' and state = 'streaming'", [])
    stop = {"id": "page.2", "actor": ADA, "message": None, "conversation": conversation}
    assert answer(link, DESKTOP, stop) == {"result": {"conversation": conversation}}
    mission.until("select 1 from operation where kind = 'desktop.chat' and state = 'cancelled'", [])
    assert answer(link, DESKTOP, stop)["error"]["field"] == "turn"
    query = "select actor, detail from audit_entry where action = 'conversation.interrupt' and target = %s"
    line = mission.until(query, [conversation])
    assert (line["actor"], line["detail"]["by"]) == (ADA, "gateway")


def test_so_many_messages_wait_for_an_agent_and_no_more(mission: Lab, link: Link) -> None:
    mission.end("worker")
    mission.declare("demo", "d1")
    found = [said(link, id=f"page.{number}") for number in range(21)]
    assert ["result" in each for each in found] == [True] * 20 + [False]
    assert found[-1]["error"]["field"] == "queue"


@pytest.mark.parametrize(
    "changes",
    [
        {"message": ""},
        {"message": "\0"},
        {"message": "ü" * (MOST_REQUEST // 2 + 1)},
        {"actor": ""},
        {"actor": "x" * 301},
        {"id": "x" * 201},
        {"line": 0},
        {"line": 1 << 64},
        {"line": "1"},
        {"message": 7},
        {"conversation": 7},
    ],
    ids=str,
)
def test_what_is_no_message_is_refused_and_nothing_is_stored(mission: Lab, link: Link, changes: dict[str, Any]) -> None:
    mission.declare("demo", "d1")
    wish = {"id": "page.1", "line": 7, "actor": ADA, "message": "x", "conversation": None, **changes}
    assert answer(link, DESKTOP, wish)["error"]["field"] == "message"
    assert stored(mission) == 0


def test_a_page_is_shown_the_last_messages_and_of_long_ones_a_part(mission: Lab, link: Link) -> None:
    mission.end("worker")
    mission.declare("demo", "d1")
    conversation = said(link)["result"]["conversation"]
    mission.link.execute(
        """insert into message (id, conversation_id, role, author, text, state, tools)
        select 'ms_' || n, %(c)s, 'agent', 'agent:demo.d1', repeat('x', %(long)s), 'done',
            '[{"id": "a", "name": "exec", "state": "running", "arguments": "ls", "output": ""}]'
        from generate_series(1, %(most)s) n""",
        {"c": conversation, "long": MOST_TEXT + 1, "most": MOST_MESSAGES},
    )
    talk = read(link, DESKTOP)
    assert list(talk.messages) == [f"ms_{number}" for number in range(1, MOST_MESSAGES + 1)]
    last = talk.messages[f"ms_{MOST_MESSAGES}"]
    assert (len(last["text"]), last["cut"]) == (MOST_TEXT, True)
    # Its turn is over: nothing more is heard of what it ran.
    assert last["tools"] == [{"name": "exec", "state": "interrupted", "arguments": "ls", "output": ""}]
    # Letters of three bytes: the oldest make room.
    mission.link.execute("update message set text = repeat('世', 8000)")
    shorter = read(link, DESKTOP)
    assert 10 < len(shorter.messages) < MOST_MESSAGES
    assert f"ms_{MOST_MESSAGES}" in shorter.messages


@pytest.mark.parametrize(
    "statement",
    [
        "select * from message",
        "select * from conversation",
        "select * from operation",
        "select conversations_at_gateway('demo.d1')",
        "insert into operation (id, kind, actor) values ('x', 'desktop.chat', 'x')",
        "insert into message (id, conversation_id, role, author, text, state) values ('', '', 'agent', '', '', 'sent')",
        "insert into audit_intake (actor, action, target) values ('person:Ada', 'desktop.chat', 'demo.d1')",
        "update operation set cancel_requested_at = now()",
    ],
)
def test_who_asks_gateways_does_nothing_else_with_chats(mission: Lab, link: Link, statement: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        link.execute(statement.encode())


@pytest.mark.parametrize("role", [WEB, WORKER])
def test_nobody_else_speaks_for_pages(mission: Lab, role: str) -> None:
    for call in (
        "talk_at_gateway('demo.d1', 1, 1)",
        "say_at_gateway('demo.d1', 'x', 'x', 1, null, 'x')",
        "interrupt_at_gateway('demo.d1', 'x', 'x')",
    ):
        with connect(mission.url_as(role)) as own, pytest.raises(psycopg.errors.InsufficientPrivilege):
            own.execute(f"select {call}".encode())


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with run_gateway(Gateway()) as running:
        yield running


@pytest.fixture(scope="module")
def door(gateway: Gateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with link_door(tmp_path_factory.mktemp("link"), gateway) as found:
        yield found


@pytest.fixture
def carried(mission: Lab, gateway: Gateway, door: Door, tmp_path: Path) -> Iterator[Chats]:
    """The chats of a gateway, carried to Mission Control and back."""
    with Ways(door) as ways, asker_by(ways, tmp_path) as asker:
        mission.declare("demo", "d1", "d2")
        mission.link.execute("update workspace set state = 'ready'")
        found = Chats(mission.url_as(LINK), chats(asker))
        thread = threading.Thread(target=found.run)
        thread.start()
        yield found
        found.stop()
        thread.join(60)
        assert not thread.is_alive()
    # The next one's line is not to be taken for this one.
    Page(gateway, actor=ADA).sees(lambda news: not news["connected"])


def test_a_person_chats_on_the_page_of_a_real_gateway(mission: Lab, gateway: Gateway, carried: Chats) -> None:
    page = Page(gateway, actor=ADA)
    page.sees(lambda news: news["connected"] and news["talk"] and news["talk"]["conversation"] is None)
    status, facts = page.says(WISH)
    assert status == 200, facts
    assert page.says(WISH) == (200, facts)
    heard = f"I heard: {WISH['message']}"
    seen = page.sees(lambda news: news["talk"] and any(each["text"] == heard for each in news["talk"]["messages"]))
    assert seen["talk"]["conversation"] == facts["conversation"]
    assert stored(mission) == 1
    # Another person, on another page of the same desktop, sees the same; of the desktop beside it nothing.
    page_of_another = Page(gateway, actor="person:Bob")
    found = page_of_another.sees(lambda news: news["talk"] and news["talk"]["messages"])
    assert [each["author"] for each in found["talk"]["messages"]] == [ADA, "agent:demo.d1"]
    beside = Page(gateway, "d2").sees(lambda news: news["talk"])
    assert beside["talk"]["messages"] == []


def test_a_turn_is_stopped_on_the_page(mission: Lab, gateway: Gateway, carried: Chats) -> None:
    page = Page(gateway, actor=ADA)
    page.sees(lambda news: news["connected"])
    _, facts = page.says({**WISH, "id": "never-ends", "message": "this never ends"})
    page.sees(lambda news: news["talk"] and any(each["state"] == "streaming" for each in news["talk"]["messages"]))
    stop = {"id": "stop-1234", "stop": facts["conversation"]}
    assert page.says(stop) == (200, {"conversation": facts["conversation"]})
    page.sees(lambda news: {each["state"] for each in news["talk"]["messages"]} == {"interrupted"})
    assert page.says({**stop, "id": "stop-5678"})[1]["error"] == "turn"


def test_chats_go_on_when_the_session_service_was_started_anew(mission: Lab, gateway: Gateway, carried: Chats) -> None:
    page = Page(gateway, actor=ADA)
    page.sees(lambda news: news["connected"])
    service = next(each for each in gateway.processes if each.args[-1] == "serve" and each.poll() is None)  # type: ignore[index]
    service.kill()
    service.wait(60)
    gateway.start_service()
    page.chat = page.follow()
    page.sees(lambda news: news["connected"])
    assert page.says({**WISH, "id": "after-a-restart"})[0] == 200


class StillLine:
    """A line to a gateway on whose pages somebody looks at these desktops, and says nothing."""

    def __init__(self, *desktops: str) -> None:
        self.sent: queue.Queue[dict[str, Any]] = queue.Queue()
        self.ended = threading.Event()
        self._desktops = list(desktops)

    def __iter__(self) -> Iterator[Any]:
        yield {"open": self._desktops}
        self.ended.wait(WAIT_SECONDS)

    def send(self, document: Mapping[str, Any]) -> None:
        self.sent.put(dict(document))

    def shows(self, desktop: str, *texts: str) -> None:
        """Wait until a desktop is sent these messages among others; none: until it is sent that there is none."""
        while True:
            found = self.sent.get(timeout=WAIT_SECONDS)
            talk = found["talk"]
            sent = {each["text"] for each in talk["messages"]}
            if found["desktop"] == desktop and (set(texts) <= sent if texts else not talk["order"]):
                return


def test_of_many_open_pages_that_is_read_whose_conversation_changed(
    mission: Lab, owner: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    mission.declare("demo", "d1", "d2")
    mission.link.execute("update workspace set state = 'ready'")
    line, reads = StillLine("d1", "d2"), list[str]()

    def noted(link: Link, desktop: str) -> Talk:
        reads.append(desktop)
        return read(link, desktop)

    monkeypatch.setattr(module, "read", noted)
    found = Chats(mission.url_as(LINK), lambda _: nullcontext(line))
    thread = threading.Thread(target=found.run)
    thread.start()
    try:
        for desktop in ("d1", "d2"):
            line.shows(desktop)
        first = set(reads)
        reads.clear()
        # What happens elsewhere has none of them read.
        mission.declare("demo", "d3")
        with connect(mission.url_as(LINK)) as link:
            said(link)
        line.shows("d1", "look")
        assert (first, set(reads)) == ({"demo.d1", "demo.d2"}, {"demo.d1"})
        # What is deleted is shown on no page.
        mission.link.execute("delete from conversation")
        line.shows("d1")
    finally:
        found.stop()
        line.ended.set()
        thread.join(WAIT_SECONDS)
    assert not thread.is_alive()
