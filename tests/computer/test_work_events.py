"""Processes and files among the desktop's events: heard once, bounded, and to who may use them alone."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from deskyard_sdk import Desktop, DesktopError

from tests.computer.desktop import Service
from tests.support.mcp_client import Tools, talk_within


def session(scopes: str) -> dict[str, str]:
    return {"x-deskyard-session": "s1", "x-deskyard-scopes": scopes}


def start(service: Service, command: Any, **more: Any) -> dict[str, Any]:
    # No login shell: what that reads is the machine's own.
    argv = ["bash", "-c", command] if isinstance(command, str) else command
    answer = service.client.post("/v1/processes", json={"command": argv, **more})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


@pytest.fixture
def folder(service: Service, tmp_path: Path) -> Iterator[Path]:
    """A directory; its watches are over at the end."""
    yield tmp_path
    for watch in service.client.get("/v1/files/watches").json()["watches"]:
        assert service.client.delete(f"/v1/files/watches/{watch['id']}").status_code == 204


def watched(service: Service, folder: Path, **more: Any) -> dict[str, Any]:
    answer = service.client.post("/v1/files/watches", json={"path": str(folder), **more})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


@pytest.mark.parametrize(
    ("command", "code", "signal"), [("exit 3", 3, None), (["true"], 0, None), ("kill -9 $$", -1, "SIGKILL")]
)
def test_the_end_of_a_process_is_an_event(service: Service, command: Any, code: int, signal: str | None) -> None:
    begun = start(service, command, tag="build")
    ended = service.wait("process.ended", match={"process": begun["id"]}, after=begun["event"])
    assert (ended["exit_code"], ended["signal"], ended["pid"], ended["tag"]) == (code, signal, begun["pid"], "build")


def test_what_a_process_says_is_an_event_where_it_was_started_so(service: Service) -> None:
    loud = start(service, "echo Grüße; echo Fehler >&2", tell_output=True)
    still = start(service, "echo nothing")
    said = service.wait("process.output", match={"process": loud["id"], "stream": "stdout"}, after=loud["event"])
    assert (said["text"], said["lost_bytes"], said["untrusted"]) == ("Grüße\n", 0, ["text"])
    complaint = service.wait("process.output", match={"process": loud["id"], "text": "fehler"}, after=loud["event"])
    ended = service.wait("process.ended", match={"process": loud["id"]}, after=loud["event"])
    assert said["seq"] < ended["seq"] and complaint["seq"] < ended["seq"]
    service.wait("process.ended", match={"process": still["id"]}, after=still["event"])
    heard = service.part.log.since(loud["event"])[0]
    assert not [event for event in heard if event["event"] == "process.output" and event["process"] == still["id"]]


def test_much_output_is_told_in_few_events_and_what_is_left_out_is_counted(service: Service) -> None:
    begun = start(service, "head -c 300000 /dev/zero | tr '\\0' x; echo end", tell_output=True)
    service.wait("process.ended", match={"process": begun["id"]}, after=begun["event"])
    heard = [
        event for event in service.part.log.since(begun["event"])[0]
        if event["event"] == "process.output" and event["process"] == begun["id"]
    ]  # fmt: skip
    assert heard[-1]["text"].endswith("xend\n") and all(len(event["text"]) <= 2000 for event in heard)
    assert sum(len(event["text"]) + event["lost_bytes"] for event in heard) == 300_004
    assert len(heard) <= 20


def test_a_batch_waits_for_a_process_to_end(service: Service) -> None:
    begun = start(service, "read line; exit 4", stdin=True)
    wait = {"event": "process.ended", "match": {"process": begun["id"]}, "after": begun["event"]}
    assert service.client.post(f"/v1/processes/{begun['id']}/stdin?close=true", content=b"x\n").status_code == 200
    answer = service.did({"type": "move", "x": 5, "y": 5}, {"type": "wait", **wait}, wait=wait)
    assert answer["results"][1]["event"]["exit_code"] == answer["wait"]["exit_code"] == 4


def test_a_change_of_a_watched_directory_is_an_event(service: Service, folder: Path) -> None:
    watch = watched(service, folder, recursive=True)
    (folder / "new").mkdir()
    (folder / "new/letter.txt").write_text("Dear all")
    match = {"watch": watch["id"], "path": "new/letter.txt"}
    changed = service.wait("file.changed", match=match, after=watch["event"])
    assert (changed["root"], changed["untrusted"]) == (str(folder), ["path"])
    listed = service.client.get("/v1/files/watches").json()["watches"]
    assert {"id": watch["id"], "path": str(folder), "recursive": True} in listed


def test_many_changes_are_told_in_few_events(service: Service, folder: Path) -> None:
    watch = watched(service, folder)
    for number in range(200):
        (folder / f"{number}.txt").touch()
    service.wait("file.changed", match={"watch": watch["id"], "kind": "lost"}, after=watch["event"])
    service.client.delete(f"/v1/files/watches/{watch['id']}")
    heard = [event for event in service.part.log.since(watch["event"])[0] if event["event"] == "file.changed"]
    assert 20 < len(heard) < 200


def test_a_watch_that_is_ended_tells_nothing_more(service: Service, folder: Path) -> None:
    watch = watched(service, folder)
    assert service.client.delete(f"/v1/files/watches/{watch['id']}").status_code == 204
    assert service.client.delete(f"/v1/files/watches/{watch['id']}").json()["error"] == "watch"
    (folder / "late.txt").touch()
    ended = start(service, ["true"])
    service.wait("process.ended", match={"process": ended["id"]}, after=ended["event"])
    assert not [event for event in service.part.log.since(watch["event"])[0] if event["event"] == "file.changed"]


@pytest.mark.parametrize(
    ("asked", "status", "field"),
    [
        ({}, 400, "path"), ({"path": "/no/such/place"}, 404, "path"), ({"path": "~", "recursive": 5}, 400, "recursive"),
        ({"path": "~", "colour": 1}, 400, "colour"),
    ],
)  # fmt: skip
def test_a_wrong_watch_is_refused(service: Service, asked: dict[str, Any], status: int, field: str) -> None:
    answer = service.client.post("/v1/files/watches", json=asked)
    assert (answer.status_code, answer.json()["error"]) == (status, field)


def test_watches_are_bounded(service: Service, folder: Path) -> None:
    for _ in range(16):
        watched(service, folder)
    answer = service.client.post("/v1/files/watches", json={"path": str(folder)})
    assert (answer.status_code, answer.json()["error"]) == (429, "watch")


@pytest.mark.parametrize(
    ("kind", "scope"), [("process.ended", "shell"), ("process.output", "shell"), ("file.changed", "files")]
)
def test_who_may_not_use_them_neither_waits_for_nor_hears_of_them(service: Service, kind: str, scope: str) -> None:
    headers = session(",".join(sorted({"see", "act", "files", "shell"} - {scope})))
    wait = {"event": kind, "within_ms": 1}
    acting = {"actions": [{"type": "move", "x": 1, "y": 1}]}
    refused = [
        service.client.post("/v1/wait", json=wait, headers=headers),
        service.client.post("/v1/act", json={**acting, "wait": wait}, headers=headers),
        service.client.post("/v1/act", json={"actions": [{"type": "wait", **wait}]}, headers=headers),
        service.client.get(f"/v1/events?events={kind}", headers=headers),
    ]
    assert [(answer.status_code, answer.json()["value"]) for answer in refused] == [(403, scope)] * 4


@pytest.mark.parametrize("scopes", ["see", "see,files", "see,shell", "see,files,shell"])
def test_a_stream_of_all_events_has_those_of_its_scopes(service: Service, folder: Path, scopes: str) -> None:
    watch = watched(service, folder)
    (folder / "a.txt").touch()
    service.wait("file.changed", match={"watch": watch["id"]}, after=watch["event"])
    begun = start(service, "echo hello", tell_output=True)
    service.wait("process.ended", match={"process": begun["id"]}, after=begun["event"])
    service.part.log.tell("screen.ready", {"last": True})
    kinds = set()
    query = f"/v1/events?after={watch['event']}"
    with httpx.stream("GET", service.url + query, headers=session(scopes), timeout=20) as stream:
        for line in stream.iter_lines():
            if line.startswith("data: "):
                event = json.loads(line[6:])
                kinds.add(event["event"])
                if event.get("last"):
                    break
    expected = {"file.changed"} if "files" in scopes else set()
    expected |= {"process.output", "process.ended"} if "shell" in scopes else set()
    assert kinds & {"file.changed", "process.output", "process.ended"} == expected


def test_the_sdk_and_the_protocol_wait_for_processes_and_files(service: Service, folder: Path) -> None:
    with Desktop.connect(service.url) as desktop:
        before = desktop.last_event()
        process = desktop.processes.start(["bash", "-c", "echo ready; read line"], stdin=True, tell_output=True)
        desktop.wait_for("process.output", match={"process": process.id, "text": "ready"}, after=before)
        process.write("x\n", close=True)
        ended = desktop.wait_for("process.ended", match={"process": process.id}, after=before)
        assert ended.data["exit_code"] == 0
        watch = desktop.files.add_watch(str(folder))
        assert desktop.files.watches()[watch] == str(folder)
        (folder / "b.txt").touch()
        assert desktop.wait_for("file.changed", match={"watch": watch}, after=before).data["path"] == "b.txt"
        desktop.files.remove_watch(watch)
        with pytest.raises(DesktopError, match="does not exist"):
            desktop.files.remove_watch(watch)

    async def use(tools: Tools) -> None:
        done = await tools("start", command=["bash", "-c", "exit 7"])
        found = await tools("wait", event="process.ended", match={"process": done["id"]}, after=before)
        assert found["exit_code"] == 7

    talk_within(service.url, use)
