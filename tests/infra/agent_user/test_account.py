"""The account that works on the desktop."""

from typing import Any

from testinfra.host import Host


def _as_agent(host: Host, defaults: dict[str, Any], command: str) -> str:
    return str(host.check_output("sudo -u %s -i -- sh -c %s", defaults["agent_user_name"], command))


def test_account_is_unprivileged(host: Host, defaults: dict[str, Any]) -> None:
    assert host.user(defaults["agent_user_name"]).uid == defaults["agent_user_uid"]
    assert _as_agent(host, defaults, "id -u") == str(defaults["agent_user_uid"])


def test_account_becomes_root_without_a_password_where_it_may(host: Host, defaults: dict[str, Any]) -> None:
    done = host.run("sudo -u %s -i -- sudo --non-interactive id -u", defaults["agent_user_name"])
    assert (done.stdout.strip() == "0") == (done.rc == 0) == defaults["agent_user_sudo"]


def test_account_has_what_an_agent_works_with(host: Host, defaults: dict[str, Any]) -> None:
    assert _as_agent(host, defaults, "python3 -c 'print(6*7)'") == "42"
    assert _as_agent(host, defaults, "git --version").startswith("git version")
    assert _as_agent(host, defaults, "python3 -m venv --help >/dev/null; echo $?") == "0"


def test_account_cannot_log_in_by_password(host: Host, defaults: dict[str, Any]) -> None:
    assert host.check_output("passwd --status %s", defaults["agent_user_name"]).split()[1] == "L"
