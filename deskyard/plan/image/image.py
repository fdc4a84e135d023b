"""Reads what an image is declared as, and what follows from it: ancestors, disk, roles, variables, packages."""

from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from deskyard.errors import ConfigError
from deskyard.model.base import load_yaml, parse_yaml
from deskyard.model.image import AnyImage, CustomImage, Image
from deskyard.model.image_base import Base, DistributionBase, NamedBase
from deskyard.plan.image.layer import layer_files
from deskyard.plan.image.variables import check_variables, documented, packages_of, variables_of

BaseKind = Literal["vendor", "bootstrap"]
BaseChoice = Literal["auto", "vendor", "bootstrap"]

BASES = "images/bases"


def read_image(tree: Path, name: str) -> AnyImage:
    """The declaration of image `name`; raises `ConfigError` if there is none, or it or what it starts from is wrong."""
    return ancestry(tree, name)[0]


def ancestry(tree: Path, name: str) -> tuple[AnyImage, ...]:
    """Image `name`, the one that it starts from, and so on; the last starts from a distribution."""
    found = [_read(tree, name, "image")]
    while isinstance(child := found[-1], CustomImage):
        names = [image.name for image in found]
        if child.parent in names:
            circle = " -> ".join([*names[names.index(child.parent) :], child.parent])
            raise ConfigError("from", child.parent, f"goes in a circle: {circle}", "start one of them from desktop")
        found.append(_read(tree, child.parent, "from"))
        _check_custom(child, found[-1], tree)
    for child, parent in pairwise(found):
        assert isinstance(child, CustomImage)
        _check_disk(child, disk_gib(parent, tree))
    for depth, image in enumerate(found):
        check_variables(found[depth:], _documented(image, tree))
    return tuple(found)


def parent_of(image: CustomImage, tree: Path) -> AnyImage:
    """The image that a custom image starts from."""
    return _read(tree, image.parent, "from")


def base_image(tree: Path, name: str) -> Image:
    """The image that a chain of custom images starts from in the end; `name` itself if it is none."""
    root = ancestry(tree, name)[-1]
    assert isinstance(root, Image)
    return root


def disk_gib(image: AnyImage, tree: Path) -> int:
    """Size of the image's disk: its own, else that of what it starts from."""
    if isinstance(image, CustomImage) and image.disk_gib is None:
        return disk_gib(_read(tree, image.parent, "from"), tree)
    assert image.disk_gib is not None
    return image.disk_gib


def _read(tree: Path, name: str, field: str) -> AnyImage:
    path = tree / "images" / name / "image.yaml"
    if not path.is_file():
        names = ", ".join(image_names(tree))
        raise ConfigError(field, name, "is not declared under images/", f"choose one of: {names}")
    values = load_yaml(path)
    custom = isinstance(values, dict) and "from" in values
    image: AnyImage = (
        CustomImage.check(values, path.name) if custom else Image.check(_with_base(values, tree, path.name), path.name)
    )
    if image.name != name:
        raise ConfigError("name", image.name, f"is not the name of its folder, {name}", f"write {name}")
    if isinstance(image, Image):
        _check_image(image, tree)
    return image


def _with_base(values: Any, tree: Path, source: str) -> Any:
    """The declaration of an image, with the base that it names in that name's place."""
    base = values.get("base") if isinstance(values, dict) else None
    if not isinstance(base, dict) or "name" not in base:
        return values
    named = NamedBase.check(base, f"{source}: base")
    path = tree / BASES / f"{named.name}.yaml"
    if not path.is_file():
        names = ", ".join(sorted(path.stem for path in (tree / BASES).glob("*.yaml")))
        raise ConfigError("base.name", named.name, f"is no base of {BASES}", f"write one of: {names}")
    found = DistributionBase.read(path)
    return {**values, "base": {**found.model_dump(by_alias=True), **named.model_dump()}}


def _check_image(image: Image, tree: Path) -> None:
    for role in image.roles:
        if not (tree / "ansible/roles" / role / "tasks/main.yml").is_file():
            raise ConfigError("roles", role, "is no role of ansible/roles", "correct the name or write the role")
    for source in image.sources:
        if not (tree / source).exists():
            raise ConfigError("sources", source, "is not in the tree", "correct the path")
    if image.base.from_packages is None and (
        built := [artifact.name for artifact in image.artifacts if artifact.source]
    ):
        reason = "would be built from source in a bootstrapped system, which its base does not name"
        raise ConfigError("artifacts", ", ".join(built), reason, "leave source out, or start from a Debian base")


def check_start(parent: AnyImage) -> None:
    """Raise `ConfigError` if no custom image can start from `parent`."""
    if isinstance(parent, Image) and (parent.bundle == "gateway" or parent.carries_deskyard):
        gateway = "is the image of gateways; a workspace has no other gateway than ours"
        reason = gateway if parent.bundle else "is the image of Mission Control's machine, which is no desktop"
        raise ConfigError("from", parent.name, reason, "write from: desktop")


def _check_custom(image: CustomImage, parent: AnyImage, tree: Path) -> None:
    check_start(parent)
    layer_files(image, tree)


def _documented(image: AnyImage, tree: Path) -> dict[str, dict[str, Any]]:
    """Read what the image's own roles document about their variables."""
    if isinstance(image, CustomImage):
        return documented(role_folder(image, role, tree) for role in image.roles)
    return documented(tree / "ansible/roles" / role for role in image.roles)


def image_variables(image: AnyImage, tree: Path) -> dict[str, Any]:
    """The variables that the image's own roles get: its own, and what they need on its base and with its ancestors."""
    return variables_of(ancestry(tree, image.name), _documented(image, tree))


def role_settings(role: str, tree: Path, name: str | None = None) -> dict[str, Any]:
    """The defaults of a role of ansible/roles, with what image `name` and what it starts from have otherwise."""
    folder = tree / "ansible/roles" / role
    defaults = parse_yaml((folder / "defaults/main.yml").read_text()) or {}
    return {**defaults, **(variables_of(ancestry(tree, name), documented([folder])) if name else {})}


def _check_disk(image: CustomImage, least: int) -> None:
    if image.disk_gib is not None and image.disk_gib < least:
        reason = f"is smaller than the disk of {image.parent}, {least} GiB, which cannot shrink"
        raise ConfigError("disk_gib", image.disk_gib, reason, f"write {least} or more, or leave it out")


def role_folder(image: CustomImage, role: str, tree: Path) -> Path:
    """Where a role of a custom image is: in the image's own folder, else in ansible/roles."""
    places = [tree / "images" / image.name / "roles" / role, tree / "ansible/roles" / role]
    found = [place for place in places if (place / "tasks/main.yml").is_file()]
    if not found:
        reason = f"is a role neither of images/{image.name}/roles nor of ansible/roles"
        raise ConfigError("roles", role, reason, "correct the name or write the role")
    if len(found) > 1:
        reason = f"is a role of images/{image.name}/roles and of ansible/roles"
        raise ConfigError("roles", role, reason, "give your own another name")
    return found[0]


def image_names(tree: Path) -> list[str]:
    """The names of all declared images."""
    return sorted(path.parent.name for path in (tree / "images").glob("*/image.yaml"))


def role_packages(image: Image, tree: Path) -> tuple[str, ...]:
    """The packages of the distribution that the image's roles install, sorted."""
    packages: set[str] = set()
    for role in image.roles:
        defaults = tree / "ansible/roles" / role / "defaults/main.yml"
        values = (parse_yaml(defaults.read_text()) or {}) if defaults.is_file() else {}
        packages |= packages_of(values, role, {**image.base.variables, **image.variables})
    return tuple(sorted(packages))


def bootstrap_packages(image: Image, tree: Path) -> tuple[str, ...]:
    """The packages of a bootstrapped base disk: a bootable guest, and natively installed what the roles ask for."""
    return tuple(sorted({*image.base.bootstrap.packages, *role_packages(image, tree)}))


def base_kinds(choice: BaseChoice) -> tuple[BaseKind, ...]:
    """The kinds of base disk that a choice allows, the preferred one first."""
    return ("vendor", "bootstrap") if choice == "auto" else (choice,)


def kinds_of(base: Base, choice: BaseChoice) -> tuple[BaseKind, ...]:
    """The kinds of a base; raises `ConfigError` if it has none that the choice allows."""
    if base.from_packages is not None:
        return base_kinds(choice)
    if choice == "bootstrap":
        raise base.without_bootstrap()
    return ("vendor",)
