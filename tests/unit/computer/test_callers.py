"""Who is answered by the computer-use service of a desktop, and what they may do."""

import asyncio
from pathlib import Path

import httpx
import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from deskyard.computer.application import create
from deskyard.computer.caller import caller
from deskyard.computer.peers import Peers, gateways
from deskyard.computer.work.part import Work
from deskyard.wire.computer import SCOPES, SCOPES_HEADER, SESSION_HEADER
from tests.support.browser import SWITCHES
from tests.unit.computer.serving import home_of, served

# As the kernel of a desktop prints it: the way out is 10.80.1.1, and its own network is no gateway.
TABLE = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
ens2\t00000000\t0101500A\t0003\t0\t0\t100\t00000000\t0\t0\t0
ens2\t0001500A\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0
"""
GATEWAY = "10.80.1.1"
OWN = "http://127.0.0.1:6090"
COMMANDS = """
const [url, command, attach, done] = arguments;
const socket = () => new Promise((say) => {
  const socket = new WebSocket(url.replace("http", "ws") + attach);
  socket.onmessage = () => say("heard");
  socket.onerror = () => say("refused");
});
fetch(url + "/v1/processes/run", {method: "POST", mode: "no-cors", body: JSON.stringify({command})})
  .then(socket).then(done, (error) => done(String(error)));
"""


class Part:
    """One path that needs the scope `act`."""

    def routes(self) -> list[Route]:
        return [Route("/v1/who", self._who)]

    def running(self) -> "Part":
        return self

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, *_: object) -> None:
        return None

    async def _who(self, request: Request) -> Response:
        asking = caller(request)
        asking.require("act")
        return JSONResponse({"session": asking.session, "scopes": sorted(asking.scopes)})


async def ask(tmp_path: Path, peer: str, **headers: str) -> httpx.Response:
    table = tmp_path / "route"
    table.write_text(TABLE)
    transport = httpx.ASGITransport(Peers(create([Part()]), table), client=(peer, 1234))
    async with httpx.AsyncClient(transport=transport, base_url=OWN) as client:
        return await client.get("/v1/who", headers={name.replace("_", "-"): value for name, value in headers.items()})


def run(tmp_path: Path, peer: str, **headers: str) -> httpx.Response:
    return asyncio.run(ask(tmp_path, peer, **headers))


def test_gateway_is_the_default_route_and_nothing_else() -> None:
    assert gateways(TABLE) == {GATEWAY}
    assert gateways(TABLE.splitlines()[0]) == set()


def test_session_of_the_gateway_may_do_what_its_scopes_say(tmp_path: Path) -> None:
    answer = run(tmp_path, GATEWAY, **{SESSION_HEADER: "s1", SCOPES_HEADER: "act,see,fly"})
    assert answer.json() == {"session": "s1", "scopes": ["act", "see"]}


def test_scope_that_a_session_lacks_is_refused_with_what_it_has(tmp_path: Path) -> None:
    answer = run(tmp_path, GATEWAY, **{SESSION_HEADER: "s1", SCOPES_HEADER: "see"})
    assert answer.status_code == 403
    assert answer.json() == {
        "error": "scope",
        "value": "act",
        "reason": "is not among this session's scopes (see)",
        "remedy": "ask for a link with --scopes act",
    }


def test_gateway_that_names_no_session_is_refused(tmp_path: Path) -> None:
    assert run(tmp_path, GATEWAY).status_code == 401


def test_program_of_the_desktop_may_do_all(tmp_path: Path) -> None:
    assert run(tmp_path, "127.0.0.1").json() == {"session": "", "scopes": sorted(SCOPES)}


@pytest.mark.parametrize("peer", ["10.80.1.9", "192.0.2.1", "127.0.0.2"])
def test_nobody_else_is_answered_whatever_they_say(tmp_path: Path, peer: str) -> None:
    answer = run(tmp_path, peer, **{SESSION_HEADER: "s1", SCOPES_HEADER: "act"})
    assert (answer.status_code, answer.content) == (403, b"")


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.test"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:8000"},
        {"origin": "http://localhost:6090"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "same-origin", "origin": OWN},
        {"host": "evil.test:6090"},
        {"host": "evil.test:6090", "origin": "http://evil.test:6090"},
        {"host": "127.0.0.1.evil.test"},
        {"host": ""},
        {"origin": "https://evil.test", SESSION_HEADER: "s1", SCOPES_HEADER: "act"},
    ],
)
@pytest.mark.parametrize("peer", ["127.0.0.1", "::1"])
def test_page_of_the_desktops_browser_is_refused(tmp_path: Path, peer: str, headers: dict[str, str]) -> None:
    answer = run(tmp_path, peer, **headers)
    assert (answer.status_code, answer.json()["error"]) == (403, "caller")
    assert "from a program" in answer.json()["remedy"]


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "localhost:6090"},
        {"host": "LOCALHOST"},
        {"host": "[::1]:6090"},
        {"host": "127.0.0.1:7000", "origin": "http://127.0.0.1:7000"},
        {"sec-fetch-mode": "cors", "content-type": "text/plain"},
    ],
)
def test_program_of_the_desktop_is_known_by_what_programs_send(tmp_path: Path, headers: dict[str, str]) -> None:
    assert run(tmp_path, "127.0.0.1", **headers).status_code == 200


def test_gateway_says_itself_which_pages_may_ask(tmp_path: Path) -> None:
    session = {SESSION_HEADER: "s1", SCOPES_HEADER: "act"}
    headers = {"host": "gateway.test", "origin": "https://gateway.test", "sec-fetch-site": "same-origin"}
    assert run(tmp_path, GATEWAY, **session, **headers).status_code == 200


def test_websocket_of_a_page_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with served([Work(tmp_path)]) as url, pytest.raises(InvalidStatus) as refused:
        connect(f"ws{url[4:]}/v1/processes/1/attach", origin=Origin("https://evil.test"))
    assert refused.value.response.status_code == 403
    assert b"from a program" in refused.value.response.body


def test_page_in_a_real_browser_runs_nothing_and_hears_nothing(tmp_path: Path) -> None:
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for switch in (*SWITCHES, f"--user-data-dir={tmp_path / 'profile'}"):
        options.add_argument(switch)
    with (
        home_of(tmp_path) as home,
        served([Work(home)]) as guarded,
        served([Work(home)], guarded=False) as open_to_all,
        webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver")) as driver,
    ):
        heard = {}
        # A page of another site: its name is localhost, not 127.0.0.1.
        driver.get(open_to_all.replace("127.0.0.1", "localhost") + "/healthz")
        for name, url in (("guarded", guarded), ("open", open_to_all)):
            number = httpx.post(f"{url}/v1/processes", json={"command": ["cat"], "stdin": True}).json()["id"]
            asked = (url, f"touch {name}", f"/v1/processes/{number}/attach")
            heard[name] = driver.execute_async_script(COMMANDS, *asked)
        assert heard == {"guarded": "refused", "open": "heard"}
        assert (home / "open").exists(), "a page does reach a service that does not guard itself"
        assert not (home / "guarded").exists()
