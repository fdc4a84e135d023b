"""The inputs of an image, and the digest that stands for them."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from deskyard.model.image import AnyImage, CustomImage, Image
from deskyard.plan.image.image import BASES, BaseKind, image_variables, role_folder
from deskyard.plan.image.layer import layer_files
from deskyard.plan.image.suites import TESTS

# What every image is made with: a change here is a change of every image.
COMMON = ("packer", "ansible/ansible.cfg", "ansible/image.yml")
# Code that does it. Its logical name is hashed, and of its imports no path: it may move and no image is built anew.
MECHANISM = {
    "artifact": "deskyard/image/base/artifact.py",
    "base disk": "deskyard/image/base/base_disk.py",
    "boot sector": "deskyard/host/vm/boot_sector.py",
    "bootstrap": "deskyard/image/base/bootstrap.py",
    "first boot": "deskyard/image/build/first_boot.py",
    "variables": "deskyard/image/build/variables.py",
}
# What only some are made with: those that carry a program of ours, those that carry all of them, custom images, those
# with the packages of a day.
PROGRAM_MECHANISM = {"program": "deskyard/image/build/program.py"}
BUNDLE_MECHANISM = {
    "gateway": {**PROGRAM_MECHANISM, "gateway bundle": "deskyard/image/build/gateway_bundle.py"},
    "computer": PROGRAM_MECHANISM,
}
DESKYARD_MECHANISM = {
    "environment": "deskyard/image/build/environment.py",
    "sources": "deskyard/image/build/sources.py",
}
CUSTOM_COMMON = ("ansible/roles/image_layer",)
CUSTOM_MECHANISM = {"layer": "deskyard/image/build/layer.py", "npm packages": "deskyard/image/build/npm_packages.py"}
SNAPSHOT_COMMON = ("ansible/roles/package_snapshot",)
SNAPSHOT_MECHANISM = {"package snapshot": "deskyard/plan/image/package_snapshot.py"}
# Packages of our own environment that run in the build, as this file pins them.
LOCK, PINNED = "requirements.lock", ("ansible-core",)
CODE, TOOL, VARIABLES = "mechanism/", "tool/", "variables/"
OWN_IMPORT = re.compile(rb"^[ \t]*from deskyard[\w.]* import (?:\(([^)]*)\)|([^\n]*))\n", re.MULTILINE)
IGNORED_NAMES = {".git", "__pycache__", "node_modules", ".pytest_cache", ".mypy_cache", ".ruff_cache", "dist"}
DIGEST_LENGTH = 16


def digest_of(name: str, base: BaseKind, found: Mapping[str, str]) -> str:
    """The digest that image `name` has with these inputs."""
    state = hashlib.sha256(f"{name}\0{base}\0".encode())
    for path, fingerprint in found.items():
        mode, checksum = fingerprint.split()
        state.update(f"{path}\0{mode}\0".encode())
        state.update(bytes.fromhex(checksum))
    return state.hexdigest()[:DIGEST_LENGTH]


def inputs(image: AnyImage, tree: Path, inherited: Mapping[str, str]) -> dict[str, str]:
    """The fingerprint of every input by its name: who may run it (octal), then the sha256 of its content.

    The name of a file is its path; code of the mechanism has a logical name, and so have a tool and the variables that
    the roles get. Those of a custom image hold those `inherited` from the image that it starts from: what changes that
    one changes this one.
    """
    own = {str(path.relative_to(tree)): _fingerprint(path) for path in input_files(image, tree)}
    own |= {f"{CODE}{name}": _code_fingerprint(tree / path) for name, path in mechanism(image).items()}
    # Some are worked out from what other variables say, by code that is no input itself.
    own[f"{VARIABLES}{image.name}"] = _text_fingerprint(json.dumps(image_variables(image, tree), sort_keys=True))
    if isinstance(image, Image):
        return dict(sorted({**own, **_tools(tree)}.items()))
    copied = {
        str(layer_file.source.relative_to(tree)): layer_file.fingerprint() for layer_file in layer_files(image, tree)
    }
    return dict(sorted({**inherited, **own, **copied}.items()))


def _fingerprint(path: Path) -> str:
    return f"{path.stat().st_mode & 0o111:o} {hashlib.sha256(path.read_bytes()).hexdigest()}"


def _code_fingerprint(path: Path) -> str:
    """The fingerprint of a module: what it imports of ours counts by name, wherever that lies."""
    names: set[bytes] = set()

    def leave_out(found: re.Match[bytes]) -> bytes:
        names.update(re.findall(rb"\w+", found[1] or found[2]))
        return b""

    code = OWN_IMPORT.sub(leave_out, path.read_bytes())
    return f"0 {hashlib.sha256(code + b' '.join(sorted(names))).hexdigest()}"


def _tools(tree: Path) -> dict[str, str]:
    """The pinned versions; a tree without a lock has none."""
    lock = tree / LOCK
    lines = lock.read_text() if lock.is_file() else ""
    pinned = {name: re.search(rf"^{re.escape(name)}==(\S+)", lines, re.MULTILINE) for name in PINNED}
    found = {name: match[1] for name, match in pinned.items() if match}
    return {f"{TOOL}{name}": _text_fingerprint(version) for name, version in found.items()}


def _text_fingerprint(text: str) -> str:
    return f"0 {hashlib.sha256(text.encode()).hexdigest()}"


def input_kind(name: str) -> str:
    """The kind of an input: the image's declaration, one of its roles, the mechanism of all images, or a source."""
    parts = name.split("/")
    if name.startswith(VARIABLES):
        return "declaration"
    if parts[0] == "images":
        if len(parts) > 4 and parts[2] == "roles":
            return f"role {parts[3]}"
        return "file" if len(parts) > 3 else "declaration"
    if parts[:2] == ["ansible", "roles"]:
        return f"role {parts[2]}"
    shared = any(name == root or name.startswith(f"{root}/") for root in COMMON)
    return "mechanism" if shared or name.startswith((CODE, TOOL)) else "source"


def mechanism(image: AnyImage) -> dict[str, str]:
    """The code that an image itself is made with: path by logical name."""
    if isinstance(image, CustomImage):
        return CUSTOM_MECHANISM
    return {
        **MECHANISM,
        **(BUNDLE_MECHANISM[image.bundle] if image.bundle else {}),
        **(DESKYARD_MECHANISM if image.carries_deskyard else {}),
        **(SNAPSHOT_MECHANISM if image.base.snapshot else {}),
    }


def input_files(image: AnyImage, tree: Path) -> list[Path]:
    """Every file that an image itself depends on, sorted; of a custom image without those that it copies to /."""
    own = f"images/{image.name}"
    if isinstance(image, Image):
        roots = [own, *(f"ansible/roles/{role}" for role in image.roles), *COMMON, *image.sources]
        roots += [f"{BASES}/{image.base.name}.yaml"] if image.base.name else []
        roots += SNAPSHOT_COMMON if image.base.snapshot else ()
    else:
        roots = [own, *(str(role_folder(image, role, tree).relative_to(tree)) for role in image.roles)]
        roots += CUSTOM_COMMON
    found: set[Path] = set()
    for root in roots:
        path = tree / root
        found.update([path] if path.is_file() else _files_below(path))
    # The page of a role is for people.
    found = {path for path in found if not (path.name == "README.md" and (path.parent / "tasks").is_dir())}
    if isinstance(image, CustomImage):
        # Its tests are no part of it, as those of other images are not; what it copies is looked at more closely.
        apart = {TESTS, image.files}
        found = {path for path in found if not _is_below(path, tree / own, apart)}
    return sorted(found)


def _is_below(path: Path, folder: Path, names: set[str | None]) -> bool:
    return path.is_relative_to(folder) and path.relative_to(folder).parts[0] in names


def _files_below(folder: Path) -> Iterable[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and not IGNORED_NAMES.intersection(path.relative_to(folder).parts):
            yield path
