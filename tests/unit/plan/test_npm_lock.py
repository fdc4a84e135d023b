"""What the viewer is bundled from is what npm's lock names and does not only build with."""

import json
from typing import Any

from deskyard.host.places import tree
from deskyard.plan.image.npm_lock import bundled
from deskyard.plan.image.sbom import sbom

LOCK: dict[str, Any] = {
    "packages": {
        "": {"name": "viewer", "version": "1.0.0"},
        "node_modules/@x/term": {"version": "6.0.0", "license": "MIT", "integrity": "sha512-AAEC"},
        "node_modules/esbuild": {"version": "1.0.0", "dev": True},
        "node_modules/a/node_modules/b": {"version": "2.0.0"},
        "node_modules/b": {"version": "1.0.0"},
        "node_modules/linked": {"link": True},
    }
}


def test_what_only_builds_is_left_out_and_versions_are_kept_apart() -> None:
    assert bundled(LOCK) == {
        "@x/term@6.0.0": {"name": "@x/term", "version": "6.0.0", "license": "MIT", "integrity": "sha512-AAEC"},
        "b@1.0.0": {"name": "b", "version": "1.0.0"},
        "b@2.0.0": {"name": "b", "version": "2.0.0"},
    }


def test_viewer_of_the_tree_carries_what_its_package_file_asks_for() -> None:
    viewer = tree() / "viewer"
    asked = json.loads((viewer / "package.json").read_text())["dependencies"]
    found = {
        package["name"]: package["version"]
        for package in bundled(json.loads((viewer / "package-lock.json").read_text())).values()
    }
    assert asked.items() <= found.items()
    assert "esbuild" not in found


def test_they_are_in_the_bill_of_materials() -> None:
    manifest = {
        "name": "gateway",
        "version": "0.1.0",
        "digest": "a" * 16,
        "sha256": "b" * 64,
        "built_at": "2026-11-20T10:00:00+00:00",
        "git_commit": None,
        "packages": {},
        "npm": bundled(LOCK),
    }
    found = {component["purl"]: component for component in json.loads(sbom(manifest))["components"]}
    assert found.keys() == {"pkg:npm/%40x/term@6.0.0", "pkg:npm/b@1.0.0", "pkg:npm/b@2.0.0"}
    scoped = found["pkg:npm/%40x/term@6.0.0"]
    assert (scoped["group"], scoped["name"], scoped["licenses"][0]["license"]["id"]) == ("@x", "term", "MIT")
    assert scoped["hashes"] == [{"alg": "SHA-512", "content": "000102"}]
