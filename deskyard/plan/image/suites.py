"""The testinfra suites that an image has to pass."""

from pathlib import Path

from deskyard.errors import ConfigError
from deskyard.model.image import AnyImage, CustomImage
from deskyard.plan.image.image import parent_of

TESTS, LAYER_SUITE = "tests", "tests/infra/image_layer"


def suite_folders(image: AnyImage, tree: Path) -> list[Path]:
    """The testinfra suites of an image; raises `ConfigError` for a role without one."""
    if isinstance(image, CustomImage):
        return _custom_suites(image, tree)
    folders = [tree / "tests/infra" / role for role in image.roles]
    for folder in folders:
        if not _has_tests(folder):
            raise ConfigError("roles", folder.name, "has no tests", f"write tests/infra/{folder.name}/test_*.py")
    return folders


def _custom_suites(image: CustomImage, tree: Path) -> list[Path]:
    """The suites of what it starts from, that of packages and files, those of its roles, and its own."""
    own = tree / "images" / image.name / TESTS
    folders = [*suite_folders(parent_of(image, tree), tree), tree / LAYER_SUITE]
    for role in image.roles:
        folder = tree / "tests/infra" / role
        if _has_tests(folder):
            folders.append(folder)
        elif not _has_tests(own):
            raise ConfigError("roles", role, "has no tests", f"write images/{image.name}/{TESTS}/test_*.py")
    return list(dict.fromkeys([*folders, *([own] if _has_tests(own) else [])]))


def _has_tests(folder: Path) -> bool:
    return any(folder.glob("test_*.py"))
