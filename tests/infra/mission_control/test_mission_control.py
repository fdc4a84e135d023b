"""Mission Control's machine: nothing on it is another machine's, and `control.up` makes what is its own."""

import json
from typing import Any

import pytest
from testinfra.host import Host

UNIT = "deskyard-control.service"
# A machine that is emulated, on a host that is busy, may need longer than control.up waits: what was made is made.
UP = "for time in 1 2 3; do deskyard control.up --json && exit; done; exit 1"
COMES_UP = "timeout 1500 sh -c 'until deskyard control.status --json >/dev/null; do sleep 5; done'"
# Keys of libraries' own examples are everybody's anyway.
PRIVATE_KEYS = (
    "grep -rlE --exclude-dir=proc --exclude-dir=site-packages -e '^-----BEGIN [A-Z ]*PRIVATE KEY-----' "
    "/etc /home /opt /root /srv /var || true"
)


@pytest.fixture(scope="module")
def folder(defaults: dict[str, Any]) -> str:
    return str(defaults["mission_control_folder"])


@pytest.fixture(scope="module")
def python(defaults: dict[str, Any]) -> str:
    return f"{defaults['mission_control_tree']}/.venv/bin/python"


class TestBeforeControlUp:
    """As the machine is made."""

    def test_no_database_no_declaration_and_no_state_came_with_it(self, host: Host, folder: str) -> None:
        assert host.check_output(f"ls -A {folder}/control") == "pages"
        assert host.check_output(f"ls -A {folder}/cache {folder}/data {folder}/stacks {folder}/state").split() == [
            f"{folder}/{name}:" for name in ("cache", "data", "stacks", "state")
        ]
        assert host.check_output("pg_lsclusters --no-header") == ""

    def test_no_private_key_came_with_it(self, host: Host) -> None:
        found = host.check_output(PRIVATE_KEYS).splitlines()
        assert [path for path in found if not path.startswith("/etc/ssh/ssh_host_")] == []

    def test_packages_proxy_does_not_run(self, host: Host, defaults: dict[str, Any]) -> None:
        assert [name for name in defaults["mission_control_packages"] if not host.package(name).is_installed] == []
        assert host.run("systemctl is-enabled haproxy.service").stdout.strip() == "masked"
        assert not host.service("haproxy").is_running

    def test_unit_waits_for_control_up(self, host: Host) -> None:
        host.check_output(f"systemd-analyze verify --man=no {UNIT}")
        assert host.service(UNIT).is_enabled
        host.check_output(f"systemctl start {UNIT}")
        assert host.check_output(f"systemctl show --property=ConditionResult,MainPID {UNIT}").split() == [
            "MainPID=0",
            "ConditionResult=no",
        ]

    def test_nobody_but_root_lists_what_is_the_machines_own(self, host: Host, folder: str) -> None:
        modes = {name: host.file(f"{folder}/{name}").mode for name in ("cache", "data", "stacks", "state", "control")}
        assert modes == {"cache": 0o700, "data": 0o700, "stacks": 0o700, "state": 0o700, "control": 0o711}
        assert host.file("/etc/deskyard/environment").mode == 0o600

    def test_no_test_is_part_of_it(self, host: Host, defaults: dict[str, Any], python: str) -> None:
        assert not host.file(f"{defaults['mission_control_tree']}/tests").exists
        assert host.run(f"{python} -c 'import pytest'").rc != 0
        assert host.run(f"{python} -c 'import fakepve'").rc != 0


def test_control_up_brings_it_up_as_its_unit(host: Host, folder: str) -> None:
    assert "/enrol#" in json.loads(host.check_output(UP))["link"]
    state = json.loads(host.check_output("deskyard control.status --json"))
    assert state["ready"] and state["folder"] == f"{folder}/control"
    assert set(state["processes"].values()) == {True}
    assert host.service(UNIT).is_running
    accounts = set(host.check_output("ps -eo user:32=").split())
    assert {"root", "postgres", "haproxy", "deskyard-web", "deskyard-recorder"} <= accounts


def test_its_api_answers_by_the_sites_authority_alone(host: Host) -> None:
    state = json.loads(host.check_output("deskyard control.status --json"))
    where = f"--resolve {state['url'].removeprefix('https://')}:127.0.0.1"
    ask = f"curl --silent --show-error --max-time 60 {where} {state['url']}/healthz"
    assert host.run(f"{ask} --cacert {state['certificate_authority']} --fail").rc == 0
    assert host.run(ask).rc == 60


def test_it_comes_up_again_with_the_machine(host: Host) -> None:
    host.check_output("deskyard control.down")
    assert not host.service(UNIT).is_running
    # As the machine's start does.
    host.check_output(f"systemctl start {UNIT}")
    host.check_output(COMES_UP)
