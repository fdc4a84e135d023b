"""Processes of a desktop by the service: run, followed, fed, ended."""

import asyncio
import base64
import contextlib
import errno
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from deskyard.computer.problem import Problem
from deskyard.computer.work import process as process_module
from deskyard.computer.work.part import Work
from deskyard.computer.work.process import Order, Process
from tests.unit.computer.serving import gone, served


def run(client: httpx.Client, command: Any, **more: Any) -> dict[str, Any]:
    answer = client.post("/v1/processes/run", json={"command": command, **more})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def start(client: httpx.Client, command: Any, **more: Any) -> dict[str, Any]:
    answer = client.post("/v1/processes", json={"command": command, **more})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def followed(client: httpx.Client, number: str, **query: Any) -> tuple[bytes, list[dict[str, Any]]]:
    """All that a process says up to its end, and the events that said it."""
    events: list[dict[str, Any]] = []
    with client.stream("GET", f"/v1/processes/{number}/output", params=query) as stream:
        kind = ""
        for line in stream.iter_lines():
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            if line.startswith("data: "):
                events.append({"event": kind, **json.loads(line.removeprefix("data: "))})
    return b"".join(base64.b64decode(event.get("data", "")) for event in events), events


def attached(client: httpx.Client, number: str, offset: int = 0) -> ClientConnection:
    url = str(client.base_url).replace("http", "ws", 1).rstrip("/")
    return connect(f"{url}/v1/processes/{number}/attach?offset={offset}")


def sends(socket: ClientConnection, **message: Any) -> None:
    socket.send(json.dumps(message))


def said(socket: ClientConnection, until: bytes) -> bytes:
    """What a process says on a socket, until these bytes are among it."""
    heard = b""
    while until not in heard:
        message = json.loads(socket.recv(20))
        heard += base64.b64decode(message.get("data", ""))
        assert message["type"] != "end", heard
    return heard


def typed(text: str) -> dict[str, str]:
    return {"type": "input", "data": base64.b64encode(text.encode()).decode()}


def test_a_command_is_answered_with_its_output_and_exit_code(client: httpx.Client, home: Path) -> None:
    result = run(client, "pwd; echo trouble >&2; exit 3")
    assert (result["exit_code"], result["signal"], result["timed_out"]) == (3, None, False)
    assert (result["stdout"], result["stderr"]) == (f"{home}\n", "trouble\n")


def test_a_command_as_a_list_is_started_without_a_shell(client: httpx.Client) -> None:
    assert run(client, ["echo", "$HOME", "a b"])["stdout"] == "$HOME a b\n"


def test_environment_input_and_directory_are_the_caller_s(client: httpx.Client) -> None:
    result = run(client, "cat; echo $COLOUR; pwd", environment={"COLOUR": "blue"}, stdin="in\n", cwd="/tmp")
    assert result["stdout"] == "in\nblue\n/tmp\n"
    assert run(client, "echo $COLOUR")["stdout"] == "\n"


def test_bytes_that_are_no_text_come_whole_in_base64(client: httpx.Client) -> None:
    result = run(client, r"printf '\xff\x00\xe2'", encoding="base64")
    assert base64.b64decode(result["stdout"]) == b"\xff\x00\xe2"


def test_a_command_that_takes_too_long_is_killed_with_its_children(client: httpx.Client) -> None:
    result = run(client, "sleep 600 & echo $!; wait", timeout=1)
    assert (result["timed_out"], result["signal"]) == (True, "SIGKILL")
    assert gone(int(result["stdout"]))


def test_a_child_in_the_background_neither_holds_the_answer_up_nor_dies_of_it(client: httpx.Client) -> None:
    result = run(client, "(while :; do echo noise; read -t 0.05 < <(:); done) & echo $!", timeout=20)
    # Its noise may come before.
    pid = next(int(word) for word in result["stdout"].split() if word.isdigit())
    assert result["timed_out"] is False
    os.kill(pid, 0)
    os.kill(pid, signal.SIGKILL)


def test_a_signal_without_a_name_ends_a_command_as_any_other(client: httpx.Client) -> None:
    assert (run(client, "kill -35 $$")["signal"], run(client, "true")["exit_code"]) == ("SIG35", 0)


def test_a_child_that_never_stops_talking_does_not_hold_the_answer_up(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "CHUNK", 1)  # it says more than is read, on any machine
    with served([Work(home)]) as url, httpx.Client(verify=False, base_url=url, timeout=20) as client:
        try:
            assert run(client, "yes & echo $! >talking; kill -KILL $$")["timed_out"] is False
            assert client.get("/v1/processes").json() == {"processes": []}
        finally:
            os.kill(int((home / "talking").read_text()), signal.SIGKILL)


def test_the_oldest_of_too_much_output_is_dropped_and_counted(client: httpx.Client) -> None:
    result = run(client, "head -c 3000000 /dev/zero | tr '\\0' x; echo end")
    assert result["stdout"].endswith("xend\n")
    assert result["lost_bytes"] + len(result["stdout"]) == 3_000_004


def test_an_attached_reader_misses_nothing_of_much_output(client: httpx.Client) -> None:
    process = start(client, "read; head -c 8000000 /dev/zero; echo end", stdin=True)
    with client.stream("GET", f"/v1/processes/{process['id']}/output") as stream:
        client.post(f"/v1/processes/{process['id']}/stdin", content=b"go\n")
        lines = [line for line in stream.iter_lines() if line.startswith("data: ")]
    data = b"".join(base64.b64decode(json.loads(line.removeprefix("data: ")).get("data", "")) for line in lines)
    assert (len(data), data[-4:]) == (8_000_004, b"end\n")


def test_output_is_replayed_from_any_position_also_after_the_end(client: httpx.Client) -> None:
    process = start(client, "printf first; printf second >&2")
    whole, events = followed(client, process["id"])
    assert sorted([whole[:5], whole[-5:]]) and len(whole) == 11
    assert events[-1] == {"event": "end", "exit_code": 0, "signal": None, "offset": 11}
    assert followed(client, process["id"], offset=5)[0] == whole[5:]
    assert followed(client, process["id"], offset=99)[0] == b""


def test_input_reaches_a_process_until_it_is_closed(client: httpx.Client) -> None:
    process = start(client, ["cat"], stdin=True)
    client.post(f"/v1/processes/{process['id']}/stdin", content=b"a" * 200_000)
    client.post(f"/v1/processes/{process['id']}/stdin", params={"close": "true"}, content=b"b")
    whole, events = followed(client, process["id"])
    assert whole == b"a" * 200_000 + b"b"
    assert events[-1]["exit_code"] == 0


def test_a_command_may_take_its_input_late(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "INPUT_SECONDS", 0.1)
    assert run(client, ["bash", "-c", "sleep 1; wc -c"], stdin="x" * 200_000)["stdout"].strip() == "200000"


def test_a_command_need_not_read_what_it_is_given(client: httpx.Client) -> None:
    assert run(client, "exit 4", stdin="x" * 200_000)["exit_code"] == 4


def test_input_that_is_taken_slowly_is_waited_for_as_long_as_some_is_taken(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    taking = f"for _ in 1 2 3 4; do read -r _ <{gate}; head -c 65536 >/dev/null; echo taken; done"

    async def scenario() -> list[bytes]:
        loop, ahead = asyncio.get_running_loop(), 0.0
        clock = loop.time
        monkey.setattr(loop, "time", lambda: clock() + ahead)
        process = Process("1", Order(("bash", "-c", taking), tmp_path, stdin=True))
        reader, heard = process.output.read_from(0), []
        writing = asyncio.create_task(process.write(b"x" * 4 * 65536))
        for _ in range(4):
            await asyncio.to_thread(gate.write_text, "\n")
            piece = await asyncio.wait_for(reader.next(), 60)
            heard.append(piece.data if piece else b"")
            ahead += 20
        await writing
        await process.over.wait()
        return heard

    with pytest.MonkeyPatch.context() as monkey:
        assert asyncio.run(scenario()) == [b"taken\n"] * 4


def test_who_waits_to_give_input_hears_of_the_end_of_the_process(tmp_path: Path) -> None:
    async def scenario() -> None:
        # What it leaves behind holds its input open.
        command = "sleep 600 <&0 & echo begun; wait"
        process = Process("1", Order(("bash", "-c", command), tmp_path, stdin=True))
        try:
            assert await process.output.read_from(0).next()
            writing = asyncio.create_task(process.write(b"x" * 200_000))
            os.kill(process.pid, signal.SIGKILL)
            with pytest.raises(Problem, match="has ended"):
                await asyncio.wait_for(writing, 20)
        finally:
            os.killpg(process.pid, signal.SIGKILL)

    asyncio.run(scenario())


def test_a_signal_reaches_a_process(client: httpx.Client) -> None:
    process = start(client, ["sleep", "600"])
    assert client.post(f"/v1/processes/{process['id']}/signal", json={"signal": "TERM"}).status_code == 204
    assert followed(client, process["id"])[1][-1]["signal"] == "SIGTERM"
    late = client.post(f"/v1/processes/{process['id']}/signal", json={"signal": "TERM"})
    assert (late.status_code, late.json()["reason"]) == (404, "has ended")


def test_a_process_that_is_removed_is_gone_with_its_group(client: httpx.Client) -> None:
    process = start(client, "sleep 600 & echo $!; wait")
    with attached(client, process["id"]) as socket:
        child = int(said(socket, b"\n"))
    assert client.delete(f"/v1/processes/{process['id']}").json()["signal"] == "SIGKILL"
    assert gone(process["pid"])
    assert gone(child)
    assert client.get(f"/v1/processes/{process['id']}").status_code == 404


def test_what_has_ended_is_reaped_at_once(client: httpx.Client) -> None:
    process = start(client, ["true"])
    followed(client, process["id"])
    assert not Path(f"/proc/{process['pid']}").exists()


def test_a_terminal_that_has_just_begun_and_made_no_group_yet_is_killed(
    client: httpx.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "setsid"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    process = start(client, ["/bin/bash", "--norc"], terminal={"columns": 100, "rows": 30})
    assert os.getpgid(process["pid"]) != process["pid"]
    answer = client.post(f"/v1/processes/{process['id']}/signal", json={"signal": "SIGKILL"})
    assert answer.status_code == 204, answer.text
    _, events = followed(client, process["id"])
    assert events[-1]["signal"] == "SIGKILL"


def test_a_terminal_is_attached_to_left_and_attached_to_again(client: httpx.Client) -> None:
    process = start(client, ["/bin/bash", "--norc"], terminal={"columns": 100, "rows": 30})
    with attached(client, process["id"]) as socket:
        sends(socket, **typed("stty size; echo mark$((1+1))\n"))
        assert b"30 100" in said(socket, b"mark2")
        sends(socket, type="resize", columns=120, rows=40)
        sends(socket, **typed("stty size; echo mark$((2+2))\n"))
        assert b"40 120" in said(socket, b"mark4")
    with attached(client, process["id"]) as socket:
        assert b"30 100" in said(socket, b"mark4"), "what was said before is replayed"
        sends(socket, **typed("exit 7\n"))
        while (message := json.loads(socket.recv(20)))["type"] != "end":
            pass
    assert message["exit_code"] == 7


def test_a_wrong_message_on_an_attached_socket_is_answered_and_the_rest_goes_on(client: httpx.Client) -> None:
    process = start(client, ["cat"], stdin=True)
    with attached(client, process["id"]) as socket:
        assert json.loads(socket.recv(20))["type"] == "process"
        for wrong, field in (
            ({"type": "dance"}, "type"),
            ({"type": "input", "data": "%"}, "data"),
            ({"type": "signal", "signal": "NOPE"}, "signal"),
            ({"type": "resize", "columns": 3, "rows": 3}, "terminal"),
            ({"type": "close", "more": 1}, "more"),
        ):
            sends(socket, **wrong)
            assert json.loads(socket.recv(20))["error"] == field
        sends(socket, **typed("still here"))
        assert said(socket, b"here") == b"still here"
        sends(socket, type="close")
        assert json.loads(socket.recv(20))["exit_code"] == 0


def test_the_end_of_the_service_ends_what_it_started(home: Path) -> None:
    with served([Work(home)]) as url, httpx.Client(verify=False, base_url=url) as client:
        process = start(client, "trap '' TERM HUP; sleep 600 & echo $!; wait; sleep 600")
        with attached(client, process["id"]) as socket:
            child = int(said(socket, b"\n"))
    assert gone(process["pid"], 0.1)
    assert gone(child, 1)


@pytest.fixture
def rooted(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[int]]:
    """Processes that take no signals of the service's account, as what sudo started; in the end they are killed."""
    rooted: set[int] = set()
    send = os.killpg

    def sends(pid: int, number: int) -> None:
        if pid in rooted or not rooted:
            # The first that is to be ended is root's.
            rooted.add(pid)
            raise PermissionError(errno.EPERM, "Operation not permitted")
        send(pid, number)

    monkeypatch.setattr(os, "killpg", sends)
    yield rooted
    for pid in rooted:
        with contextlib.suppress(ProcessLookupError):
            send(pid, signal.SIGKILL)


def test_what_takes_no_signals_is_refused_with_the_remedy_and_stays_listed(home: Path, rooted: set[int]) -> None:
    with served([Work(home)]) as url, httpx.Client(verify=False, base_url=url) as client:
        process = start(client, ["sleep", "600"])
        for answer in (
            client.post(f"/v1/processes/{process['id']}/signal", json={"signal": "TERM"}),
            client.delete(f"/v1/processes/{process['id']}"),
        ):
            assert (answer.status_code, answer.json()["error"]) == (403, "process")
            assert f"sudo kill -- -{process['pid']}" in answer.json()["remedy"]
        assert client.get(f"/v1/processes/{process['id']}").json()["running"] is True
        # The service ends with what it cannot end, and ends what it can.
        other = start(client, ["sleep", "600"])
    assert gone(other["pid"], 1)
    assert rooted == {process["pid"]}


def test_a_command_that_takes_too_long_and_no_signals_is_answered_and_stays_listed(
    home: Path, rooted: set[int]
) -> None:
    with served([Work(home)]) as url, httpx.Client(verify=False, base_url=url) as client:
        result = run(client, ["sleep", "600"], timeout=1)
        assert (result["timed_out"], result["exit_code"], result["signal"]) == (True, -1, None)
        (left,) = client.get("/v1/processes").json()["processes"]
        assert (left["pid"], left["running"]) == (result["pid"], True)


@pytest.mark.parametrize(
    ("asked", "field", "reason"),
    [
        ({}, "command", "must be text"),
        ({"command": []}, "command", "must be text"),
        ({"command": ["\0"]}, "command", "NUL"),
        ({"command": ["no-such-program"]}, "command", "is not a program"),
        ({"command": "true", "cwd": "/no/such"}, "cwd", "does not exist"),
        ({"command": "true", "cwd": "/etc/passwd"}, "cwd", "is not a directory"),
        ({"command": "true", "environment": {"A=B": "c"}}, "environment.A=B", "is not a name"),
        ({"command": "true", "timeout": 0}, "timeout", "is outside 0.001 to 3600"),
        ({"command": "true", "timeout": "soon"}, "timeout", "is no number"),
        ({"command": "true", "encoding": "utf-7"}, "encoding", "must be text or base64"),
        ({"command": "true", "colour": 1}, "colour", "is not known here"),
    ],
)
def test_a_wrong_request_is_refused_by_field(
    client: httpx.Client, asked: dict[str, Any], field: str, reason: str
) -> None:
    answer = client.post("/v1/processes/run", json=asked)
    assert answer.status_code == 400
    assert answer.json()["error"] == field
    assert reason in answer.json()["reason"]
    assert answer.json()["remedy"]


def test_processes_need_the_scope_shell(client: httpx.Client) -> None:
    headers = {"x-deskyard-session": "s1", "x-deskyard-scopes": "files,see"}
    for method, path in (("GET", "/v1/processes"), ("POST", "/v1/processes/run"), ("DELETE", "/v1/processes/1")):
        answer = client.request(method, path, headers=headers)
        assert (answer.status_code, answer.json()["error"]) == (403, "scope")
    with pytest.raises(InvalidStatus) as refused:
        connect(f"ws{str(client.base_url)[4:].rstrip('/')}/v1/processes/1/attach", additional_headers=headers)
    assert refused.value.response.status_code == 403


def test_what_a_process_says_is_marked_as_content(client: httpx.Client) -> None:
    assert run(client, ["echo", "hello"])["untrusted"] == ["stdout", "stderr"]
    begun = start(client, ["echo", "hello"])
    with client.stream("GET", f"/v1/processes/{begun['id']}/output") as stream:
        data = [json.loads(line[6:]) for line in stream.iter_lines() if line.startswith("data: ")]
    (piece,) = [said for said in data if "stream" in said]
    assert (base64.b64decode(piece["data"]), piece["untrusted"]) == (b"hello\n", ["data"])
