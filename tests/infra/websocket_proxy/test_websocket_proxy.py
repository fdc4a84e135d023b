"""The door: closed without settings and certificate, and with them open on one port of the uplink alone."""

import json
from typing import Any

SETTINGS = "/etc/deskyard/settings.json"
BUNDLE = "/etc/deskyard/tls/haproxy.pem"


def has_door(host: Any) -> bool:
    return bool(host.file(SETTINGS).exists and host.file(BUNDLE).exists)


def listening(host: Any) -> set[str]:
    lines = host.check_output("ss -H -lntp").splitlines()
    router = host.check_output("systemctl show -p ControlGroup --value deskyard-egress.service")
    other = host.run(f"cat /sys/fs/cgroup{router}/cgroup.procs").stdout.split() if router else []
    mine = [line for line in lines if '"haproxy"' in line and not any(f"pid={pid}," in line for pid in other)]
    return {line.split()[3] for line in mine}


def test_proxy_is_enabled_and_runs_only_with_settings_and_certificate(host: Any) -> None:
    service = host.service("haproxy.service")
    assert service.is_enabled
    assert service.is_running == has_door(host)


def test_door_is_on_the_uplink_alone(host: Any) -> None:
    if not has_door(host):
        assert listening(host) == set()
        return
    settings = json.loads(host.file(SETTINGS).content_string)
    assert listening(host) - {"127.0.0.1:8701"} == {f"{settings['uplink_address']}:443"}


def test_nothing_reaches_an_upgrade_without_a_session(host: Any) -> None:
    if not has_door(host):
        return
    settings = json.loads(host.file(SETTINGS).content_string)
    origin = settings["origin"]
    desktop = settings["desktops"][0]["name"]
    script = UPGRADE.format(
        address=settings["uplink_address"],
        name=settings["hostname"],
        authority=origin.removeprefix("https://"),
        origin=origin,
        path=f"/d/{desktop}/vnc",
    )
    assert host.check_output(f"python3 -c '{script}'").strip() == "401"


def test_configuration_is_good(host: Any) -> None:
    if not has_door(host):
        return
    host.run_test("haproxy -c -f /etc/deskyard/haproxy.cfg -f /run/deskyard-proxy/backends.cfg")


def test_certificate_key_is_for_root_alone(host: Any) -> None:
    if not has_door(host):
        return
    assert (host.file(BUNDLE).mode, host.file(BUNDLE).user) == (0o600, "root")


def test_packages_of_the_role_are_installed(host: Any, defaults: dict[str, Any]) -> None:
    assert all(host.package(name).is_installed for name in defaults["websocket_proxy_packages"])


# The trust in the certificate is shown elsewhere: here only the status counts.
UPGRADE = """
import socket, ssl
context = ssl.create_default_context()
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE
line = context.wrap_socket(socket.create_connection(("{address}", 443), 10), server_hostname="{name}")
line.sendall(b"GET {path} HTTP/1.1\\r\\nHost: {authority}\\r\\nOrigin: {origin}\\r\\nUpgrade: websocket\\r\\n"
    b"Connection: Upgrade\\r\\nSec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\\r\\n\\r\\n")
print(line.recv(4096).split()[1].decode())
"""
