"""Who does not drive cannot act on a desktop, whatever his client sends: the gateway refuses, not the page."""

import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from deskyard.gateway.view.websocket import BINARY, CONTINUATION, frame
from tests.gateway.conftest import run_gateway
from tests.gateway.support import Gateway, wait_for
from tests.gateway.talkers import Talker
from tests.gateway.vnc_client import ACTING, ASK, EXTENDED_CUT_TEXT, KEY, LOOKING, VncClient

SHORT = {"driver_idle_seconds": 2.0, "driver_away_seconds": 1.0, "streams_per_session": 2, "streams_per_desktop": 4}


@pytest.fixture(scope="module")
def talker() -> Talker:
    return Talker(lambda: 0)


@pytest.fixture(scope="module")
def watched(talker: Talker) -> Iterator[Gateway]:
    """A gateway with desktops that speak RFB and remember what they were told."""
    with run_gateway(Gateway(talk=talker)) as gateway:
        talker.terminal_port = lambda: gateway.ports["terminal"]
        yield gateway


@pytest.fixture(autouse=True)
def fresh(watched: Gateway, talker: Talker) -> Iterator[None]:
    """Nobody drives, and nothing was said, before each test."""
    watched.revoke(all=True)
    wait_for("the end of all connections", lambda: all(not session["streams"] for session in watched.listing()))
    talker.kinds.clear()
    talker.keys.clear()
    talker.shared.clear()
    yield


def look(gateway: Gateway, **options: Any) -> tuple[str, VncClient]:
    id, cookie = gateway.session("d1", **options)
    return id, VncClient(gateway, cookie)


def does(gateway: Gateway, id: str) -> str | None:
    found = next(session for session in gateway.listing() if session["id"] == id)
    return found["does"]  # type: ignore[no-any-return]


def drive(gateway: Gateway, cookie: str, action: str = "take", **headers: str) -> tuple[int, bytes]:
    given = {"Cookie": cookie, "Origin": gateway.origin, **headers}
    answer, data = gateway.request("POST", "/d/d1/drive", f'{{"action": "{action}"}}', given)
    return answer.status, data


def test_view_session_sees_the_picture_and_nothing_it_does_arrives(watched: Gateway, talker: Talker) -> None:
    _, client = look(watched, mode="view")
    client.picture()
    for message in (*LOOKING.values(), *ACTING.values(), EXTENDED_CUT_TEXT):
        client.say(message)
    client.echo()
    assert talker.kinds == list(LOOKING)
    assert talker.keys == []


def test_driver_acts(watched: Gateway, talker: Talker) -> None:
    id, client = look(watched)
    client.picture()
    for message in (*LOOKING.values(), *ACTING.values(), EXTENDED_CUT_TEXT):
        client.say(message)
    client.echo()
    assert talker.kinds == [*LOOKING, *ACTING, 6]
    assert talker.keys == [ord("k")]
    assert does(watched, id) == "drives"


def test_view_session_is_filtered_however_its_bytes_are_cut(watched: Gateway, talker: Talker) -> None:
    _, client = look(watched, mode="view")
    messages = ACTING[KEY] + LOOKING[248] + ACTING[KEY]
    # All in one frame, a frame for each byte, fragments of one message, and the bytes of frames one by one.
    client.say(messages)
    for byte in messages:
        client.say(bytes([byte]))
    client.raw(frame(BINARY, messages[:5]).replace(b"\x82", b"\x02", 1) + frame(CONTINUATION, messages[5:]))
    for byte in frame(BINARY, messages):
        client.raw(bytes([byte]))
    client.echo()
    assert talker.kinds == [248] * 4


def test_screen_is_always_shared_and_mouse_buttons_keep_one_length(watched: Gateway, talker: Talker) -> None:
    _, cookie = watched.session("d1", mode="view")
    client = VncClient(watched, cookie, shared=0)
    client.say(LOOKING[2])
    client.echo()
    assert talker.shared == [1]
    assert talker.encodings == [0, -308]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (frame(BINARY, b"\x63"), "unknown message 99"),
        (frame(BINARY, b"\xfc\x01"), "unknown message 252"),
        (frame(BINARY, struct.pack(">Bxxxi", 6, 2**30)), "too long"),
        (frame(1, b"text"), "frame of kind 1"),
        (b"\x82\x01\x04", "without a mask"),
        (frame(BINARY, ASK).replace(b"\x82", b"\xc2", 1), "extension"),
        (frame(CONTINUATION, ASK), "fragments out of order"),
        (b"\x82\xff" + (2**40).to_bytes(8, "big"), "frame too long"),
    ],
    ids=["unknown", "file-transfer", "clipboard-bomb", "text", "unmasked", "compressed", "stray-fragment", "huge"],
)
@pytest.mark.parametrize("mode", ["view", "drive"])
def test_client_that_breaks_the_protocol_is_sent_away_with_the_reason(
    watched: Gateway, talker: Talker, mode: str, data: bytes, reason: str
) -> None:
    id, client = look(watched, mode=mode)
    client.raw(data)
    assert client.closes()
    wait_for(
        "the audit",
        lambda: [line for line in watched.audit() if line.get("session") == id and reason in line.get("reason", "")],
    )
    assert talker.kinds == []


def test_compression_is_not_agreed_on_with_the_desktop(watched: Gateway) -> None:
    _, cookie = watched.session("d1", mode="view")
    opened = watched.upgrade(cookie=cookie, Sec_WebSocket_Extensions="permessage-deflate", X_Deskyard_Session="A" * 24)
    assert opened.status == 101
    assert "permessage-deflate" not in watched.desktops.requests[-1]
    assert "x-deskyard" not in watched.desktops.requests[-1].lower()


def test_second_who_may_drive_watches(watched: Gateway, talker: Talker) -> None:
    (first, driving), (second, waiting) = look(watched), look(watched)
    assert (does(watched, first), does(watched, second)) == ("drives", "watches")
    waiting.say(ACTING[KEY])
    waiting.echo()
    assert talker.keys == []
    driving.say(ACTING[KEY])
    driving.echo()
    assert talker.keys == [ord("k")]


def test_taking_over_moves_the_drive_without_a_new_connection(watched: Gateway, talker: Talker) -> None:
    first, cookie = watched.session("d1", actor="alice")
    second, other = watched.session("d1", actor="bob")
    driving, waiting = VncClient(watched, cookie), VncClient(watched, other)
    status, data = drive(watched, other)
    assert (status, b'"drives":true' in data, b'"driver":"bob"' in data) == (200, True, True)
    driving.say(ACTING[KEY])
    driving.echo()
    assert talker.keys == []
    waiting.say(ACTING[KEY])
    waiting.echo()
    assert talker.keys == [ord("k")]
    answer, data = watched.request("GET", "/d/d1/session", headers={"Cookie": cookie})
    assert (answer.status, b'"drives":false' in data, b'"driver":"bob"' in data) == (200, True, True)
    # And back, by handing over.
    assert drive(watched, cookie, "hand-over")[0] == 409
    assert drive(watched, other, "hand-over")[0] == 200
    assert does(watched, first) == "drives"
    changes = [line for line in watched.audit() if line["event"] == "driver" and line["session"] in (first, second)]
    assert [(line["session"], line["reason"]) for line in changes] == [
        (first, "first"),
        (second, "taken"),
        (first, "handed over"),
    ]


def test_viewer_and_foreign_page_cannot_take_the_drive(watched: Gateway) -> None:
    driver, _driving = look(watched)
    _, cookie = watched.session("d1", mode="view")
    _, other = watched.session("d1")
    clients = [VncClient(watched, cookie)]
    assert drive(watched, cookie)[0] == 403
    assert drive(watched, other)[0] == 409  # it does not look at the desktop
    clients.append(VncClient(watched, other))
    assert drive(watched, other, Origin="https://evil.test")[0] == 403
    assert drive(watched, "")[0] == 401
    assert drive(watched, other, "steal")[0] == 400
    assert does(watched, driver) == "drives"


def test_revoked_driver_is_cut_off_and_the_next_one_drives(watched: Gateway, talker: Talker) -> None:
    first, driving = look(watched)
    second, waiting = look(watched)
    with ThreadPoolExecutor(1) as pool:
        revoking = pool.submit(watched.revoke, first)
        assert driving.closes()
        revoking.result()
    wait_for("the next driver", lambda: does(watched, second) == "drives")
    waiting.say(ACTING[KEY])
    waiting.echo()
    assert talker.keys == [ord("k")]


def test_one_who_leaves_or_sleeps_makes_room_and_streams_are_counted(talker: Talker) -> None:
    with run_gateway(Gateway(talk=talker, changes=SHORT)) as gateway:
        talker.terminal_port = lambda: gateway.ports["terminal"]
        first, driving = look(gateway)
        second, waiting = look(gateway)
        wait_for("the sleeper to lose the drive", lambda: does(gateway, second) == "drives")
        waiting.opened.line.close()
        wait_for("the leaver to lose the drive", lambda: does(gateway, first) == "drives")
        _, cookie = gateway.session("d1", mode="view")
        clients = [VncClient(gateway, cookie) for _ in range(2)]
        assert [client.status for client in clients] == [101, 101]
        assert VncClient(gateway, cookie).status == 429  # the third of one session
        _, cookie = gateway.session("d1", mode="view")
        clients.append(VncClient(gateway, cookie))
        assert clients[-1].status == 101
        assert VncClient(gateway, cookie).status == 429  # the fifth of the desktop
        assert "idle" in [line["reason"] for line in gateway.audit() if line["event"] == "driver"]
        driving.picture()


def test_connections_and_driver_outlive_the_session_service(talker: Talker) -> None:
    with run_gateway(Gateway(talk=talker)) as gateway:
        talker.terminal_port = lambda: gateway.ports["terminal"]
        first, cookie = gateway.session("d1")
        second, other = gateway.session("d1")
        driving, waiting = VncClient(gateway, cookie), VncClient(gateway, other)
        service = gateway.processes[0]
        service.kill()
        service.wait(10)
        for client in (driving, waiting):
            client.say(ACTING[KEY])
            client.echo()
        assert talker.keys == [ord("k")]
        assert VncClient(gateway, cookie).status == 503
        gateway.start_service()
        wait_for("both again", lambda: (does(gateway, first), does(gateway, second)) == ("drives", "watches"))
        gateway.revoke(second)
        assert waiting.closes()
        driving.picture()


def test_session_that_goes_round_the_filter_would_act(watched: Gateway, talker: Talker) -> None:
    """The weakened door: with a view session's server at the desktop itself, its keys arrive."""
    id, cookie = watched.session("d1", mode="view")
    worker, server = watched.workers()[-1], f"be_d1_desktop/{id}"
    for command in ("set server {} state maint", "del server {}"):
        watched.ask_master(f"@!{worker} {command.format(server)}")
    watched.ask_master(f"@!{worker} add server {server} {watched.names['d1']}:{watched.ports['desktop']} weight 0")
    watched.ask_master(f"@!{worker} enable server {server}")
    client = VncClient(watched, cookie)
    client.say(ACTING[KEY])
    client.echo()
    assert talker.keys == [ord("k")]
