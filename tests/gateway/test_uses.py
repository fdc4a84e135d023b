"""Programs that act on a desktop, or work in it, use it, as its host reads in the list of sessions."""

import json
from pathlib import Path

import pytest

from tests.gateway.support import Gateway, wait_for

PLACE = "/d/d1/computer"
API = Path(__file__).resolve().parents[2] / "sdk" / "openapi.json"
SOCKET = "X-WEBSOCKET"
# Yesterday's recordings are read without a look at the desktop of today.
RECORDED = "/v1/recordings/{id}/"


def endpoints() -> list[tuple[str, str, str]]:
    """Method, path and scope of all that the service answers."""
    paths = json.loads(API.read_text())["paths"]
    return [
        (method.upper(), path, asked["x-scope"])
        for path, methods in paths.items()
        for method, asked in methods.items()
        if "x-scope" in asked and not (method == "get" and path.startswith(RECORDED))
    ]


def use_of(gateway: Gateway, id: str) -> tuple[int | None, str | None]:
    """For how long a session has not used its desktop, and what it does there."""
    (mine,) = (session for session in gateway.listing() if session["id"] == id)
    return mine["idle"], mine["does"]


def ask(gateway: Gateway, bearer: dict[str, str], method: str, path: str) -> int:
    return gateway.request(method, PLACE + path, None if method == "GET" else "{}", bearer)[0].status


@pytest.mark.parametrize(("method", "path", "scope"), endpoints())
def test_what_takes_more_than_to_see_is_use_and_a_look_is_none(
    gateway: Gateway, method: str, path: str, scope: str
) -> None:
    id, bearer = gateway.program()
    there = path.translate(str.maketrans("", "", "{}"))
    if method == SOCKET:
        assert gateway.upgrade(PLACE + there, Origin=None, **bearer).status == 101
    else:
        assert ask(gateway, bearer, method, there) == 200
    idle, does = use_of(gateway, id)
    assert does == (None if scope == "see" else "acts")
    assert idle in ((None,) if scope == "see" else range(60))


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/process.Process/Start"), ("POST", "/filesystem.Filesystem/ListDir"), ("GET", "/files?path=x")],
)
def test_what_e2b_s_clients_do_is_use(gateway: Gateway, method: str, path: str) -> None:
    id, bearer = gateway.program()
    assert ask(gateway, bearer, method, path) == 200
    assert use_of(gateway, id)[1] == "acts"


def test_who_may_only_see_uses_nothing_whatever_it_asks(gateway: Gateway) -> None:
    id, bearer = gateway.program(scopes=["see"])
    for method, path in (("POST", "/v1/act"), ("GET", "/v1/files"), ("POST", "/v1/processes")):
        assert ask(gateway, bearer, method, path) == 200
    assert use_of(gateway, id) == (None, None)


def test_time_since_its_last_request_grows_until_the_next(gateway: Gateway) -> None:
    id, bearer = gateway.program()
    ask(gateway, bearer, "POST", "/v1/act")
    wait_for("a moment without use", lambda: (use_of(gateway, id)[0] or 0) >= 2)
    ask(gateway, bearer, "GET", "/v1/screen")
    assert (use_of(gateway, id)[0] or 0) >= 2
    ask(gateway, bearer, "POST", "/v1/act")
    assert use_of(gateway, id) in ((0, "acts"), (1, "acts"))


@pytest.mark.parametrize("path", ["/v1/processes/7/attach", "/v1/devtools"])
def test_terminal_or_browser_that_is_open_is_use_for_as_long(gateway: Gateway, path: str) -> None:
    id, bearer = gateway.program()
    opened = gateway.upgrade(PLACE + path, Origin=None, **bearer)
    assert opened.status == 101
    other, witness = gateway.program()
    ask(gateway, witness, "POST", "/v1/act")
    wait_for("a moment without use", lambda: (use_of(gateway, other)[0] or 0) >= 2)
    assert use_of(gateway, id) == (0, "acts")
    opened.line.close()
    wait_for("the end of its use", lambda: (use_of(gateway, id)[0] or 0) >= 1)


def test_what_is_refused_while_a_person_has_stopped_the_agent_is_no_use(own_gateway: Gateway) -> None:
    id, bearer = own_gateway.program()
    _, cookie = own_gateway.session("d1")
    headers = {"Cookie": cookie, "Origin": own_gateway.origin}
    assert own_gateway.request("POST", "/d/d1/drive", '{"action": "stop"}', headers)[0].status == 200
    assert ask(own_gateway, bearer, "POST", "/v1/act") == 423
    assert use_of(own_gateway, id) == (None, None)


def test_what_is_open_in_a_worker_of_before_is_use(own_gateway: Gateway) -> None:
    id, bearer = own_gateway.program()
    opened = own_gateway.upgrade(f"{PLACE}/v1/processes/7/attach", Origin=None, **bearer)
    own_gateway.reload()
    assert len(own_gateway.workers()) == 2
    assert use_of(own_gateway, id) == (0, "acts")
    opened.line.close()
    wait_for("the end of the old worker", lambda: len(own_gateway.workers()) == 1)
    assert ask(own_gateway, bearer, "POST", "/v1/act") == 200
    assert use_of(own_gateway, id)[1] == "acts"


def test_use_by_a_session_that_ended_is_not_forgotten(gateway: Gateway) -> None:
    id, bearer = gateway.program()
    ask(gateway, bearer, "POST", "/v1/act")
    gateway.revoke(id)
    idle, does = use_of(gateway, id)
    assert (does, idle in range(60)) == ("acted", True)


def test_what_cannot_be_asked_counts_as_use(own_gateway: Gateway) -> None:
    id, _ = own_gateway.program()
    looking, _ = own_gateway.program(scopes=["see"])
    person, _ = own_gateway.session("d1")
    assert use_of(own_gateway, id) == (None, None)
    proxy = own_gateway.processes[-1]
    proxy.terminate()
    proxy.wait(20)
    assert use_of(own_gateway, id) == (0, "acts")
    assert use_of(own_gateway, looking) == use_of(own_gateway, person) == (None, None)
