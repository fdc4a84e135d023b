"""The half of the role that asks the API, against a fake cluster: firewall, account, token, storages."""

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from deskyard.model.site import Site
from deskyard.site.proxmox.doctor.privileges import missing, plain, surplus
from tests.hypervisor.lab import ROLE
from tests.support.pve import Peer
from tests.unit.site.stub import site_values

# In place of the node's own program, which asks the same API as root.
PVESH = """#!{python}
import json, os, ssl, sys, urllib.parse, urllib.request
verb, path, *rest = sys.argv[1:]
options = {{name[2:]: value for name, value in zip(rest[::2], rest[1::2])}}
options.pop("output-format", None)
method = {{"get": "GET", "create": "POST", "set": "PUT", "delete": "DELETE"}}[verb]
data = urllib.parse.urlencode(options).encode() if options else None
asked = urllib.request.Request(os.environ["PVE_API"] + "/api2/json" + path, data, method=method)
asked.add_header("Cookie", "PVEAuthCookie=" + os.environ["PVE_TICKET"])
asked.add_header("CSRFPreventionToken", os.environ["PVE_CSRF"])
opener = urllib.request.build_opener(
    urllib.request.ProxyHandler({{}}),
    urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=os.environ["PVE_CA"])),
)
try:
    print(json.dumps(json.loads(opener.open(asked, timeout=60).read())["data"]))
except urllib.error.HTTPError as error:
    sys.exit(error.read().decode() or str(error))
"""
RECORDING = '#!/bin/sh\necho "$0 $*" >>{log}\n'
ROLES: list[dict[str, Any]] = [
    {"name": "DeskyardRead", "path": "/", "privileges": ["Sys.Audit"]},
    {"name": "DeskyardMachines", "path": "/pool", "privileges": ["Pool.Audit", "VM.Audit"], "propagate": False},
]
USER, TOKEN = "deskyard@pve", "deskyard"


@dataclass
class Node:
    """One node: its API, what the role was told, and how a part of the role is run on it."""

    peer: Peer
    folder: Path

    @property
    def secret(self) -> Path:
        return self.folder / "token"

    def run(self, part: str, *options: str, **variables: Any) -> subprocess.CompletedProcess[str]:
        """Run one file of the role's tasks; every variable that it needs has its default."""
        given = {
            "hypervisor_kind": "proxmox",
            "hypervisor_confirm_seconds": 0,
            "hypervisor_management_networks": ["192.0.2.0/24"],
            "hypervisor_gateway_networks": ["198.51.100.16/28"],
            "hypervisor_api_roles": ROLES,
            "hypervisor_api_token_file": str(self.secret),
            "hypervisor_storages": {"local": ["import", "snippets"]},
            **variables,
        }
        task = {"name": "Run it", "ansible.builtin.include_role": {"name": "hypervisor", "tasks_from": part}}
        play = {"name": "A part of the role", "hosts": "all", "gather_facts": False, "vars": given, "tasks": [task]}
        playbook = self.folder / "play.yml"
        playbook.write_text(json.dumps([play]))
        ticket, csrf = self.peer.fake.issue_ticket("root@pam")
        environment = {
            **os.environ,
            "PATH": f"{self.folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PVE_API": self.peer.endpoint,
            "PVE_CA": str(self.peer.certificates.authority),
            "PVE_TICKET": ticket,
            "PVE_CSRF": csrf,
            "ANSIBLE_ROLES_PATH": str(ROLE.parent),
            "ANSIBLE_HOME": str(self.folder / "ansible"),
            "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
            "ANSIBLE_LOCALHOST_WARNING": "false",
            "NO_COLOR": "1",
        }
        argv = ["ansible-playbook", "-i", "localhost,", "-c", "local", str(playbook), *options]
        return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=600, check=False)

    def written(self) -> list[tuple[str, str]]:
        """What was changed at the API, in its order."""
        return [(call.method, call.path) for call in self.peer.fake.calls if call.writes]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "pvesh").write_text(PVESH.format(python=sys.executable))
    (programs / "pve-firewall").write_text(RECORDING.format(log=tmp_path / "log"))
    for program in programs.iterdir():
        program.chmod(0o755)
    with Peer(tmp_path) as peer:
        yield Node(peer, tmp_path)


def passed(done: subprocess.CompletedProcess[str]) -> int:
    """How many tasks changed something, of a run that succeeded."""
    assert done.returncode == 0, done.stdout + done.stderr
    return int(re.findall(r"changed=(\d+)", done.stdout)[-1])


def test_administrators_are_let_in_before_the_firewall_is_switched_on(node: Node) -> None:
    assert passed(node.run("cluster_firewall.yml")) > 0
    written = node.written()
    assert written[-1] == ("PUT", "/cluster/firewall/options")
    assert ("POST", "/cluster/firewall/ipset/management") in written[:-1]
    assert (node.folder / "log").read_text().endswith("pve-firewall restart\n")
    root = node.peer.client()
    options = root.ask("GET", "/cluster/firewall/options")
    assert (int(options["enable"]), options.get("policy_in", "DROP")) == (1, "DROP")
    assert {entry["cidr"] for entry in root.ask("GET", "/cluster/firewall/ipset/management")} == {"192.0.2.0/24"}
    (rule,) = root.ask("GET", "/cluster/firewall/rules")
    assert (rule["type"], rule["action"], rule["source"]) == ("in", "DROP", "+deskyard-gateways")


def test_second_run_changes_nothing_and_keeps_what_others_wrote(node: Node) -> None:
    root = node.peer.client()
    root.ask("POST", "/cluster/firewall/rules", type="in", action="ACCEPT", source="203.0.113.5", enable=1)
    passed(node.run("cluster_firewall.yml"))
    passed(node.run("account.yml"))
    before, secret = node.written(), node.secret.read_text()
    assert passed(node.run("cluster_firewall.yml")) + passed(node.run("account.yml")) == 0
    assert (node.written(), node.secret.read_text()) == (before, secret)
    assert "203.0.113.5" in {rule["source"] for rule in root.ask("GET", "/cluster/firewall/rules")}


def test_check_mode_changes_nothing(node: Node) -> None:
    for part in ("cluster_firewall.yml", "account.yml"):
        passed(node.run(part, "--check"))
    assert node.written() == []
    assert not node.secret.exists()


def test_token_may_what_its_roles_say_and_its_secret_is_in_one_place(node: Node) -> None:
    done = node.run("account.yml", "-vvv", "--diff")
    passed(done)
    name, _, secret = node.secret.read_text().strip().partition("=")
    assert name == f"{USER}!{TOKEN}"
    assert stat.S_IMODE(node.secret.stat().st_mode) == 0o600
    assert secret not in done.stdout + done.stderr
    client = node.peer.client(f"{name}={secret}")
    held = {path: client.ask("GET", "/access/permissions", path=path)[path] for path in ("/", "/pool")}
    assert {path: set(names) for path, names in held.items()} == {
        role["path"]: set(role["privileges"]) for role in ROLES
    }


def test_what_site_roles_prints_gives_the_token_exactly_what_it_needs(node: Node) -> None:
    cluster, version = Site.check(site_values(node.peer.endpoint), "site.yaml").cluster, (9, 0)
    printed = json.dumps(plain(cluster, version), indent=2)
    # As docs/hosts.md puts it into the file of variables.
    passed(node.run("account.yml", hypervisor_storages={}, **yaml.safe_load(f"hypervisor_api_roles: {printed}")))
    held = node.peer.client(node.secret.read_text().strip()).ask("GET", "/access/permissions")
    assert (missing(cluster, version, held), surplus(cluster, version, held)) == ([], [])


def test_no_privilege_is_written_down_a_second_time() -> None:
    cluster = Site.check(site_values("https://192.0.2.2:8006", operator_group="staff"), "site.yaml").cluster
    names = {name for role in plain(cluster, (9, 0)) for name in role["privileges"]}
    written = [path.read_text() for path in ROLE.rglob("*") if path.is_file()]
    written.append((ROLE.parents[2] / "docs" / "hosts.md").read_text())
    assert len(names) > 20
    assert [name for name in sorted(names) if any(name in text for text in written)] == []


def test_role_that_may_too_much_is_cut_back(node: Node) -> None:
    node.peer.client().ask("POST", "/access/roles", roleid="DeskyardRead", privs="Sys.Audit,Sys.Modify")
    passed(node.run("account.yml"))
    assert set(node.peer.client().ask("GET", "/access/roles/DeskyardRead")) == {"Sys.Audit"}


def test_without_a_place_for_the_secret_no_token_is_made(node: Node) -> None:
    done = node.run("account.yml", hypervisor_api_token_file=str(node.folder / "absent" / "token"))
    assert done.returncode != 0
    assert not any("/token/" in path for _, path in node.written())


def test_storages_get_what_is_missing_and_keep_the_rest(node: Node) -> None:
    before = set(node.peer.fake.storages["local"]["content"].split(","))
    passed(node.run("account.yml", hypervisor_api_roles=[]))
    assert set(node.peer.fake.storages["local"]["content"].split(",")) == before | {"import", "snippets"}
    assert not any(path.startswith("/access") for _, path in node.written())
