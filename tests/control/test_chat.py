"""Conversations: stored before anything is sent, told while the agent speaks, found again."""

import contextlib
import json
import os
import signal
import tracemalloc
from pathlib import Path
from typing import Any

import httpx
import pytest

from deskyard.control.store.cluster import OWNER
from deskyard.control.web.application import CONNECTIONS, create
from deskyard.control.web.pages import Pages
from tests.control.lab import ORIGIN, Lab
from tests.control.test_every_call import served


def test_an_answer_is_kept_beside_what_was_asked(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first")
    sent = owner.post("/api/desktops/lab.first/chat", json={"message": "Grüße, 世界"}).json()
    mission.state(sent["operationId"], "done")
    messages = owner.get(f"/api/conversations/{sent['conversationId']}/messages").json()["items"]
    assert [(message["role"], message["state"], message["text"]) for message in messages] == [
        ("person", "done", "Grüße, 世界"),
        ("agent", "done", "I heard: Grüße, 世界"),
    ]


def scripted(text: str, *says: dict[str, Any]) -> str:
    """A message at which the double of the agent says these, too."""
    return f"{text}\n{json.dumps(says)}"


def answer(owner: httpx.Client, sent: dict[str, Any]) -> dict[str, Any]:
    """What the agent answered last."""
    messages = owner.get(f"/api/conversations/{sent['conversationId']}/messages").json()["items"]
    return next(message for message in reversed(messages) if message["role"] == "agent")


def test_tools_and_claimed_tokens_are_kept_with_the_answer(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first")
    begun = {"tool": {"id": "a", "name": "exec", "state": "started", "summary": '{"command": "ls"}'}}
    ended = {"tool": {"id": "a", "name": "exec", "state": "failed", "output": "no such file"}}
    used = {"usage": {"input": 1200, "output": 34, "cached": 900}}
    message = scripted("look", begun, ended, used)
    sent = owner.post("/api/desktops/lab.first/chat", json={"message": message}).json()
    mission.state(sent["operationId"], "done")
    found = answer(owner, sent)
    (tool,) = found["tools"]
    assert tool["startedAt"] <= tool["endedAt"]
    assert tool == {
        **{"id": "a", "name": "exec", "state": "failed", "arguments": '{"command": "ls"}', "argumentsCut": False},
        **{"output": "no such file", "outputCut": False},
        **{"startedAt": tool["startedAt"], "endedAt": tool["endedAt"]},
    }
    assert (found["text"], found["moreTools"]) == ("I heard: look", 0)
    assert found["claimed"] == {"input": 1200, "output": 34, "cached": 900}


def test_a_tool_is_seen_while_it_runs_and_is_interrupted_with_its_turn(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first")
    said: list[dict[str, Any]] = [{"part": "I look. "}, {"tool": {"id": "a", "name": "exec", "state": "started"}}]
    sent = owner.post("/api/desktops/lab.first/chat", json={"message": scripted("this never ends", *said)}).json()
    # It comes just after a text was written, and nothing follows it that would bring it along.
    mission.until(
        "select 1 from message where operation_id = %s and tools -> 0 ->> 'state' = 'running'", [sent["operationId"]]
    )
    assert [tool["state"] for tool in answer(owner, sent)["tools"]] == ["running"]
    owner.post(f"/api/conversations/{sent['conversationId']}/interrupt")
    mission.state(sent["operationId"], "cancelled")
    assert [(tool["state"], tool["endedAt"]) for tool in answer(owner, sent)["tools"]] == [("interrupted", None)]


def test_what_cannot_be_stored_of_an_agent_is_replaced(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first")
    bad = "a\x00b\ud800c"
    tool = {"id": bad, "name": bad, "state": "done", "summary": bad, "output": bad}
    # As JSON has it: what was asked for holds only the escapes.
    message = scripted("look", {"part": bad}, {"tool": tool})
    sent = owner.post("/api/desktops/lab.first/chat", json={"message": message}).json()
    mission.state(sent["operationId"], "done")
    found = answer(owner, sent)
    assert found["text"] == "a\ufffdb\ufffdcI heard: look"
    assert {found["tools"][0][name] for name in ("id", "name", "arguments", "output")} == {"a\ufffdb\ufffdc"}


def test_a_message_that_is_delivered_again_has_its_claim_once(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first")
    message = scripted("this never ends", {"usage": {"input": 5, "output": 6, "cached": 7}})
    sent = owner.post("/api/desktops/lab.first/chat", json={"message": message}).json()
    mission.until("select 1 from message where claimed_input = 5 and operation_id = %s", [sent["operationId"]])
    owner.post(f"/api/conversations/{sent['conversationId']}/interrupt")
    mission.state(sent["operationId"], "cancelled")
    again = owner.post(f"/api/operations/{sent['operationId']}/retry").json()["id"]
    mission.until("select 1 from message where claimed_input = 5 and operation_id = %s", [again])
    assert mission.link.execute("select count(claimed_input) as count from message").fetchone() == {"count": 1}
    owner.post(f"/api/conversations/{sent['conversationId']}/interrupt")
    mission.state(again, "cancelled")


def test_a_conversation_goes_on_turn_by_turn(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first")
    first = owner.post("/api/desktops/lab.first/chat", json={"message": "one"}).json()
    body = {"message": "two", "conversationId": first["conversationId"]}
    second = owner.post("/api/desktops/lab.first/chat", json=body).json()
    mission.state(second["operationId"], "done")
    messages = owner.get(f"/api/conversations/{first['conversationId']}/messages").json()["items"]
    assert {message["text"] for message in messages} == {"one", "two", "I heard: one", "I heard: two"}
    assert owner.post("/api/desktops/lab.second/chat", json=body).status_code == 404
    mission.declare("lab", "second")
    assert owner.post("/api/desktops/lab.second/chat", json=body).status_code == 409


def test_a_turn_is_interrupted_and_keeps_what_was_said(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first")
    sent = owner.post("/api/desktops/lab.first/chat", json={"message": "this never ends"}).json()
    mission.until("select 1 from message where role = 'agent' and operation_id = %s", [sent["operationId"]])
    assert owner.post(f"/api/conversations/{sent['conversationId']}/interrupt").status_code == 202
    mission.state(sent["operationId"], "cancelled")
    messages = owner.get(f"/api/conversations/{sent['conversationId']}/messages").json()["items"]
    assert [(message["role"], message["state"]) for message in messages] == [
        ("person", "interrupted"),
        ("agent", "interrupted"),
    ]
    assert messages[1]["text"].startswith("I heard")


def test_a_turn_whose_program_is_killed_is_taken_up_again_and_answered_once(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "blocks")
    mission.gate("blocks")
    sent = owner.post("/api/desktops/lab.blocks/chat", json={"message": "hello"}).json()
    query = "select 1 from operation_log where operation_id = %s and attempt = %s"
    mission.until(query, [sent["operationId"], 1])
    os.kill(mission.pids("lab.blocks")[-1], signal.SIGKILL)
    mission.until(query, [sent["operationId"], 2])
    mission.open("blocks")
    mission.state(sent["operationId"], "done")
    messages = owner.get(f"/api/conversations/{sent['conversationId']}/messages").json()["items"]
    assert [(message["state"], message["text"]) for message in messages] == [
        ("done", "hello"),
        ("done", "I heard: hello"),
    ]


def test_a_message_is_delivered_while_the_machine_is_being_moved(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "blocks", "first")
    mission.gate("blocks")
    moving = owner.post("/api/desktops/lab.blocks/restart").json()["id"]
    mission.until("select 1 from operation_log where operation_id = %s", [moving])
    sent = owner.post("/api/desktops/lab.first/chat", json={"message": "hello"}).json()
    mission.state(sent["operationId"], "done")
    mission.open("blocks")
    mission.state(moving, "done")


def test_the_same_message_sent_again_is_one_message(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first")
    headers = {"Idempotency-Key": "hello-once"}
    first = owner.post("/api/desktops/lab.first/chat", json={"message": "hello"}, headers=headers).json()
    again = owner.post("/api/desktops/lab.first/chat", json={"message": "hello"}, headers=headers).json()
    assert first == again
    mission.state(first["operationId"], "done")
    assert mission.link.execute("select count(*) as count from message where role = 'person'").fetchone() == {
        "count": 1
    }


def test_a_first_task_waits_until_its_desktop_is_made(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "other")
    mission.gate("blocks")
    body = {"name": "blocks", "workspaceId": "lab", "firstTask": "say hello"}
    created = owner.post("/api/desktops", json=body).json()
    mission.until("select 1 from operation_log where operation_id = %s", [created["id"]])
    chat = owner.get("/api/operations?state=queued").json()["items"]
    assert [(found["kind"], created["id"] in found["why"]) for found in chat] == [("desktop.chat", True)]
    mission.open("blocks")
    mission.state(created["id"], "done")
    # The double waits for its gate with every operation of this desktop.
    mission.until("select 1 from operation_log where operation_id = %s", [chat[0]["id"]])
    mission.open("blocks")
    mission.state(chat[0]["id"], "done")


def test_a_first_task_of_a_desktop_that_could_not_be_made_is_cancelled(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "other")
    body = {"name": "fails", "workspaceId": "lab", "firstTask": "say hello"}
    created = owner.post("/api/desktops", json=body).json()
    mission.state(created["id"], "failed")
    mission.until("select 1 from operation where kind = 'desktop.chat' and state = 'cancelled'", [])
    mission.until("select 1 from message where state = 'failed'", [])


def test_conversations_are_found_by_their_words_also_of_desktops_that_are_gone(
    mission: Lab, owner: httpx.Client
) -> None:
    mission.declare("lab", "first")
    for text in ("book a flight to Lisbon", "write a report"):
        sent = owner.post("/api/desktops/lab.first/chat", json={"message": text}).json()
        mission.state(sent["operationId"], "done")
    mission.link.execute("update desktop set gone_at = now()")
    found = owner.get("/api/conversations", params={"q": "lisbon flight"}).json()["items"]
    assert [(conversation["title"], conversation["messages"]) for conversation in found] == [
        ("book a flight to Lisbon", 2)
    ]


def test_a_conversation_is_exported_whole_also_of_a_desktop_that_is_gone(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first")
    mission.declare("elsewhere", "first")
    evil = "```\n## person:Ada, done\n![](https://evil.test)"
    tool = {"id": "a", "name": "# exec", "state": "done", "summary": "ls", "output": f"{evil}{'x' * 4000}"}
    says = ({"tool": tool}, {"usage": {"input": 5, "output": 6, "cached": 7}}, {"part": f"{evil}\x1b[2J\u202e\r\n"})
    sent = owner.post("/api/desktops/lab.first/chat", json={"message": scripted("# <b>no\x1b</b>", *says)}).json()
    mission.state(sent["operationId"], "done")
    mission.link.execute("update desktop set gone_at = now()")
    id = sent["conversationId"]
    path = f"/api/conversations/{id}"
    exported = owner.get(f"{path}/export")
    assert exported.headers["content-disposition"] == f'attachment; filename="{id}.json"'
    assert exported.json()["messages"] == owner.get(f"{path}/messages").json()["items"]
    assert (exported.json()["conversation"]["desktopId"], len(exported.json()["messages"])) == ("lab.first", 2)

    read = owner.get(f"{path}/export", params={"format": "markdown"})
    assert read.headers["content-type"].startswith("text/markdown")
    assert read.headers["content-disposition"] == f'attachment; filename="{id}.md"'
    assert read.text.startswith("# \\# \\<b\\>no\ufffd\\<\\/b\\> ")
    for said in ("Tool \\# exec, done\n\n```text\nls\n```\n", "Cut: it was longer.", "claims: 5 in, 6 out, 7 cached"):
        assert said in read.text
    # What was said stands in blocks that it cannot end: it passes for no other message, loads nothing, steers nothing.
    assert f"````text\n{evil}xxx" in read.text
    assert f"````text\n{evil}\ufffd[2J\ufffd\nI heard: # <b>no\ufffd</b>\n````\n" in read.text
    outside = "".join(read.text.split("````")[::2])
    assert (outside.count("\n## "), "![" in outside) == (2, False)

    assert owner.get(f"{path}/export?format=pdf").status_code == 422
    with mission.client(mission.key("read", workspaces=["elsewhere"])) as stranger:
        assert stranger.get(f"{path}/export").status_code == 404
    with mission.client(mission.key("chat")) as writer:
        assert writer.get(f"{path}/export").status_code == 403


def test_a_long_export_waits_for_its_reader_alone_and_does_not_pass_for_whole_when_it_is_not(
    mission: Lab, owner: httpx.Client
) -> None:
    mission.declare("lab", "first")
    mission.link.execute("insert into conversation (id, desktop_id, title) values ('cv_long', 'lab.first', 'long')")
    mission.link.execute(
        "insert into message (id, conversation_id, role, author, text, state)"
        " select 'ms_' || n, 'cv_long', 'person', 'x', n || repeat(' word', 12000), 'done'"
        " from generate_series(1, 25) n"
    )
    path = "/api/conversations/cv_long/export"
    exported = owner.get(path).json()
    assert [message["id"] for message in exported["messages"]] == [f"ms_{number}" for number in range(1, 26)]
    assert exported["messages"] == owner.get("/api/conversations/cv_long/messages").json()["items"]
    assert owner.get(path, params={"format": "markdown"}).text.count("\n## x, ") == 25
    with contextlib.ExitStack() as readers:
        # More of them than the process has connections to the database, and none reads on.
        slow = [readers.enter_context(owner.stream("GET", path)) for _ in range(CONNECTIONS + 1)]
        assert owner.get("/api/conversations/cv_long/messages", params={"limit": 1}).status_code == 200
        mission.link.execute("delete from message")
        with pytest.raises(httpx.RemoteProtocolError):
            slow[0].read()


def test_all_conversations_of_a_workspace_are_exported_as_each_alone_is(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first", "second")
    mission.declare("elsewhere", "first")
    path = "/api/workspaces/lab/conversations/export"
    assert owner.get(path).json() == {"workspaceId": "lab", "conversations": []}
    ids = []
    for desktop in ("lab.first", "elsewhere.first", "lab.second"):
        sent = owner.post(f"/api/desktops/{desktop}/chat", json={"message": f"# to {desktop}"}).json()
        mission.state(sent["operationId"], "done")
        ids.append(sent["conversationId"])
    # What is gone is exported, too.
    mission.link.execute("update desktop set gone_at = now()")
    mission.link.execute("update workspace set gone_at = now()")
    exported = owner.get(path)
    assert exported.headers["content-disposition"] == 'attachment; filename="conversations-lab.json"'
    alone = [owner.get(f"/api/conversations/{id}/export").json() for id in (ids[0], ids[2])]
    assert exported.json() == {"workspaceId": "lab", "conversations": alone}
    assert [len(each["messages"]) for each in alone] == [2, 2]
    read = owner.get(path, params={"format": "markdown"})
    assert read.headers["content-type"].startswith("text/markdown")
    alone = [owner.get(f"/api/conversations/{id}/export?format=markdown").text for id in (ids[0], ids[2])]
    assert read.text == "Conversations of workspace lab\n\n" + "\n".join(alone)
    with mission.client(mission.key("read", workspaces=["elsewhere"])) as stranger:
        assert stranger.get(path).status_code == 404
        assert len(stranger.get(path.replace("lab", "elsewhere")).json()["conversations"]) == 1
    assert owner.get(path.replace("lab", "nowhere")).status_code == 404
    with mission.client(mission.key("chat")) as writer:
        assert writer.get(path).status_code == 403


def test_an_export_of_a_large_workspace_holds_little_at_once_and_is_cut_when_it_is_not_whole(
    mission: Lab, owner: httpx.Client, tmp_path: Path
) -> None:
    mission.declare("lab", "first")
    mission.link.execute(
        "insert into conversation (id, desktop_id, title, created_at)"
        " select 'cv_' || n, 'lab.first', 'long', now() - make_interval(secs => 100 - n) from generate_series(1, 12) n"
    )
    for number in range(1, 13):
        # One by one: all of their words are looked through, and a statement has 30 seconds.
        mission.link.execute(
            "insert into message (id, conversation_id, role, author, text, state)"
            " select %(of)s || '_' || n, 'cv_' || %(number)s, 'person', 'x', repeat(' word', 60000), 'done'"
            " from generate_series(1, 20) n",
            {"of": f"ms_{number}", "number": str(number)},
        )
    path, length = "/api/workspaces/lab/conversations/export", 0
    app = create(mission.url(OWNER), ORIGIN, Pages())
    with served(app, tmp_path / "socket") as place, mission.client(path=place) as client:
        client.headers["Authorization"] = owner.headers["Authorization"]
        tracemalloc.start()
        try:
            with client.stream("GET", path) as answer:
                for piece in answer.iter_bytes():
                    length += len(piece)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert length > 70_000_000 and most < 20_000_000
    with owner.stream("GET", path) as slow:
        pieces = slow.iter_bytes()
        # The first of its conversations is under way.
        begun = next(pieces)
        while b'"ms_1_1"' not in begun:
            begun += next(pieces)
        mission.link.execute("delete from message where conversation_id = 'cv_1'")
        with pytest.raises(httpx.RemoteProtocolError):
            list(pieces)


def test_a_link_is_shown_once_and_to_its_asker_alone(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first")
    operation = owner.post("/api/desktops/lab.first/session", json={"mode": "view"}).json()["id"]
    mission.state(operation, "done")
    with mission.client(mission.key("read", "admin")) as other:
        assert "ticket" not in other.get(f"/api/operations/{operation}").text
    assert owner.get(f"/api/operations/{operation}").json()["result"]["link"].endswith("#ticket")
    assert "ticket" not in owner.get(f"/api/operations/{operation}").text
