"""What roles of the catalogue refuse, on a host."""

import pytest
import yaml

from deskyard.host.places import tree
from tests.catalogue.workbench import Workbench

pytestmark = pytest.mark.deep


def test_node_of_another_content_is_refused(bench: Workbench) -> None:
    wrong = "sha512:" + "0" * 128
    packages = yaml.safe_load((tree() / "ansible/roles/node/defaults/main.yml").read_text())["node_npm_packages"]
    packages["npm"]["checksum"] = wrong
    variables = {"node_version": "24.99.0", "node_source": "npm", "node_npm_packages": packages}
    refused = bench.try_to_apply(["node"], variables)
    assert refused.code != 0
    assert "did not match" in refused.stdout
    assert bench.do("readlink /opt/node", check=False).stdout.strip() != "/opt/node-24.99.0"


def test_node_that_is_too_old_is_refused(bench: Workbench) -> None:
    refused = bench.try_to_apply(["node"], {"node_version": "20.19.0"})
    assert refused.code != 0
    assert "older than 24.16.0" in refused.stdout


def test_openclaw_that_is_too_old_is_refused(bench: Workbench) -> None:
    bench.apply(["node"])
    refused = bench.try_to_apply(["agent_openclaw"], {"agent_openclaw_least_version": "2099.1.1"})
    assert refused.code != 0
    assert "is older than 2099.1.1" in refused.stdout


def test_vscode_with_another_key_is_refused_before_its_repository_is_trusted(bench: Workbench) -> None:
    bench.do("echo another key >/root/vendor.asc")
    variables = {"editor_kind": "vscode", "editor_vscode_key_url": "file:///root/vendor.asc"}
    refused = bench.try_to_apply(["editor"], variables)
    assert refused.code != 0
    assert "did not match" in refused.stdout
    assert bench.do("ls /etc/apt/sources.list.d/vscode.sources", check=False).code != 0


def test_vscode_is_taken_from_its_vendors_repository_alone(bench: Workbench) -> None:
    # As far as rendering: neither the repository nor its package is needed to pass.
    bench.do("echo a key of a test >/root/vendor.asc")
    checksum = bench.do("sha256sum /root/vendor.asc").stdout.split()[0]
    variables = {
        "editor_kind": "vscode",
        "editor_vscode_key_url": "file:///root/vendor.asc",
        "editor_vscode_key_sha256": checksum,
        "editor_vscode_repository": "http://127.0.0.1:9/repos/code",
    }
    try:
        bench.try_to_apply(["editor"], variables)
        source = bench.do("cat /etc/apt/sources.list.d/vscode.sources").stdout
        assert "URIs: http://127.0.0.1:9/repos/code\n" in source
        assert "Signed-By: /etc/apt/keyrings/editor-vscode.asc\n" in source
    finally:
        bench.do("rm -f /etc/apt/sources.list.d/vscode.sources /etc/apt/keyrings/editor-vscode.asc")
