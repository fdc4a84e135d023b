"""What opens for an ACME server, and only for it; and when a certificate is ordered."""

import grp
import os
import pwd
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from deskyard.errors import GatewayError
from deskyard.gateway.config import acme, acme_record, render
from deskyard.gateway.config.apply import apply
from deskyard.gateway.machine import files, tls
from deskyard.gateway.machine.layout import Layout
from deskyard.gateway.machine.system import Answer
from deskyard.wire.gateway_settings import Acme, Settings
from tests.unit.gateway.support import Egress, parsed
from tests.unit.gateway.test_apply import Notes

SERVER = Acme("https://acme.test:8443/dir", "admin@desk.test", "")
OPENED = (
    'iifname "uplink" ip daddr {uplink} tcp dport 80 jump https',
    'meta skuid "deskyard-acme" jump from_acme',
    'oifname "uplink" tcp dport 8443 ct state new accept',
    'oifname "uplink" ip daddr {host} udp dport 53 ct timeout set "question" accept',
)


def with_server(egress: Egress = "none") -> Settings:
    return replace(parsed(egress), acme=SERVER)


@pytest.mark.parametrize("egress", ["none", "locked"])
def test_firewall_opens_for_the_server_and_for_certbot_alone(egress: Egress) -> None:
    settings = with_server(egress)
    lines = [line.format(uplink=settings.uplink_address, host=settings.host_address) for line in OPENED]
    rules = [line.strip() for line in render.firewall(settings).splitlines()]
    closed = [line.strip() for line in render.firewall(parsed(egress)).splitlines()]
    assert [line for line in lines if line not in rules] == []
    assert [line for line in lines[:3] if line in closed] == []
    # Nothing else may go out on new ground: the rest of the rules is the same.
    assert {line for line in rules if "accept" in line} - {line for line in closed if "accept" in line} <= {
        *lines,
        'oif "lo" accept',
        f'oifname "uplink" ip daddr {settings.host_address} tcp dport 53 accept',
    }


def test_door_has_a_port_80_only_with_a_server(tmp_path: Path) -> None:
    layout = Layout(root=tmp_path)
    settings = with_server()
    bundle = layout.tls_bundle
    assert f"bind {settings.uplink_address}:80 proto h1\n" in render.haproxy(settings, layout, ["k1"], bundle)
    assert ":80 " not in render.haproxy(parsed(), layout, ["k1"], bundle)


@pytest.mark.parametrize(("directory", "port"), [("https://a.test/dir", 443), ("https://a.test:14000/dir", 14000)])
def test_port_of_the_server_is_that_of_its_directory(directory: str, port: int) -> None:
    assert replace(SERVER, directory=directory).port == port


def test_certificate_of_another_source_is_no_reason_to_wait(tmp_path: Path) -> None:
    layout, settings = Layout(root=tmp_path, service_user="root"), with_server()
    assert not acme_record.in_force(settings, layout)
    key = tls.ensure_key(layout.tls / "key.pem")
    files.write(layout.tls_bundle, tls.self_signed(key, settings.hostname) + key, 0o600)
    assert not acme_record.in_force(settings, layout)
    record = acme_record.Record(certificate=tls.fingerprint(layout.tls_bundle), directory=SERVER.directory)
    acme_record.save(record, layout)
    assert acme_record.in_force(settings, layout)
    assert not acme_record.in_force(replace(settings, hostname="other.test"), layout)
    assert not acme_record.in_force(replace(settings, acme=replace(SERVER, directory="https://b.test/")), layout)
    assert not acme_record.in_force(parsed(), layout)
    assert acme.renew(settings, layout, Notes())["reason"] == "it is not time yet"


class Certbot(Notes):
    """Gives a certificate for the name that was ordered, and meanwhile other settings come into force."""

    def __init__(self, layout: Layout, ordered: Settings, meanwhile: Settings) -> None:
        super().__init__()
        self.layout, self.ordered, self.meanwhile = layout, ordered, meanwhile
        self.judged = ""

    def run(self, argv: Sequence[str]) -> Answer:
        if "certonly" in argv:
            key = tls.ensure_key(self.layout.tls / "key.pem")
            chain = Path(argv[argv.index("--fullchain-path") + 1])
            chain.write_text(tls.self_signed(key, self.ordered.hostname))
            apply(self.meanwhile, self.layout, Notes())
        self.judged += "".join(Path(name).read_text() for name in argv if Path(name).name == "haproxy.cfg")
        return super().run(argv)


@pytest.mark.parametrize("change", ["nothing", "desktops", "hostname", "acme"])
def test_certificate_is_installed_by_the_settings_that_came_while_it_was_ordered(tmp_path: Path, change: str) -> None:
    group, user = grp.getgrgid(os.getegid()).gr_name, pwd.getpwuid(os.geteuid()).pw_name
    layout, ordered = Layout(root=tmp_path, service_user=group, acme_user=user), with_server()
    meanwhile = {
        "nothing": ordered,
        "desktops": replace(ordered, desktops=ordered.desktops[:1]),
        "hostname": replace(ordered, hostname="other.test", origin="https://other.test:8443"),
        "acme": replace(ordered, acme=replace(SERVER, directory="https://other.test/dir")),
    }[change]
    key = tls.ensure_key(layout.tls / "key.pem")
    before = tls.self_signed(key, meanwhile.hostname) + key
    files.write(layout.tls_bundle, before, 0o600)
    apply(ordered, layout, Notes())
    certbot = Certbot(layout, ordered, meanwhile)
    if change in ("nothing", "desktops"):
        assert acme.renew(ordered, layout, certbot, at_once=True)["changed"] == ["certificate"]
        assert acme_record.in_force(meanwhile, layout)
        assert ("__Host-deskyard-research-2" in certbot.judged) is (change == "nothing")
        return
    with pytest.raises(GatewayError, match="took the place of"):
        acme.renew(ordered, layout, certbot, at_once=True)
    assert layout.tls_bundle.read_text() == before
    assert not acme_record.in_force(meanwhile, layout)
    assert "took the place of" in (acme_record.load(layout).error or "")


def test_69_every_port_of_the_door_speaks_http_1_alone(tmp_path: Path) -> None:
    layout = Layout(root=tmp_path)
    text = render.haproxy(with_server(), layout, ["k1"], layout.tls_bundle)
    binds = [line for line in text.splitlines() if line.strip().startswith("bind ")]
    assert len(binds) == 2
    assert all("proto h1" in line.split(" bind ")[-1] for line in binds), binds
