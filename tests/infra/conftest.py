"""Suites that run in a guest: a freshly built image in its test boot, or a live machine of a workspace.

The guest is named by testinfra's own options, `--hosts=ssh://NAME --ssh-config=FILE --sudo`. What is expected comes
from the defaults of the role whose name the suite's folder has, and from the variables of the image if one is named.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deskyard.plan.image import role_settings

HERE = Path(__file__).resolve().parent
TREE = HERE.parents[1]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the image that the guest was made from."""
    parser.addoption("--infra-image", default=None, help="name of the image that the guest was made from")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All suites below this folder need a virtual machine."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.vm)


@pytest.fixture(scope="session")
def defaults_of(request: pytest.FixtureRequest) -> Callable[[str], dict[str, Any]]:
    """The defaults of a role, by its name, as the image has them otherwise."""
    image = request.config.getoption("--infra-image")
    return lambda role: role_settings(role, TREE, image)


@pytest.fixture(scope="module")
def defaults(request: pytest.FixtureRequest, defaults_of: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """The defaults of the suite's role."""
    return defaults_of(request.path.parent.name)
