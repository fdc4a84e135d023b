"""Suites that run in a guest: a freshly built image in its test boot, or a live machine of a workspace.

The guest is named by testinfra's own options, `--hosts=ssh://NAME --ssh-config=FILE --sudo`. What is expected comes
from the defaults of the role whose name the suite's folder has, and from the variables of an image or a file if named.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deskyard.plan.image.image import role_settings

HERE = Path(__file__).resolve().parent
TREE = HERE.parents[1]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that name the image that the guest was made from."""
    parser.addoption("--infra-image", default=None, help="name of the image that the guest was made from")
    parser.addoption("--infra-variables", default=None, help="JSON file of what the roles were given otherwise")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All suites below this folder need a virtual machine."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.vm)


@pytest.fixture(scope="session")
def defaults_of(request: pytest.FixtureRequest) -> Callable[[str], dict[str, Any]]:
    """The defaults of a role, by its name, as the image or the variables have them otherwise."""
    image, file = request.config.getoption("--infra-image"), request.config.getoption("--infra-variables")
    given: dict[str, Any] = json.loads(Path(file).read_text()) if file else {}

    def settings(role: str) -> dict[str, Any]:
        found = role_settings(role, TREE, image)
        return {**found, **{name: value for name, value in given.items() if name in found}}

    return settings


@pytest.fixture(scope="module")
def defaults(request: pytest.FixtureRequest, defaults_of: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """The defaults of the suite's role."""
    return defaults_of(request.path.parent.name)
