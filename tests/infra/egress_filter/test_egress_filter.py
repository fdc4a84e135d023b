"""The way out of a locked workspace: a process of its own, on the workspace side alone, with nothing but names."""

import json
from collections.abc import Callable
from typing import Any

SETTINGS = "/etc/deskyard/settings.json"
CONFIGURATION = "/etc/deskyard/egress.cfg"
QUEUED = 512


def settings(host: Any) -> dict[str, Any] | None:
    file = host.file(SETTINGS)
    found: dict[str, Any] | None = json.loads(file.content_string) if file.exists else None
    return found


def locked(host: Any) -> bool:
    found = settings(host)
    return found is not None and found["egress"] == "locked"


def test_router_is_enabled_and_runs_only_in_a_locked_workspace(host: Any) -> None:
    service = host.service("deskyard-egress.service")
    assert service.is_enabled
    assert service.is_running == locked(host)


def test_refusals_are_watched_for_always(host: Any) -> None:
    service = host.service("deskyard-egress-watch.service")
    assert service.is_enabled
    assert service.is_running


def test_what_holds_connections_runs_without_a_network_and_for_the_router_alone(
    host: Any, defaults: dict[str, Any]
) -> None:
    service = host.service("deskyard-ask.service")
    assert service.is_enabled
    assert service.is_running
    folder = host.file("/run/deskyard-egress-watch/ask")
    owner = (defaults["egress_filter_ask_user"], defaults["egress_filter_user"])
    assert (folder.user, folder.group, folder.mode) == (*owner, 0o2750)
    held = host.file(f"{folder.path}/hold.sock")
    assert (held.group, held.mode) == (owner[1], 0o660)
    assert host.file("/run/deskyard-ask").mode == 0o700
    pid = host.check_output("systemctl show --value --property MainPID deskyard-ask.service")
    assert host.check_output(f"readlink /proc/{pid}/ns/net") != host.check_output("readlink /proc/1/ns/net")
    assert host.check_output(f"cat /proc/{pid}/net/dev | tail -n +3 | cut -d: -f1").split() == ["lo"]


def test_accounts_cannot_log_in(host: Any, defaults: dict[str, Any]) -> None:
    for name in (defaults["egress_filter_user"], defaults["egress_filter_ask_user"]):
        user = host.user(name)
        assert user.shell == "/usr/sbin/nologin"
        assert user.uid < 1000


def test_packages_of_the_role_are_installed(host: Any, defaults: dict[str, Any]) -> None:
    assert all(host.package(name).is_installed for name in defaults["egress_filter_packages"])


def test_configuration_is_good_and_is_not_the_doors(host: Any) -> None:
    if not locked(host):
        return
    host.run_test(f"haproxy -c -f {CONFIGURATION}")
    door = host.file("/etc/deskyard/haproxy.cfg").content_string
    assert "do-resolve" not in door
    assert "jwt" not in host.file(CONFIGURATION).content_string


def test_worker_has_its_own_account_and_sees_an_empty_folder(
    host: Any, defaults: dict[str, Any], eventually: Callable[[Callable[[], bool], str], None]
) -> None:
    if not locked(host):
        return
    user = defaults["egress_filter_user"]
    eventually(lambda: host.run(f"pgrep -u {user} haproxy").rc == 0, "the router's worker")
    pid = host.check_output(f"pgrep -n -u {user} haproxy")
    assert host.check_output(f"readlink /proc/{pid}/root") == "/run/deskyard-egress-watch"
    assert host.check_output("ls -A /run/deskyard-egress-watch").split() == ["ask", "events.sock"]
    assert host.check_output(f"ps -o group= -p {pid}").strip()[:8] == user[:8]


def test_the_watcher_may_be_behind_by_hundreds_of_lines_before_lines_are_lost(host: Any) -> None:
    # systemd raises it early in the boot; with the kernel's own ten the router's lines would be lost.
    assert host.sysctl("net.unix.max_dgram_qlen") >= QUEUED


def test_router_listens_on_the_workspace_side_alone(host: Any, defaults: dict[str, Any]) -> None:
    found = settings(host)
    if found is None or found["egress"] != "locked":
        return
    rules = found["egress_rules"]
    addresses = [found["workspace_address"], *(forward["address"] for forward in rules["forwards"])]
    web = {f"{address}:{port}" for address in addresses for port in (80, 443)}
    own = {f"{forward['address']}:{port}" for forward in rules["forwards"] for port in forward["ports"]}
    pids = host.check_output(f"pgrep -u {defaults['egress_filter_user']} haproxy").split()
    lines = host.check_output("ss -H -lntp").splitlines()
    assert {line.split()[3] for line in lines if any(f"pid={pid}," in line for pid in pids)} == web | own


def test_a_name_that_is_not_on_the_list_is_refused_and_told(
    host: Any, eventually: Callable[[Callable[[], bool], str], None]
) -> None:
    found = settings(host)
    if found is None or found["egress"] != "locked":
        return
    # From the gateway itself: what counts is that the router refuses, not who asked.
    request = "GET / HTTP/1.1\\r\\nHost: not-on-the-list.invalid\\r\\n\\r\\n"
    script = (
        f"import socket; l = socket.create_connection(('{found['workspace_address']}', 80), 10); "
        f"l.sendall(b'{request}'); print(l.recv(4096).decode())"
    )
    answer = host.check_output(f'python3 -c "{script}"')
    assert answer.startswith("HTTP/1.1 403")
    assert f"egress.allow {found['workspace']} not-on-the-list.invalid" in answer
    eventually(lambda: "not-on-the-list.invalid" in host.run("deskyard-gateway denied --json").stdout, "the event")


def test_record_of_refusals_is_for_root(host: Any) -> None:
    folder = host.file("/var/log/deskyard-egress")
    assert (folder.user, folder.mode) == ("root", 0o750)
    assert host.file("/var/lib/deskyard-egress").mode == 0o700
