"""Who is answered by the computer-use service of a desktop, and what they may do."""

import asyncio
from pathlib import Path

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from deskyard.computer.application import create
from deskyard.computer.caller import caller
from deskyard.computer.peers import Peers, gateways
from deskyard.wire.computer import SCOPES, SCOPES_HEADER, SESSION_HEADER

# As the kernel of a desktop prints it: the way out is 10.80.1.1, and its own network is no gateway.
TABLE = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
ens2\t00000000\t0101500A\t0003\t0\t0\t100\t00000000\t0\t0\t0
ens2\t0001500A\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0
"""
GATEWAY = "10.80.1.1"


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
    async with httpx.AsyncClient(transport=transport, base_url="http://desk") as client:
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
