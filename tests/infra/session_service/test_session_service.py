"""The gateway's program and its session service."""

import json
import shlex
from collections.abc import Callable
from typing import Any

import pytest

from deskyard.gateway.status import UNITS
from deskyard.gateway.status_service import ASKED
from deskyard.workspace.readiness import STATUS_SOCKET

SETTINGS = "/etc/deskyard/settings.json"


def test_program_runs_and_carries_its_viewer(host: Any) -> None:
    assert "apply" in host.check_output("deskyard-gateway --help")
    for name in ("index.html", "viewer.html", "viewer.js", "viewer.css", "landing.js", "licenses.txt"):
        assert host.file(f"/usr/lib/deskyard/assets/{name}").size > 0


def test_program_belongs_to_root_and_nobody_else_can_write_it(host: Any) -> None:
    found = host.check_output("find /usr/lib/deskyard /usr/bin/deskyard-gateway ! -user root -o -perm /022 ! -type l")
    assert found == ""


def test_service_is_enabled_and_runs_only_with_settings(host: Any) -> None:
    service = host.service("deskyard-session.service")
    assert service.is_enabled
    assert service.is_running == host.file(SETTINGS).exists


@pytest.mark.parametrize("account", ["session_service_user", "session_service_view_user", "session_service_acme_user"])
def test_account_cannot_log_in(host: Any, defaults: dict[str, Any], account: str) -> None:
    user = host.user(defaults[account])
    assert user.shell == "/usr/sbin/nologin"
    assert user.uid < 1000
    assert host.check_output(f"getent shadow {user.name}").split(":")[1].startswith(("!", "*"))


def test_filter_runs_as_its_own_user_and_reads_nothing_of_the_gateway(host: Any, defaults: dict[str, Any]) -> None:
    user = defaults["session_service_view_user"]
    assert host.service("deskyard-view.service").is_enabled
    assert host.service("deskyard-keys.timer").is_enabled
    if not host.service("deskyard-view.service").is_running:
        return
    pid = host.check_output("systemctl show -p MainPID --value deskyard-view.service")
    assert host.check_output(f"stat -c %U /proc/{pid}") == user
    assert host.check_output("ss -H -lnt sport = :8702").split()[3] == "127.0.0.1:8702"
    for path in ("/etc/deskyard/signing", "/var/lib/deskyard", "/var/log/deskyard"):
        seen = host.run(f"nsenter -t {pid} -m -- setpriv --reuid {user} --clear-groups ls {path}")
        assert seen.rc != 0


def test_certificates_are_renewed_by_our_timer_alone(host: Any) -> None:
    assert host.service("deskyard-renew.timer").is_enabled
    assert host.check_output("systemctl is-enabled certbot.timer || true") == "masked"
    if host.file(SETTINGS).exists:
        answer = json.loads(host.check_output("deskyard-gateway renew"))
        assert "ACME" in answer["reason"]


def test_gateway_without_settings_says_what_to_do(host: Any) -> None:
    if host.file(SETTINGS).exists:
        return
    answer = host.run("deskyard-gateway csr")
    assert answer.rc == 1
    assert "apply" in json.loads(answer.stdout)["error"]["remedy"]


def test_wrong_settings_are_refused_and_change_nothing(host: Any) -> None:
    before = host.file(SETTINGS).exists and host.file(SETTINGS).content_string
    answer = host.run('echo \'{"workspace": "demo"}\' | deskyard-gateway apply')
    assert answer.rc == 1
    assert json.loads(answer.stdout)["error"]["field"] == "settings"
    assert (host.file(SETTINGS).exists and host.file(SETTINGS).content_string) == before


def test_status_is_one_json_document(host: Any) -> None:
    status = json.loads(host.check_output("deskyard-gateway status --timeout 2"))
    assert status["services"]["firewall"] == "active"
    for name, unit in UNITS.items():
        assert status["services"][name] == host.run(f"systemctl is-active {unit}").stdout.strip()
    if not host.file(SETTINGS).exists:
        assert status["ready"] is False
        assert status["desktops"] == {}


def test_status_is_answered_by_a_program_that_stays(host: Any) -> None:
    assert host.service("deskyard-status.socket").is_enabled
    if not host.service("deskyard-status.socket").is_running:
        return
    path = f"/{STATUS_SOCKET}"
    ask = f"echo {shlex.quote(json.dumps(ASKED))} | socat -t120 - UNIX-CONNECT:{path}"
    first = json.loads(host.check_output(ask))["result"]
    by_program = json.loads(host.check_output("deskyard-gateway status"))
    assert (first["services"], first["digest"]) == (by_program["services"], by_program["digest"])
    assert (first["certificate_expires"], set(first["desktops"])) == (
        by_program["certificate_expires"],
        set(by_program["desktops"]),
    )
    pid = host.check_output("systemctl show -p MainPID --value deskyard-status.service")
    assert "result" in json.loads(host.check_output(ask))
    assert host.check_output("systemctl show -p MainPID --value deskyard-status.service") == pid != "0"
    assert host.run(f"setpriv --reuid nobody --clear-groups sh -c {shlex.quote(ask)}").rc != 0


def test_service_is_reached_on_loopback_alone(host: Any, eventually: Callable[[Callable[[], bool], str], None]) -> None:
    if not host.file(SETTINGS).exists:
        return
    ports = "ss -H -lntp sport = :8700"
    eventually(lambda: bool(host.check_output(ports)), "the session service")
    assert {line.split()[3] for line in host.check_output(ports).splitlines()} == {"127.0.0.1:8700"}


def test_ssh_listens_on_the_uplink_alone(host: Any) -> None:
    if not host.file(SETTINGS).exists:
        return
    uplink = json.loads(host.file(SETTINGS).content_string)["uplink_address"]
    assert {line.split()[3] for line in host.check_output("ss -H -lnt sport = :22").splitlines()} == {f"{uplink}:22"}


def test_secrets_are_for_those_who_need_them(host: Any) -> None:
    if not host.file(SETTINGS).exists:
        return
    [key] = host.check_output("ls /etc/deskyard/signing/*.key").split()  # old ones are destroyed when keys rotate
    modes = {
        "/etc/deskyard/tls/key.pem": (0o600, "root"),
        key: (0o640, "deskyard-session"),
        "/var/lib/deskyard/sessions.db": (0o600, "deskyard-session"),
        "/run/deskyard-session/admin.sock": (0o600, "deskyard-session"),
        "/var/log/deskyard": (0o750, "deskyard-session"),
        "/run/deskyard-session": (0o711, "deskyard-session"),
    }
    found = {path: (host.file(path).mode, host.file(path).group) for path in modes}
    assert found == modes
