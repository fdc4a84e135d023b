"""What an image is made from, and the digest that stands for it."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import yaml

from deskyard.errors import ConfigError
from deskyard.model.image import Image

BaseKind = Literal["vendor", "bootstrap"]
BaseChoice = Literal["auto", "vendor", "bootstrap"]

# What every image is made with: a change here is a change of every image.
MECHANISM = (
    "packer",
    "ansible/ansible.cfg",
    "ansible/image.yml",
    "deskyard/run/artifact.py",
    "deskyard/run/base_disk.py",
    "deskyard/run/boot_sector.py",
    "deskyard/run/bootstrap.py",
)
IGNORED_NAMES = {"__pycache__", "node_modules", ".pytest_cache", ".mypy_cache", ".ruff_cache", "dist"}
DIGEST_LENGTH = 16


def read_image(tree: Path, name: str) -> Image:
    """The declaration of image `name`; raises `ConfigError` if there is none or it is wrong."""
    path = tree / "images" / name / "image.yaml"
    if not path.is_file():
        known = ", ".join(image_names(tree))
        raise ConfigError("image", name, "is not declared under images/", f"choose one of: {known}")
    image = Image.read(path)
    if image.name != name:
        raise ConfigError("name", image.name, f"is not the name of its folder, {name}", f"write {name}")
    for role in image.roles:
        if not (tree / "ansible/roles" / role / "tasks/main.yml").is_file():
            raise ConfigError("roles", role, "is no role of ansible/roles", "correct the name or write the role")
    for source in image.sources:
        if not (tree / source).exists():
            raise ConfigError("sources", source, "is not in the tree", "correct the path")
    return image


def image_names(tree: Path) -> list[str]:
    """The names of all declared images."""
    return sorted(path.parent.name for path in (tree / "images").glob("*/image.yaml"))


def digest(image: Image, tree: Path, base: BaseKind) -> str:
    """Stands for everything the image is made from: the same digest means the same image."""
    state = hashlib.sha256(f"{image.name}\0{base}\0".encode())
    for path in input_files(image, tree):
        state.update(f"{path.relative_to(tree)}\0{path.stat().st_mode & 0o111:o}\0".encode())
        state.update(hashlib.sha256(path.read_bytes()).digest())
    return state.hexdigest()[:DIGEST_LENGTH]


def input_files(image: Image, tree: Path) -> list[Path]:
    """Every file that an image depends on, sorted."""
    roots = [f"images/{image.name}", *(f"ansible/roles/{role}" for role in image.roles), *MECHANISM, *image.sources]
    found: set[Path] = set()
    for root in roots:
        path = tree / root
        found.update([path] if path.is_file() else _files_below(path))
    return sorted(found)


def _files_below(folder: Path) -> Iterable[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and not IGNORED_NAMES.intersection(path.relative_to(folder).parts):
            yield path


def role_packages(image: Image, tree: Path) -> tuple[str, ...]:
    """The Debian packages that the image's roles install: the union of their `<role>_packages`, sorted."""
    packages: set[str] = set()
    for role in image.roles:
        defaults = tree / "ansible/roles" / role / "defaults/main.yml"
        values = (yaml.safe_load(defaults.read_text()) or {}) if defaults.is_file() else {}
        packages.update(values.get(f"{role}_packages", []))
    return tuple(sorted(packages))


def bootstrap_packages(image: Image, tree: Path) -> tuple[str, ...]:
    """What a bootstrapped base disk holds: a bootable guest, and natively installed what the roles ask for."""
    return tuple(sorted({*image.base.bootstrap.packages, *role_packages(image, tree)}))


def base_kinds(choice: BaseChoice) -> tuple[BaseKind, ...]:
    """The kinds of base disk that a choice allows, the preferred one first."""
    return ("vendor", "bootstrap") if choice == "auto" else (choice,)


def suite_folders(image: Image, tree: Path) -> list[Path]:
    """The testinfra suites of the image's roles; raises `ConfigError` for a role without one."""
    folders = [tree / "tests/infra" / role for role in image.roles]
    for folder in folders:
        if not any(folder.glob("test_*.py")):
            raise ConfigError("roles", folder.name, "has no tests", f"write tests/infra/{folder.name}/test_*.py")
    return folders
