"""What programs may do to a screen: the service hears, sees and acts on as if they had not."""

import xcffib.xproto as xproto

from deskyard.computer.display.x_server import XConnection
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
    told = service.wait("window.appeared", match={"id": window.id}, after=before)
    assert told["kind"] == "normal"
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
