"""What an image is made from, and the digest that stands for it."""

import hashlib
import json
from pathlib import Path

import pytest
import yaml

from deskyard.errors import ConfigError
from deskyard.model.image import Image
from deskyard.plan.image.image import base_image, base_kinds, bootstrap_packages, image_names, read_image, role_packages
from deskyard.plan.image.inputs import COMMON, LOCK, MECHANISM, digest_of, input_files, input_kind
from deskyard.plan.image.lineage import read_lineage
from deskyard.plan.image.suites import suite_folders
from deskyard.plan.image.variables import BROWSERS

DECLARATION = {
    "name": "small",
    "version": "1.0.0",
    "description": "A small image.",
    "disk_gib": 4,
    "base": {
        "vendor": {"url": "https://example.org/20260914/disk.qcow2", "sha512": "0" * 128},
        "bootstrap": {"suite": "trixie", "mirror": "http://example.org/debian", "packages": ["linux", "sudo"]},
    },
    "roles": ["guest_base", "screen", "image_hygiene"],
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small checkout: one image, three roles, the mechanism."""
    write(tmp_path / "images/small/image.yaml", yaml.safe_dump(DECLARATION))
    for role in ("guest_base", "screen", "image_hygiene", "other"):
        write(tmp_path / f"ansible/roles/{role}/tasks/main.yml", "[]")
    write(tmp_path / "ansible/roles/screen/defaults/main.yml", "screen_packages: [vnc, sudo]\nscreen_port: 1\n")
    write(tmp_path / "ansible/roles/other/defaults/main.yml", "other_packages: [big]\n")
    for path in (*COMMON, *MECHANISM.values()):
        write(tmp_path / path if "." in path else tmp_path / path / "build.hcl", path)
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def small_digest(tree: Path) -> str:
    return read_lineage(tree, "small").digest("bootstrap")


def test_same_sources_have_the_same_digest(tree: Path) -> None:
    assert small_digest(tree) == small_digest(tree)


@pytest.mark.parametrize(
    "path",
    [
        "images/small/note.txt",
        "ansible/roles/screen/defaults/main.yml",
        "ansible/roles/screen/files/deep/down.txt",
        "ansible/roles/screen/files/README.md",
        "ansible/image.yml",
        "packer/build.hcl",
        "deskyard/host/vm/boot_sector.py",
        "deskyard/image/build/first_boot.py",
        "deskyard/image/build/variables.py",
    ],
)
def test_digest_follows_every_input(tree: Path, path: str) -> None:
    before = small_digest(tree)
    write(tree / path, "screen_packages: [vnc, sudo, more]\n")
    assert small_digest(tree) != before


def test_digest_follows_the_pinned_ansible_and_no_other_package(tree: Path) -> None:
    found = []
    for lock in (
        "",
        "ansible-core==2.19.1 \\\n",
        "ansible-core==2.19.2 \\\n",
        "ansible-core==2.19.2 \\\nnumpy==2 \\\n",
    ):
        write(tree / LOCK, lock)
        found.append(small_digest(tree))
    assert len(set(found)) == 3 and found[2] == found[3]


def test_digest_follows_a_variable_that_is_worked_out_from_another(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {name: {"type": "str"} for name in ("screen_browser", "browser_kind")}
    specs = {"argument_specs": {"main": {"options": options}}}
    write(tree / "ansible/roles/screen/meta/argument_specs.yml", yaml.safe_dump(specs))
    write(tree / "images/small/image.yaml", yaml.safe_dump(DECLARATION | {"variables": {"browser_kind": "chrome"}}))
    before = small_digest(tree)
    monkeypatch.setitem(BROWSERS, "chromium", "/opt/chromium")
    assert small_digest(tree) == before, "of another browser"
    monkeypatch.setitem(BROWSERS, "chrome", "/opt/chrome")
    assert small_digest(tree) != before


def test_code_of_the_mechanism_may_move_and_no_digest_changes(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = tree / MECHANISM["bootstrap"], tree / "deskyard/elsewhere/bootstrap.py"
    write(
        old, "import os\n\nfrom deskyard.run.places import tree\nfrom deskyard.run.command import run\n\nrun(tree())\n"
    )
    before = small_digest(tree)
    write(new, "import os\n\nfrom deskyard.host.process import (\n    run,\n    tree,\n)\n\nrun(tree())\n")
    old.unlink()
    monkeypatch.setitem(MECHANISM, "bootstrap", "deskyard/elsewhere/bootstrap.py")
    assert small_digest(tree) == before
    for changed in ("run(tree(), 1)", "exit()"):
        write(new, f"import os\n\nfrom deskyard.host.process import run, tree\n\n{changed}\n")
        assert small_digest(tree) != before
    write(new, "import os\n\nfrom deskyard.host.process import start as run, tree\n\nrun(tree())\n")
    assert small_digest(tree) != before


@pytest.mark.parametrize(
    "path",
    [
        "ansible/roles/other/defaults/main.yml",
        "ansible/roles/screen/__pycache__/x.pyc",
        "ansible/roles/screen/README.md",
    ],
)
def test_digest_ignores_what_the_image_does_not_use(tree: Path, path: str) -> None:
    before = small_digest(tree)
    write(tree / path, "changed: true")
    assert small_digest(tree) == before


def test_digest_differs_between_kinds_of_base(tree: Path) -> None:
    found = read_lineage(tree, "small")
    assert found.digest("vendor") != found.digest("bootstrap")


def test_renaming_a_file_changes_the_digest(tree: Path) -> None:
    write(tree / "images/small/a.txt", "same")
    before = small_digest(tree)
    (tree / "images/small/a.txt").rename(tree / "images/small/b.txt")
    assert small_digest(tree) != before


def test_digest_follows_from_the_recorded_inputs_alone(tree: Path) -> None:
    recorded = json.loads(json.dumps(read_lineage(tree, "small").inputs))
    assert digest_of("small", "bootstrap", recorded) == small_digest(tree)
    assert digest_of("other", "bootstrap", recorded) != small_digest(tree)


def test_digest_of_the_same_sources_stays_the_same_for_ever(tree: Path) -> None:
    """Another way to make it would rebuild every image, and leave published templates without their builds."""
    assert digest_of("small", "bootstrap", {"a": f"0 {'0' * 64}", "b": f"111 {'1' * 64}"}) == "1a862d66ad05b8a2"


def test_fingerprint_tells_content_from_permission(tree: Path) -> None:
    script = tree / "images/small/run.sh"
    write(script, "#!/bin/sh\n")
    script.chmod(0o644)
    plain = read_lineage(tree, "small").inputs["images/small/run.sh"]
    script.chmod(0o755)
    runnable = read_lineage(tree, "small").inputs["images/small/run.sh"]
    checksum = hashlib.sha256(b"#!/bin/sh\n").hexdigest()
    assert (plain, runnable) == (f"0 {checksum}", f"111 {checksum}")


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("images/small/image.yaml", "declaration"),
        ("ansible/roles/screen/tasks/main.yml", "role screen"),
        ("ansible/image.yml", "mechanism"),
        ("packer/base/prepare.sh", "mechanism"),
        ("packer-like/file", "source"),
        ("deskyard/gateway/service.py", "source"),
        ("mechanism/bootstrap", "mechanism"),
        ("tool/ansible-core", "mechanism"),
    ],
)
def test_input_is_told_by_its_kind(path: str, kind: str) -> None:
    assert input_kind(path) == kind


def test_declared_sources_are_inputs(tree: Path) -> None:
    write(tree / "viewer/src/page.ts", "1")
    write(tree / "viewer/node_modules/package/index.js", "1")
    write(tree / "images/small/image.yaml", yaml.safe_dump({**DECLARATION, "sources": ["viewer"]}))
    names = [str(path.relative_to(tree)) for path in input_files(read_image(tree, "small"), tree)]
    assert "viewer/src/page.ts" in names
    assert not [name for name in names if "node_modules" in name]


def test_packages_are_those_of_the_used_roles_and_of_the_base(tree: Path) -> None:
    image = base_image(tree, "small")
    assert role_packages(image, tree) == ("sudo", "vnc")
    assert bootstrap_packages(image, tree) == ("linux", "sudo", "vnc")


def test_auto_prefers_the_vendor() -> None:
    assert base_kinds("auto") == ("vendor", "bootstrap")
    assert base_kinds("bootstrap") == ("bootstrap",)


def test_unknown_image_is_refused_with_the_known_names(tree: Path) -> None:
    assert image_names(tree) == ["small"]
    with pytest.raises(ConfigError) as caught:
        read_image(tree, "large")
    assert "small" in caught.value.remedy


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "other"}, "name"),
        ({"roles": ["guest_base", "absent", "image_hygiene"]}, "roles"),
        ({"roles": ["image_hygiene", "guest_base"]}, "image.yaml: declaration"),
        ({"roles": ["guest_base", "guest_base", "image_hygiene"]}, "image.yaml: declaration"),
        ({"sources": ["absent"]}, "sources"),
        ({"colour": "red"}, "image.yaml: colour"),
    ],
    ids=["wrong name", "absent role", "hygiene not last", "role twice", "absent source", "unknown key"],
)
def test_wrong_declaration_is_refused(tree: Path, change: dict[str, object], field: str) -> None:
    write(tree / "images/small/image.yaml", yaml.safe_dump({**DECLARATION, **change}))
    with pytest.raises(ConfigError) as caught:
        read_image(tree, "small")
    assert caught.value.field == field


def test_vendor_image_has_to_be_pinned() -> None:
    base = {**DECLARATION["base"]}  # type: ignore[dict-item]
    base["vendor"] = {"url": "https://example.org/latest/disk.qcow2", "sha512": "0" * 128}
    with pytest.raises(ConfigError, match="pinned"):
        Image.check({**DECLARATION, "base": base}, "image.yaml")


def test_role_without_tests_is_refused(tree: Path) -> None:
    image = read_image(tree, "small")
    for role in image.roles[:-1]:
        write(tree / f"tests/infra/{role}/test_it.py", "")
    with pytest.raises(ConfigError, match="image_hygiene"):
        suite_folders(image, tree)
    write(tree / "tests/infra/image_hygiene/test_it.py", "")
    assert [folder.name for folder in suite_folders(image, tree)] == list(image.roles)


@pytest.mark.parametrize("name", image_names(Path(__file__).parents[3]))
def test_committed_images_are_sound(name: str) -> None:
    root = Path(__file__).parents[3]
    image = base_image(root, name)
    first = (root / "images" / name / "image.yaml").read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=../../schemas/image.schema.json"
    assert image.roles
