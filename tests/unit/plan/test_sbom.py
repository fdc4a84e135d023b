"""The bill of materials names what the manifest lists, is valid, and is the same for the same manifest."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deskyard.plan.image.sbom import sbom
from tests.support.json_schema import fault_of_cyclonedx
from tests.unit.plan.manifest import HEAD

TREE = Path(__file__).parents[3]
MANIFEST: dict[str, Any] = {
    **HEAD,
    "packages": {"adduser": "3.152", "libstdc++6": "14.2.0-19", "sudo": "1:1.9.16p2-3+deb13u1"},
    "architectures": {"adduser": "all", "libstdc++6": "amd64", "sudo": "amd64"},
    "licences": {"adduser": ["GPL-2+", "MIT"]},
}
OLD = {key: value for key, value in MANIFEST.items() if key not in ("distribution", "architectures", "licences")}


def parsed(manifest: dict[str, Any]) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(sbom(manifest))
    return value


def components(manifest: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {component["name"]: component for component in parsed(manifest)["components"]}


@pytest.mark.parametrize("manifest", [MANIFEST, OLD, {**MANIFEST, "git_commit": None}], ids=["new", "old", "no commit"])
def test_it_is_valid(manifest: dict[str, Any]) -> None:
    assert fault_of_cyclonedx(sbom(manifest)) is None


def test_the_validator_refuses_what_is_not_valid() -> None:
    text = json.dumps({**parsed(MANIFEST), "serialNumber": "no number"})
    assert fault_of_cyclonedx(text) is not None


def test_every_package_is_a_component_with_its_version_architecture_and_distribution() -> None:
    found = components(MANIFEST)
    assert found.keys() == {"adduser", "libstdc++6", "sudo", "ttyd"}
    assert found["adduser"]["purl"] == "pkg:deb/debian/adduser@3.152?arch=all&distro=debian-13"
    assert found["libstdc++6"]["purl"] == "pkg:deb/debian/libstdc%2B%2B6@14.2.0-19?arch=amd64&distro=debian-13"
    assert found["sudo"]["version"] == "1:1.9.16p2-3+deb13u1"
    assert found["sudo"]["purl"] == "pkg:deb/debian/sudo@1:1.9.16p2-3%2Bdeb13u1?arch=amd64&distro=debian-13"


def test_program_that_no_package_holds_is_a_component_too() -> None:
    assert components(MANIFEST)["ttyd"]["purl"] == "pkg:generic/ttyd@1.7.7"


def test_licences_are_told_where_they_are_known() -> None:
    found = components(MANIFEST)
    assert [licence["license"] for licence in found["adduser"]["licenses"]] == [
        {"acknowledgement": "declared", "id": "MIT"},
        {"acknowledgement": "declared", "name": "GPL-2+"},
    ]
    assert "licenses" not in found["sudo"]


def test_architecture_that_was_not_recorded_is_not_guessed() -> None:
    assert components(OLD)["adduser"]["purl"] == "pkg:deb/debian/adduser@3.152?distro=debian-13"


def test_it_describes_the_disk_of_the_manifest() -> None:
    described = parsed(MANIFEST)["metadata"]
    assert described["timestamp"] == MANIFEST["built_at"]
    assert (described["component"]["name"], described["component"]["version"]) == ("desktop", "0.1.0")
    assert described["component"]["hashes"] == [{"alg": "SHA-256", "content": MANIFEST["sha256"]}]


def test_the_same_manifest_makes_the_same_text_in_every_process() -> None:
    reversed_lists = {**MANIFEST, "packages": dict(reversed(MANIFEST["packages"].items()))}
    assert sbom(reversed_lists) == sbom(MANIFEST)
    program = "import json, sys; from deskyard.plan.image.sbom import sbom; print(sbom(json.load(sys.stdin)), end='')"
    for seed in ("1", "2"):
        other = subprocess.run(
            [sys.executable, "-c", program],
            input=json.dumps(MANIFEST),
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(TREE), "TZ": "Asia/Tokyo"},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert other.stdout == sbom(MANIFEST)


def test_two_disks_have_two_serial_numbers() -> None:
    assert parsed(MANIFEST)["serialNumber"] == parsed(MANIFEST)["serialNumber"]
    assert parsed({**MANIFEST, "sha256": "d" * 64})["serialNumber"] != parsed(MANIFEST)["serialNumber"]
