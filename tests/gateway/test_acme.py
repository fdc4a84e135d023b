"""The door orders and renews its certificate from a real ACME server, and keeps the last good one if it cannot."""

import http.client
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from deskyard.errors import GatewayError
from deskyard.gateway.config import acme, acme_record, render
from deskyard.gateway.machine import tls
from deskyard.gateway.machine.system import Machine
from deskyard.wire.gateway_settings import Acme
from tests.gateway.acme_server import LIFE_SECONDS, AcmeServer, run_acme_server
from tests.gateway.conftest import run_gateway
from tests.gateway.support import HOSTNAME, Gateway
from tests.support.ports import free_ports
from tests.support.requirements import need_programs
from tests.unit.gateway.support import parsed

WHERE = "/.well-known/acme-challenge/"


@dataclass
class OrderingGateway(Gateway):
    """A gateway whose site names an ACME server."""

    server: Acme | None = field(default=None)

    def document(self) -> dict[str, Any]:
        """The settings with that server."""
        assert self.server is not None
        return {**super().document(), "acme": vars(self.server)}

    def renew(self, **options: Any) -> dict[str, Any]:
        """What the timer's unit does."""
        return acme.renew(self.settings, self.layout, self.system(), **options)

    def clear(self, path: str, method: str = "GET", host: str = HOSTNAME) -> tuple[int, bytes]:
        """A request to the port that the ACME server asks."""
        connection = http.client.HTTPConnection("127.0.0.1", self.layout.challenge_port, timeout=10)
        connection.request(method, path, headers={"Host": host})
        answer = connection.getresponse()
        return answer.status, answer.read()

    def last_event(self) -> dict[str, Any]:
        """The newest line of the audit about certificates."""
        return [event for event in self.audit() if event["event"] == "certificate"][-1]


@pytest.fixture(scope="module")
def ports() -> list[int]:
    """Where certbot answers, and where the door leads to it."""
    return free_ports(2)


@pytest.fixture(scope="module")
def server(ports: list[int]) -> Iterator[AcmeServer]:
    """The ACME server."""
    need_programs("certbot")
    with run_acme_server(ports[1]) as running:
        yield running


@pytest.fixture
def ordering(server: AcmeServer, ports: list[int]) -> Iterator[OrderingGateway]:
    """A gateway with the certificate of the site's authority, which has ordered none yet."""
    named = Acme(server.directory, "admin@desk.test", server.ca)
    where = {"acme_port": ports[0], "challenge_port": ports[1], "acme_user": "nobody", "acme_group": "nogroup"}
    gateway = OrderingGateway(server=named, changes=where)
    with run_gateway(gateway):
        gateway.trust.load_verify_locations(cadata=server.root)
        yield gateway


def serial(gateway: Gateway) -> str:
    """Which certificate the door shows."""
    shown = gateway.connect().getpeercert()
    assert shown
    return str(shown["serialNumber"])


def issuer(gateway: Gateway) -> str:
    """Who signed it."""
    shown = gateway.connect().getpeercert()
    assert shown
    return str(shown["issuer"])


def test_certificate_is_ordered_and_renewed_without_a_dropped_socket(ordering: OrderingGateway) -> None:
    _, cookie = ordering.session("d1")
    sockets = [ordering.upgrade(path, cookie) for path in ("/d/d1/vnc", "/d/d1/terminal")]
    for opened in sockets:
        opened.read_until(b"|")
    assert "test authority" in issuer(ordering)
    key = tls.ensure_key(ordering.layout.tls / "key.pem")

    ordering.renew()
    assert "Pebble" in issuer(ordering)
    first = serial(ordering)
    assert ordering.last_event()["result"] == "installed"
    assert ordering.renew() == {"changed": [], "reason": "it is not time yet"}

    almost = datetime.now(UTC) + timedelta(seconds=LIFE_SECONDS * 0.7)
    assert ordering.renew(now=almost)["changed"] == ["certificate"]
    assert "Pebble" in issuer(ordering)
    assert serial(ordering) != first
    assert acme_record.state(ordering.settings, ordering.layout) == {
        "directory": ordering.settings.acme.directory if ordering.settings.acme else "",
        "in_force": True,
        "tried": almost.isoformat(timespec="seconds"),
        "error": None,
    }
    assert tls.ensure_key(ordering.layout.tls / "key.pem") == key
    assert [opened.echo("still here") for opened in sockets] == ["still here"] * 2


def test_certbot_runs_as_nobody_and_keeps_its_account_to_itself(ordering: OrderingGateway) -> None:
    ordering.renew()
    client = ordering.layout.acme_client
    (account,) = client.rglob("private_key.json")
    assert account.owner() == "nobody"
    assert stat.S_IMODE(account.stat().st_mode) & 0o077 == 0
    assert stat.S_IMODE(client.stat().st_mode) == 0o700
    key = tls.ensure_key(ordering.layout.tls / "key.pem")
    assert not [path for path in client.rglob("*") if path.is_file() and key in path.read_text(errors="replace")]


def test_refused_order_leaves_the_last_good_certificate_and_says_why(ordering: OrderingGateway) -> None:
    ordering.renew()
    good = serial(ordering)
    ordering.settings = replace(ordering.settings, hostname="other.desk.test")
    with pytest.raises(GatewayError) as caught:
        ordering.renew(at_once=True)
    assert "other.desk.test" in caught.value.reason
    assert "last good certificate is in force" in caught.value.remedy
    assert serial(ordering) == good
    event = ordering.last_event()
    assert (event["result"], "other.desk.test" in event["reason"]) == ("refused", True)
    state = acme_record.state(ordering.settings, ordering.layout)
    assert state is not None
    assert "other.desk.test" in state["error"]


def test_server_that_nobody_vouches_for_is_not_asked(ordering: OrderingGateway) -> None:
    before, server = serial(ordering), ordering.settings.acme
    assert server is not None
    ordering.settings = replace(ordering.settings, acme=replace(server, ca=""))
    with pytest.raises(GatewayError, match="gave no certificate"):
        ordering.renew()
    assert serial(ordering) == before
    assert "test authority" in issuer(ordering)


@pytest.mark.parametrize(
    ("method", "path", "host"),
    [
        ("GET", "/", HOSTNAME),
        ("GET", "/healthz", HOSTNAME),
        ("GET", "/redeem", HOSTNAME),
        ("GET", "/d/d1/vnc", HOSTNAME),
        ("POST", f"{WHERE}{'a' * 43}", HOSTNAME),
        ("GET", f"{WHERE}{'a' * 43}", "evil.test"),
        ("GET", f"{WHERE}../../../healthz", HOSTNAME),
        ("GET", f"{WHERE}{'a' * 43}?x=1/../../healthz", HOSTNAME),
        ("GET", f"{WHERE}{'a' * 200}", HOSTNAME),
    ],
)
def test_port_80_answers_nothing_but_a_challenge(ordering: OrderingGateway, method: str, path: str, host: str) -> None:
    status, body = ordering.clear(path, method, host)
    assert status == 404
    assert b"ok\n" not in body
    assert b"viewer" not in body


def test_challenge_leads_to_nobody_while_no_certificate_is_ordered(ordering: OrderingGateway) -> None:
    assert ordering.clear(f"{WHERE}{'a' * 43}")[0] == 503


@pytest.mark.parametrize("egress", ["open", "locked", "none"])
def test_rules_that_let_the_server_in_are_taken_by_the_kernel(
    ordering: OrderingGateway, egress: Any, tmp_path: Path
) -> None:
    settings = replace(parsed(egress), acme=ordering.settings.acme)
    rules = tmp_path / "firewall.nft"
    rules.write_text(render.firewall(settings, "nobody", "nobody"))
    answer = Machine().run(("nft", "-c", "-f", str(rules)))
    assert answer.code == 0, answer.output


def test_gateway_without_acme_has_no_port_80(gateway: Gateway) -> None:
    assert "frontend challenge" not in gateway.layout.proxy_file.read_text()
    assert acme.renew(gateway.settings, gateway.layout, gateway.system())["changed"] == []
