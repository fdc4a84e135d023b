"""Two builds are compared by what their manifests say."""

from typing import Any

import pytest

from deskyard.plan.image.diff import InputChange, diff

PLAIN, OTHER = "0 " + "0" * 64, "0 " + "1" * 64


def manifest(digest: str, **changes: Any) -> dict[str, Any]:
    return {
        "name": "desktop",
        "version": "1.0.0",
        "digest": digest,
        "sha256": digest * 4,
        "size_bytes": 1000,
        "git_commit": "abc",
        "base": {"kind": "bootstrap", "digest": "b" * 16},
        "accelerator": "tcg",
        "tools": {"packer": "1.6.6"},
        "packages": {"sudo": "1.9"},
        "inputs": {"ansible/image.yml": PLAIN},
        **changes,
    }


def test_equal_builds_do_not_differ() -> None:
    found = diff(manifest("a" * 16), manifest("a" * 16))
    assert found.same_disk
    assert not (found.facts or found.tools or found.packages or found.inputs)


def test_packages_are_added_removed_and_changed() -> None:
    before = manifest("a" * 16, packages={"sudo": "1.9", "vim": "9", "bash": "5"})
    after = manifest("b" * 16, packages={"sudo": "2.0", "emacs": "30", "bash": "5"})
    packages = diff(before, after).packages
    assert packages.added == {"emacs": "30"}
    assert packages.removed == {"vim": "9"}
    assert packages.changed == {"sudo": ("1.9", "2.0")}


def test_size_and_disk_are_compared() -> None:
    found = diff(manifest("a" * 16), manifest("b" * 16, size_bytes=3000))
    assert (found.same_disk, found.size_bytes) == (False, (1000, 3000))


@pytest.mark.parametrize(
    ("change", "name", "values"),
    [
        ({"version": "2.0.0"}, "version", ("1.0.0", "2.0.0")),
        ({"name": "gateway"}, "name", ("desktop", "gateway")),
        ({"base": {"kind": "vendor", "digest": "b" * 16}}, "base kind", ("bootstrap", "vendor")),
        ({"accelerator": "kvm"}, "accelerator", ("tcg", "kvm")),
    ],
)
def test_facts_that_differ_are_named(change: dict[str, Any], name: str, values: tuple[str, str]) -> None:
    assert diff(manifest("a" * 16), manifest("b" * 16, **change)).facts.changed == {name: values}


def test_build_outside_a_checkout_has_no_commit_to_compare() -> None:
    assert diff(manifest("a" * 16), manifest("b" * 16, git_commit=None)).facts.removed == {"git_commit": "abc"}


def test_tool_versions_are_compared() -> None:
    found = diff(manifest("a" * 16), manifest("b" * 16, tools={"packer": "1.11.2"}))
    assert found.tools.changed == {"packer": ("1.6.6", "1.11.2")}


def test_inputs_are_compared_with_their_kinds() -> None:
    found = diff(manifest("a" * 16), manifest("b" * 16, inputs={"ansible/image.yml": OTHER, "images/a/b": PLAIN}))
    assert found.inputs == (
        InputChange("changed", "mechanism", "ansible/image.yml"),
        InputChange("added", "declaration", "images/a/b"),
    )


def test_inputs_that_one_build_did_not_record_are_unknown_rather_than_equal() -> None:
    old = manifest("a" * 16)
    del old["inputs"]
    assert diff(old, manifest("b" * 16)).inputs is None
    assert diff(manifest("b" * 16), old).inputs is None
