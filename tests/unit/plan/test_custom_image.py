"""An image that starts from another: what it stands for, what it copies, and what is refused."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from deskyard.errors import ConfigError
from deskyard.model.image import CustomImage
from deskyard.plan.image.image import ancestry, base_image, disk_gib, read_image
from deskyard.plan.image.inputs import COMMON, CUSTOM_COMMON, CUSTOM_MECHANISM, MECHANISM, input_kind
from deskyard.plan.image.layer import layer_files
from deskyard.plan.image.lineage import read_lineage
from deskyard.plan.image.suites import suite_folders

BASE: dict[str, Any] = {
    "name": "small",
    "version": "1.0.0",
    "description": "A small image.",
    "disk_gib": 4,
    "base": {
        "vendor": {"url": "https://example.org/20260914/disk.qcow2", "sha512": "0" * 128},
        "bootstrap": {"suite": "trixie", "mirror": "http://example.org/debian", "packages": ["linux"]},
    },
    "roles": ["guest_base", "image_hygiene"],
}
MINE: dict[str, Any] = {
    "name": "mine",
    "version": "1.0.0",
    "description": "Mine.",
    "from": "small",
    "packages": ["jq"],
    "files": "files",
    "roles": ["screen", "own"],
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small checkout: an image, a gateway, an image that starts from the first with all it may have."""
    declare(tmp_path, **BASE)
    declare(tmp_path, **{**BASE, "name": "door", "bundle": "gateway"})
    declare(tmp_path, **MINE)
    for role in ("guest_base", "image_hygiene", "screen", "image_layer"):
        write(tmp_path / f"ansible/roles/{role}/tasks/main.yml", "[]")
        write(tmp_path / f"tests/infra/{role}/test_it.py", "")
    write(tmp_path / "images/mine/roles/own/tasks/main.yml", "[]")
    write(tmp_path / "images/mine/files/etc/hello", "hello\n")
    write(tmp_path / "images/mine/tests/test_mine.py", "")
    for path in (*COMMON, *CUSTOM_COMMON, *MECHANISM.values(), *CUSTOM_MECHANISM.values()):
        if not (tmp_path / path).exists():
            write(tmp_path / path if "." in path else tmp_path / path / "build.hcl", path)
    return tmp_path


def declare(tree: Path, **values: Any) -> None:
    write(tree / f"images/{values['name']}/image.yaml", yaml.safe_dump(values))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def digest_of(tree: Path, name: str) -> str:
    return read_lineage(tree, name).digest("bootstrap")


@pytest.mark.parametrize(
    "path",
    [
        "images/mine/image.yaml",
        "images/mine/note.txt",
        "images/mine/files/etc/hello",
        "images/mine/files/dist/__pycache__/x",
        "images/mine/roles/own/defaults/main.yml",
        "ansible/roles/screen/tasks/main.yml",
        "ansible/roles/image_layer/tasks/main.yml",
        "deskyard/image/build/layer.py",
        "deskyard/image/build/npm_packages.py",
    ],
)
def test_own_input_makes_another_image_and_leaves_what_it_starts_from(tree: Path, path: str) -> None:
    before = digest_of(tree, "mine"), digest_of(tree, "small")
    write(tree / path, yaml.safe_dump({**MINE, "version": "1.0.1"}))
    after = digest_of(tree, "mine"), digest_of(tree, "small")
    assert after[0] != before[0]
    assert after[1] == before[1]


@pytest.mark.parametrize("path", ["images/small/image.yaml", "ansible/roles/guest_base/x.sh", "ansible/image.yml"])
def test_what_changes_the_image_it_starts_from_changes_it_too(tree: Path, path: str) -> None:
    declare(tree, **{**MINE, "name": "next", "from": "mine", "files": None, "roles": []})
    before = {name: digest_of(tree, name) for name in ("small", "mine", "next")}
    write(tree / path, yaml.safe_dump({**BASE, "version": "1.0.1"}))
    assert not before.items() & {name: digest_of(tree, name) for name in before}.items()


@pytest.mark.parametrize("path", ["tests/test_mine.py", ".git/HEAD"])
def test_tests_and_history_are_no_part_of_an_image(tree: Path, path: str) -> None:
    before = digest_of(tree, "mine")
    write(tree / "images/mine" / path, "changed = True")
    assert digest_of(tree, "mine") == before


@pytest.mark.parametrize(("mode", "same"), [(0o664, True), (0o600, False), (0o755, False)])
def test_mode_of_a_file_counts_as_far_as_it_is_copied(tree: Path, mode: int, same: bool) -> None:
    path = tree / "images/mine/files/etc/hello"
    path.chmod(0o644)
    before = digest_of(tree, "mine")
    path.chmod(mode)
    assert (digest_of(tree, "mine") == before) is same
    copied = next(layer_file for layer_file in layer_files(_custom(tree), tree) if layer_file.path == "etc/hello")
    assert copied.mode == mode & 0o755


def _custom(tree: Path) -> Any:
    return read_image(tree, "mine")


def test_link_is_copied_as_a_link(tree: Path) -> None:
    (tree / "images/mine/files/etc/again").symlink_to("../etc/hello")
    before = digest_of(tree, "mine")
    links = {layer_file.path: layer_file.link for layer_file in layer_files(_custom(tree), tree)}
    assert links == {"etc/again": "../etc/hello", "etc/hello": None}
    (tree / "images/mine/files/etc/again").unlink()
    (tree / "images/mine/files/etc/again").symlink_to("hello")
    assert digest_of(tree, "mine") != before


@pytest.mark.parametrize("target", ["/etc/passwd", "../../x", "a/../../../x", ".."])
def test_link_that_leaves_the_folder_is_refused(tree: Path, target: str) -> None:
    (tree / "images/mine/files/etc/out").symlink_to(target)
    if target == "..":
        read_image(tree, "mine")  # it leads to the folder itself
        (tree / "images/mine/files/out").symlink_to(target)
    with pytest.raises(ConfigError, match="leaves the folder"):
        read_image(tree, "mine")


def test_linked_folder_is_not_walked_into(tree: Path, tmp_path: Path) -> None:
    (tree / "images/mine/files/more").symlink_to("etc")
    assert [layer_file.path for layer_file in layer_files(_custom(tree), tree)] == ["etc/hello", "more"]


def test_special_file_is_refused(tree: Path) -> None:
    os.mkfifo(tree / "images/mine/files/etc/pipe")
    with pytest.raises(ConfigError, match="neither a file nor a folder"):
        read_image(tree, "mine")


def test_file_that_would_run_as_root_for_all_is_refused(tree: Path) -> None:
    (tree / "images/mine/files/etc/hello").chmod(0o4755)
    with pytest.raises(ConfigError, match="run as its owner"):
        read_image(tree, "mine")


def test_folder_of_files_that_is_a_link_is_refused(tree: Path) -> None:
    (tree / "images/mine/elsewhere").symlink_to("/etc")
    declare(tree, **{**MINE, "files": "elsewhere"})
    with pytest.raises(ConfigError, match="is no folder"):
        read_image(tree, "mine")


@pytest.mark.parametrize(
    ("change", "field", "reason"),
    [
        ({"from": "absent"}, "from", "not declared"),
        ({"from": "door"}, "from", "image of gateways"),
        ({"from": "mine"}, "image.yaml: declaration", "starts from itself"),
        ({"disk_gib": 3}, "disk_gib", "smaller than the disk of small, 4 GiB"),
        ({"roles": ["absent"]}, "roles", "neither of images/mine/roles nor of ansible/roles"),
        ({"roles": ["image_hygiene"]}, "image.yaml: declaration", "by itself"),
        ({"packages": ["jq", "jq"]}, "image.yaml: declaration", "named twice"),
        ({"packages": ["jq; rm -rf /"]}, "image.yaml: packages[0]", "pattern"),
        ({"packages": ["-o=Dir::Etc=/tmp"]}, "image.yaml: packages[0]", "pattern"),
        ({"files": "absent"}, "files", "is no folder"),
        ({"files": "../desktop"}, "image.yaml: files", "pattern"),
        ({"files": "roles"}, "files", "folder of the image's roles"),
        ({"base": BASE["base"]}, "image.yaml: base", "not a known key"),
    ],
    ids=str,
)
def test_wrong_declaration_is_refused(tree: Path, change: dict[str, Any], field: str, reason: str) -> None:
    declare(tree, **{**MINE, **change})
    with pytest.raises(ConfigError, match=reason) as caught:
        read_image(tree, "mine")
    assert caught.value.field == field


def test_role_that_is_in_both_places_is_refused(tree: Path) -> None:
    write(tree / "images/mine/roles/screen/tasks/main.yml", "[]")
    with pytest.raises(ConfigError, match="and of ansible/roles"):
        read_image(tree, "mine")


def test_circle_is_refused_with_its_names(tree: Path) -> None:
    declare(tree, **{**MINE, "from": "next"})
    declare(tree, **{**MINE, "name": "next", "from": "mine", "files": None, "roles": []})
    with pytest.raises(ConfigError, match="mine -> next -> mine"):
        read_image(tree, "mine")
    declare(tree, **{**MINE, "name": "outside", "from": "mine", "files": None, "roles": []})
    with pytest.raises(ConfigError, match="circle: mine -> next -> mine"):
        read_image(tree, "outside")


def test_chain_ends_with_a_distribution(tree: Path) -> None:
    declare(tree, **{**MINE, "name": "next", "from": "mine", "files": None, "roles": [], "disk_gib": 9})
    assert [image.name for image in ancestry(tree, "next")] == ["next", "mine", "small"]
    assert base_image(tree, "next").name == "small"
    assert [disk_gib(image, tree) for image in ancestry(tree, "next")] == [9, 4, 4]
    declare(tree, **{**MINE, "disk_gib": 10})
    with pytest.raises(ConfigError, match="smaller than the disk of mine, 10 GiB"):
        read_image(tree, "next")


def test_inputs_are_told_by_their_kind(tree: Path) -> None:
    kinds = {path: input_kind(path) for path in read_lineage(tree, "mine").inputs}
    assert kinds["images/mine/image.yaml"] == kinds["images/small/image.yaml"] == "declaration"
    assert kinds["images/mine/files/etc/hello"] == "file"
    assert kinds["images/mine/roles/own/tasks/main.yml"] == "role own"
    assert kinds["mechanism/layer"] == kinds["mechanism/bootstrap"] == "mechanism"


def test_suites_are_those_of_all_that_is_in_the_image(tree: Path) -> None:
    found = [str(folder.relative_to(tree)) for folder in suite_folders(read_image(tree, "mine"), tree)]
    infra = [f"tests/infra/{role}" for role in ("guest_base", "image_hygiene", "image_layer", "screen")]
    assert found == [*infra, "images/mine/tests"]


def test_role_without_a_test_is_refused(tree: Path) -> None:
    (tree / "images/mine/tests/test_mine.py").unlink()
    with pytest.raises(ConfigError, match="own"):
        suite_folders(read_image(tree, "mine"), tree)
    declare(tree, **{**MINE, "roles": ["screen"]})
    assert suite_folders(read_image(tree, "mine"), tree)[-1] == tree / "tests/infra/screen"


CHOICE = {"type": "str", "default": "round", "choices": ["round", "square"], "description": "Its shape."}


@pytest.fixture
def documented(tree: Path) -> Path:
    """The role `screen` with a variable that it documents."""
    options = {"screen_shape": CHOICE, "screen_size": {"type": "int", "default": 1, "description": "Its size."}}
    specs = {"argument_specs": {"main": {"short_description": "A screen", "options": options}}}
    write(tree / "ansible/roles/screen/meta/argument_specs.yml", yaml.safe_dump(specs))
    return tree


def test_documented_variable_of_a_role_is_part_of_the_image(documented: Path) -> None:
    before = digest_of(documented, "mine")
    declare(documented, **MINE, variables={"screen_shape": "square", "screen_size": 3})
    image = read_image(documented, "mine")
    assert isinstance(image, CustomImage)
    assert image.variables == {"screen_shape": "square", "screen_size": 3}
    assert digest_of(documented, "mine") != before


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"screen_colour": "red"}, "is a variable of none of the image's roles"),
        ({"guest_base_start": True}, "is a variable of none of the image's roles"),
        ({"screen_shape": "flat"}, "(?s)is not one of the role.s choices.*round, square"),
    ],
    ids=["unknown", "of another role", "no choice"],
)
def test_variable_that_no_role_would_take_is_refused(documented: Path, variables: dict[str, Any], reason: str) -> None:
    declare(documented, **MINE, variables=variables)
    with pytest.raises(ConfigError, match=reason):
        read_image(documented, "mine")
