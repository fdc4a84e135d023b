"""What HAProxy refuses never comes into force: the last good configuration serves on, and the refusal is said."""

import json
from typing import Any

from deskyard.gateway.machine import tls
from deskyard.wire.gateway_settings import Settings
from tests.molecule.conftest import Eventually
from tests.molecule.door import Door

CONFIGURATION = "/etc/deskyard/haproxy.cfg"
WRITTEN = ("haproxy.cfg", "firewall.nft", "dnsmasq.conf", "settings.json")


def workers(host: Any) -> set[str]:
    return set(host.check_output("pgrep --uid haproxy haproxy").split())


def test_refused_reload_keeps_the_last_good_configuration_and_says_so(host: Any, door: Door) -> None:
    before = workers(host)
    host.run_test(f"cp -p {CONFIGURATION} {CONFIGURATION}.good; echo 'no-such-keyword' >>{CONFIGURATION}")
    try:
        assert host.run("systemctl reload haproxy.service").rc != 0
        assert "no-such-keyword" in host.check_output("journalctl --unit haproxy.service --no-pager --lines 40")
        assert workers(host) == before
        assert door.get("/healthz").status == 200
        assert host.service("haproxy").is_running
    finally:
        host.run_test(f"mv {CONFIGURATION}.good {CONFIGURATION}")
    host.run_test("systemctl reload haproxy.service")
    assert door.get("/healthz").status == 200


def test_settings_that_a_program_refuses_change_nothing(host: Any, settings: Settings, door: Door) -> None:
    files = (
        f"sha256sum {CONFIGURATION} /etc/deskyard/firewall.nft /etc/deskyard/dnsmasq.conf /etc/deskyard/settings.json"
    )
    before = host.check_output(files)
    # A checker that refuses stands for settings that our own checks let through and HAProxy does not.
    host.run_test("mkdir -p /tmp/bin && printf '#!/bin/sh\\necho refused by the test; exit 1\\n' >/tmp/bin/haproxy")
    host.run_test("chmod 755 /tmp/bin/haproxy")
    document = json.loads(settings.as_json())
    document["desktops"] = document["desktops"][:1]
    answer = host.run("printf %s %s | PATH=/tmp/bin:$PATH deskyard-gateway apply", "%s", json.dumps(document))
    assert answer.rc == 1
    assert "refused by the test" in json.loads(answer.stdout)["error"]["reason"]
    assert host.check_output(files) == before
    assert door.get("/healthz").status == 200


def test_certificate_of_another_name_is_refused_and_the_old_one_serves_on(host: Any, door: Door) -> None:
    before = door.certificate()
    key = host.file("/etc/deskyard/tls/key.pem").content_string
    wrong = tls.self_signed(key, "other.test")
    assert host.run("printf %s %s | deskyard-gateway certificate", "%s", wrong).rc == 1
    assert door.certificate() == before


def test_door_closes_without_a_certificate_and_opens_with_it(host: Any, door: Door, eventually: Eventually) -> None:
    bundle = "/etc/deskyard/tls/haproxy.pem"
    host.run_test(f"mv {bundle} {bundle}.away; systemctl restart haproxy.service")
    try:
        assert not host.service("haproxy").is_running
        assert not door.listens()
    finally:
        host.run_test(f"mv {bundle}.away {bundle}; systemctl restart haproxy.service")
    eventually(door.listens, "the door")
