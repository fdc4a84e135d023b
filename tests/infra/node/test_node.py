"""Node and npm: the pinned version, for every user."""

from typing import Any

import pytest
from testinfra.host import Host


@pytest.mark.parametrize("user", ["root", "agent"])
def test_everybody_has_the_pinned_node(host: Host, defaults: dict[str, Any], user: str) -> None:
    assert host.check_output("sudo -u %s -i node --version", user) == f"v{defaults['node_version']}"


def test_node_is_new_enough_for_what_runs_on_it(host: Host, defaults: dict[str, Any]) -> None:
    found, least = (
        tuple(map(int, version.split(".")))
        for version in (host.check_output("node --version").removeprefix("v"), defaults["node_least_version"])
    )
    assert found >= least


def test_npm_and_npx_run_as_the_agent(host: Host) -> None:
    for program in ("npm", "npx"):
        assert host.run("sudo -u agent -i %s --version", program).rc == 0


def test_node_runs_a_program(host: Host) -> None:
    program = "console.log(require('node:crypto').createHash('sha256').update('').digest('hex').slice(0, 8))"
    assert host.check_output("sudo -u agent -i node -e %s", program) == "e3b0c442"


def test_headers_for_native_modules_are_there(host: Host, defaults: dict[str, Any]) -> None:
    assert host.file(f"{defaults['node_folder']}/include/node/node_api.h").is_file


def test_node_belongs_to_root(host: Host, defaults: dict[str, Any]) -> None:
    assert host.check_output("find -H %s ! -user root", defaults["node_folder"]) == ""
