"""Programs do to a screen what they like: the service hears, sees and acts on as if they had not."""

import contextlib
import select
import socket

import xcffib.xproto as xproto

from deskyard.computer.display.x_server import MOST_ASKING, XConnection
from tests.computer.desktop import PATIENCE, Recorder, Service, XServer

NO_NAME = 0  # the server has none for it
GONE = 1  # no window has this number


def name_by_nothing(recorder: Recorder, kind: str) -> None:
    """Write a number that is no name where there has to be one."""
    recorder.c.core.ChangeProperty(0, recorder.id, recorder.c.atom(kind), xproto.Atom.ATOM, 32, 1, [NO_NAME])
    recorder.c.x.flush()


def test_a_window_whose_kind_and_state_are_no_names_is_told_and_listed_as_any(
    service: Service, server: XServer
) -> None:
    before = service.last()
    window = Recorder(server.display, kind=[NO_NAME])
    appeared = service.wait("window.appeared", match={"id": window.id}, after=before)
    assert appeared["kind"] == "normal"
    name_by_nothing(window, "_NET_WM_STATE")
    found = next(entry for entry in service.windows() if entry["id"] == window.id)
    assert found["kind"] == "normal" and "" not in found["state"]
    window.close()
    service.wait("window.closed", match={"id": window.id}, after=before)


def test_a_fault_in_hearing_ends_neither_the_thread_nor_what_is_held(service: Service, recorder: Recorder) -> None:
    ears, before = service.part._listening(), service.last()
    service.did({"type": "down", "key": "F5"})
    held = list(service.part.drive.held)

    def hear(event: object) -> None:
        ears.clipboard.__dict__.pop("hear")
        raise RuntimeError("a fault of ours")

    ears.clipboard.hear = hear  # type: ignore[method-assign]
    service.client.put("/v1/clipboard", json={"text": "heard"})
    service.wait("screen.ready", after=before)
    assert held and service.part.drive.held == held
    recorder.title("heard again")
    service.wait("window.title", match={"title": "heard again"}, after=before)
    service.did({"type": "up", "key": "F5"})


def test_what_was_asked_about_a_window_that_is_gone_does_not_count_as_the_end_of_the_screen(
    service: Service, recorder: Recorder
) -> None:
    before = service.last()

    def ask(c: XConnection) -> None:
        c.core.ChangeWindowAttributes(GONE, xproto.CW.EventMask, [xproto.EventMask.PropertyChange])
        c.settle()

    service.part._listening().call(ask).result(PATIENCE)
    recorder.title("heard on")
    service.wait("window.title", match={"title": "heard on"}, after=before)
    assert "screen.gone" not in [event["event"] for event in service.part.log.since(before)[0]]


def test_a_program_that_has_the_server_for_itself_holds_up_no_files_and_a_bounded_number_who_ask(
    service: Service, server: XServer
) -> None:
    beyond = 6
    with contextlib.ExitStack() as stack:
        program = stack.enter_context(contextlib.closing(XConnection(server.display)))
        program.core.GrabServer()
        program.settle()
        lines = [
            stack.enter_context(socket.create_connection(("127.0.0.1", service.port), PATIENCE))
            for _ in range(MOST_ASKING + beyond)
        ]
        for line in lines:
            line.sendall(b"GET /v1/windows HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        assert service.client.get("/v1/files/entry", params={"path": "/"}).status_code == 200
        answered = set[socket.socket]()
        while len(answered) < beyond:
            ready = select.select(set(lines) - answered, [], [], PATIENCE)[0]
            assert ready, "who comes too late is told so at once"
            answered |= set(ready)
        assert {line.recv(12) for line in answered} == {b"HTTP/1.1 503"}
        program.core.UngrabServer()
        program.settle()
        assert {line.recv(12) for line in lines if line not in answered} == {b"HTTP/1.1 200"}
